"""Short cut for repeated commits: `SteadyCommit` keeps the data that an accepted commit resolved
to.

A consumer commits the same partitions again and again, with other offsets. While its group does not
change, and no topic was deleted, all checks of the first commit hold for the next one, too; only
the values of the records differ. What is stored, written and noted is what `commit` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Timer
from groupkeeper.coordinator.facts import OffsetsCommitted
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import rhythm_of_late, session_timer
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.records import (
    offset_key,
    offset_key_head,
    offset_value,
    parts_of_value,
)
from groupkeeper.coordinator.step import BATCH_OVERHEAD, RECORD_OVERHEAD, Step
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_TIMESTAMP = Struct(">q").pack
_V3 = b"\0\3"
"""The version, with which an OffsetCommitValue begins."""

_Place = tuple[int, bytes, bytes]
"""A partition: its index, the key of its record, and the part of the record's value between offset
and timestamp."""


Offsets = Sequence[bytes]
"""8 bytes each, as in requests and records."""


@dataclass(slots=True, eq=False)
class SteadyCommit:
    """An accepted commit with the group, member and records that it resolved to."""

    group: Group
    member: Member
    changes: int
    """`group.changes` at the time of the commit. A different value makes this invalid."""
    timer: Timer
    caller: Caller
    instance_id: str | None
    """Instance id of the request."""
    response: OffsetCommitResponse
    """The answer: no partition has an error."""
    topics: Sequence[tuple[str, Sequence[_Place]]]
    count: int
    """Number of partitions."""
    size: int
    """Upper bound of the bytes that the records add to a batch."""


def steady_commit(
    groups: Groups,
    config: GroupConfig,
    asked: OffsetCommitRequest,
    answered: OffsetCommitResponse,
    caller: Caller,
) -> SteadyCommit | None:
    """Return the short cut for a request that was just answered without an error. None for a sender
    that is no member, for a commit with a retention, and for version 1, where partitions have
    timestamps.
    """
    group = groups.get(asked.group_id)
    if group is None or group.state is not GroupState.STABLE or asked.retention_time_ms != -1:
        return None
    member = group.members.get(asked.member_id)
    if member is None or asked.generation_id_or_member_epoch != group.generation or member.waits:
        return None
    if asked.group_instance_id not in (None, member.instance_id):
        return None
    topics, size, count = [], 0, 0
    middles: dict[bytes, bytes] = {}
    for topic in asked.topics:
        head, places = offset_key_head(asked.group_id, topic.name), list[_Place]()
        for each in topic.partitions:
            key = offset_key(head, each.partition_index)
            metadata = each.committed_metadata or ""
            value = offset_value(0, each.committed_leader_epoch, metadata, 0, -1)
            middle = parts_of_value(value)[1]
            places.append((each.partition_index, key, middles.setdefault(middle, middle)))
            size += RECORD_OVERHEAD + len(key) + len(value)
        topics.append((topic.name, places))
        count += len(places)
    if BATCH_OVERHEAD + size > config.message_max_bytes:
        return None
    return SteadyCommit(
        group=group,
        member=member,
        changes=group.changes,
        timer=session_timer(group, member),
        caller=caller,
        instance_id=asked.group_instance_id,
        response=answered,
        topics=topics,
        count=count,
        size=size,
    )


def is_valid(steady: SteadyCommit) -> bool:
    """Return whether `commit_again` does what `commit` would do."""
    group = steady.group
    return group.changes == steady.changes and group.returning is None


def commit_again(steady: SteadyCommit, offsets: Offsets, reply_to: ReplyTo, step: Step) -> None:
    """Store offsets for the same partitions, in their order."""
    step.reply(reply_to, steady.response)  # first: whatever raises, it is answered
    group, member, now = steady.group, steady.member, step.now
    stamp, records, left = _TIMESTAMP(step.wall), step.records, iter(offsets)
    accepted, before, tail = [], None, b""
    for topic, places in steady.topics:
        values: dict[int, bytes] = {}
        for (index, key, middle), offset in zip(places, left):  # noqa: B905  # the rest is for others
            if middle is not before:
                before, tail = middle, middle + stamp
            values[index] = value = _V3 + offset + tail
            records.append((key, value))
        known = group.offsets.get(topic)
        if known is None:
            group.offsets[topic] = dict(values)
        else:
            known.update(values)
        accepted.append((topic, values))
    step.size += steady.size
    # As `liveness.heard`: the timer runs, and its bound in the heap is earlier.
    member.committed_ms = member.heard_ms = now
    member.peer = steady.caller.peer
    step.deadlines.due[steady.timer] = now + member.session_timeout_ms
    head = group.group_id, group.generation, group.state
    who = member.member_id, steady.instance_id
    rhythm = rhythm_of_late(member)
    fact = OffsetsCommitted(*head, 0, steady.count, *who, accepted, steady.caller, rhythm)
    step.note(fact)
