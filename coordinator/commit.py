"""OffsetCommit: checks the sender, and stores the offsets.

Topics and partitions that do not exist were set aside before: only existing ones arrive here. A
commit of very many partitions is *prepared* a piece at a time, so that the step itself only checks
and stores. Transactional commits are not here.

Source: `OffsetMetadataManager.validateOffsetCommit` and `commitOffset`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from groupkeeper.coordinator.caller import Caller, Peer, ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.facts import OffsetsCommitted, OffsetsReset
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups, note_created, note_group_refused
from groupkeeper.coordinator.liveness import heard, rhythm_of_late
from groupkeeper.coordinator.records import offset_in, offset_key, offset_key_head, offset_value
from groupkeeper.coordinator.replies import check_member, refused
from groupkeeper.coordinator.soft_state import Outsider
from groupkeeper.coordinator.step import BATCH_OVERHEAD, KeyValue, Step, size_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_partitions_of = attrgetter("partitions")

RESETS_NOTED: Final = 2_000
"""For how many partitions the old offsets are noted when a client that is no member commits."""

OUTSIDER_PAUSE_MS: Final = 60_000
"""How long a client that is no member must pause until its next commit is noted again."""

LAST_TIMESTAMP = 2**63 - 1
"""The largest time a record holds, in ms."""


def commit(
    groups: Groups, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Store the offsets, if the sender may commit for the group now."""
    if not any(map(_partitions_of, request.topics)):
        nothing = commit_refused(request, ErrorCode.NONE)
        step.reply(reply_to, nothing)  # and the group is not asked, as in Kafka
        return
    error = _check(groups.get(request.group_id), request, caller, step)
    if error:
        step.reply(reply_to, commit_refused(request, error))
        return
    assessed = assess(request, request.topics, step.wall, step.config)
    error = _store(groups, request, assessed, caller, step)
    step.reply(reply_to, commit_refused(request, error) if error else assessed.response)


def commit_prepared(
    groups: Groups, commit: "PreparedCommit", caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """A commit of very many partitions, assessed before."""
    request = commit.request
    error = _check(groups.get(request.group_id), request, caller, step)
    error = error or _store(groups, request, commit.assessed, caller, step)
    step.reply(reply_to, commit.refused(error) if error else commit.assessed.response)


def _store(
    groups: Groups, request: OffsetCommitRequest, assessed: "Assessed", caller: Caller, step: Step
) -> ErrorCode:
    if assessed.size > step.config.message_max_bytes:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    group = groups.get(request.group_id)
    if group is None:
        if len(groups) >= step.config.max_groups:
            note_group_refused(request.group_id, Who.calling(caller, ""), step)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        group = groups.create_unused(request.group_id, Who.calling(caller, ""), step)
    if assessed.records and not group.is_stored:
        note_created(group, Who.calling(caller, request.member_id), step)
        groups.count_used(group.group_id)
        group.is_stored = True
    if not group.members and not request.member_id:
        _note_reset(group, assessed, caller, step)
    for topic, partitions in assessed.offsets:
        group.offsets.setdefault(topic, {}).update(partitions)
    step.write(assessed.records, assessed.size)
    rhythm = None
    if group.members:
        member = group.members[request.member_id]
        member.committed_ms = step.now
        heard(group, member, caller.peer, step)
        rhythm = rhythm_of_late(member)
    head = group.group_id, group.generation, group.state  # the hot path: without Group.fact_head
    who = request.member_id, request.group_instance_id
    count, offsets = len(assessed.records), assessed.offsets
    step.note(OffsetsCommitted(*head, 0, count, *who, offsets, caller, rhythm))
    return ErrorCode.NONE


def _note_reset(group: Group, assessed: "Assessed", caller: Caller, step: Step) -> None:
    """Note the offsets that a client sets without being a member. A consumer that assigns its own
    partitions commits again and again: only its first forward move is noted.
    """
    resets = _resets(group, assessed, caller)
    if not (_goes_on(group.outsider, caller.peer, step.now) and all(map(_is_forward, resets))):
        for reset in resets:
            step.note(reset)
    group.outsider = Outsider(caller.peer, step.now)


def _goes_on(known: Outsider | None, peer: Peer, now: int) -> bool:
    """Return whether this client made the last commit, on the same connection, a short time ago."""
    if known is None or now - known.committed_ms >= OUTSIDER_PAUSE_MS:
        return False
    return known.peer.link is peer.link and known.peer.client_id == peer.client_id


def _is_forward(reset: OffsetsReset) -> bool:
    """Return whether all partitions had an offset, none moves back, and none was left out."""
    return len(reset.offsets) == reset.count and all(
        before is not None and offset_in(before) <= offset_in(now)
        for _, before, now in reset.offsets
    )


def _resets(group: Group, assessed: "Assessed", caller: Caller) -> list[OffsetsReset]:
    """Return the changes that the commit makes, one for each topic."""
    who, left, resets = Who.calling(caller, ""), RESETS_NOTED, list[OffsetsReset]()
    for topic, partitions in assessed.offsets:
        before = group.offsets.get(topic, {})
        shown = islice(partitions.items(), left)
        offsets = [(index, before.get(index), value) for index, value in shown]
        left -= len(offsets)
        head, count = group.fact_head, len(partitions)
        resets.append(OffsetsReset(*head, who=who, topic=topic, offsets=offsets, count=count))
    return resets


def _check(
    group: Group | None, request: OffsetCommitRequest, caller: Caller, step: Step
) -> ErrorCode:
    generation, api = request.generation_id_or_member_epoch, "OffsetCommit"
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        later = caller.api_version >= 9
        error = ErrorCode.GROUP_ID_NOT_FOUND if later else ErrorCode.ILLEGAL_GENERATION
        return refused(None, request, api, error, caller, step)
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # an administrator, or a consumer that assigns by hand
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return refused(group, request, api, ErrorCode.UNKNOWN_MEMBER_ID, caller, step)
    error = check_member(group, request, api, caller, step)
    if error:
        return error
    if generation != group.generation:
        return refused(group, request, api, ErrorCode.ILLEGAL_GENERATION, caller, step)
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


@dataclass(slots=True)
class Assessed:
    """The records, offsets and answer of a commit, used if the group accepts it. Partitions whose
    metadata is too long are answered, and neither written nor stored.
    """

    response: OffsetCommitResponse
    offsets: list[tuple[str, dict[int, bytes]]]
    records: list[KeyValue]
    size: int = BATCH_OVERHEAD
    """Upper bound of the bytes that the records take as a batch."""


def assess(
    request: OffsetCommitRequest,
    topics: Sequence[OffsetCommitRequestTopic],
    now: int,
    config: GroupConfig,
) -> Assessed:
    """Assess some topics of a request that arrived at `now`, in Unix milliseconds."""
    limit = config.offset_metadata_max_bytes
    # v2 to v4 may carry a retention, which replaces the configured one.
    retention = request.retention_time_ms
    expires = -1 if retention == -1 else min(now + retention, LAST_TIMESTAMP)
    assessed = Assessed(OffsetCommitResponse(), [], [])
    records, rows = assessed.records, assessed.response.topics
    for topic in topics:
        head = offset_key_head(request.group_id, topic.name)
        accepted: dict[int, bytes] = {}
        results = []
        for each in topic.partitions:
            index, metadata = each.partition_index, each.committed_metadata or ""
            error = ErrorCode.NONE
            if metadata and _is_longer(metadata, limit):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                stamp = now if each.commit_timestamp == -1 else each.commit_timestamp
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                accepted[index] = value = offset_value(offset, epoch, metadata, stamp, expires)
                records.append((offset_key(head, index), value))
            results.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
        if accepted:
            assessed.offsets.append((topic.name, accepted))
        rows.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
    assessed.size = size_of(records)
    return assessed


def _is_longer(text: str, limit: int) -> bool:
    """Return whether a text exceeds the limit in UTF-16 units, as Java counts."""
    return len(text) * 2 > limit and len(text.encode("utf-16-le", "surrogatepass")) // 2 > limit


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Refuse a commit: the protocol repeats an error of the whole group for every partition."""
    return _with_rows(partial(_refused_row, error), request.topics)


def _with_rows(
    row: Callable[[Any], OffsetCommitResponsePartition], topics: Any
) -> OffsetCommitResponse:
    """Make a response with a row for each partition; rows are made while it is encoded."""

    def topic(each: Any) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(name=each.name, partitions=mapped(row, each.partitions))

    return OffsetCommitResponse(topics=mapped(topic, topics))


def _refused_row(
    error: ErrorCode, asked: OffsetCommitRequestPartition | OffsetCommitResponsePartition
) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)


@dataclass(slots=True)
class PreparedCommit:
    """A commit of very many partitions, assessed a piece at a time."""

    request: OffsetCommitRequest
    wall: int
    """Arrival of the request, in Unix milliseconds."""
    config: GroupConfig
    assessed: Assessed = field(default_factory=lambda: Assessed(OffsetCommitResponse(), [], []))

    @property
    def group_id(self) -> str:
        return self.request.group_id

    def add(self, topic: OffsetCommitRequestTopic, exist: int, continues: bool) -> int:
        """Add some partitions of a topic; returns how many of them exist.

        The topic has `exist` partitions. `continues`: the topic is the one added last.
        """
        asked = topic.partitions
        known = [each for each in asked if 0 <= each.partition_index < exist]
        some = OffsetCommitRequestTopic(name=topic.name, partitions=known)
        part = assess(self.request, [some], self.wall, self.config)
        rows = part.response.topics[0].partitions
        if len(known) < len(asked):
            # By position, not by partition: a request may name one twice, with different results.
            answered = iter(rows)
            unknown = partial(_refused_row, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            rows = [
                next(answered) if 0 <= each.partition_index < exist else unknown(each)
                for each in asked
            ]
        whole = self.assessed
        if continues:
            whole.response.topics[-1].partitions += rows
        else:
            row = OffsetCommitResponseTopic(name=topic.name, partitions=rows)
            whole.response.topics.append(row)
        whole.offsets += part.offsets
        whole.size += part.size - BATCH_OVERHEAD
        whole.records += part.records
        return len(known)

    def refused(self, error: ErrorCode) -> OffsetCommitResponse:
        """Refuse all; partitions that do not exist keep their own error."""
        return spoil_commit(self.assessed.response, error)


def spoil_commit(response: OffsetCommitResponse, error: ErrorCode) -> OffsetCommitResponse:
    """Put the error on every partition except those that do not exist."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def row(each: OffsetCommitResponsePartition) -> OffsetCommitResponsePartition:
        return each if each.error_code == missing else _refused_row(error, each)

    return _with_rows(row, response.topics)
