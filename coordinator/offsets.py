"""OffsetCommit, OffsetFetch and OffsetDelete, and the removal of a deleted topic's offsets.

Whether a topic exists, and whether the sender may see it, was decided before: what arrives here
holds only what may be touched. Transactional commits are not here.
"""

from dataclasses import dataclass

from coordinator.caller import Caller
from coordinator.causes import Who
from coordinator.facts import OffsetsCommitted, OffsetsRemoved
from coordinator.group import CONSUMER, Group, GroupState
from coordinator.groups import Groups, group_refused
from coordinator.rebalance import rearm_session
from coordinator.records import offset_key, offset_key_head, offset_value
from coordinator.replies import check_member, note_fenced
from coordinator.step import Record, ReplyTo, Step, size_of
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.records.consumer_offsets import decode_offset_value

LAST_TIMESTAMP = 2**63 - 1
"""The largest time a record holds, in ms."""

# -- OffsetCommit --------------------------------------------------------------------------------


def commit(
    groups: Groups, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Store the offsets, if the sender may speak for the group now."""
    if not any(topic.partitions for topic in request.topics):
        nothing = commit_refused(request, ErrorCode.NONE)
        step.reply(reply_to, nothing)  # and the group is not asked, as in Kafka
        return
    group = groups.get(request.group_id)
    error = _may_commit(group, request, caller.api_version)
    if error:
        if group is not None:
            who = Who.calling(caller, request.member_id, request.group_instance_id)
            note_fenced(group, error, who, "OffsetCommit", step)
        step.reply(reply_to, commit_refused(request, error))
        return
    weighed = _weigh(request, step)
    size = size_of(weighed.records)
    if size > step.config.message_max_bytes:
        step.reply(reply_to, commit_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    if group is None:
        if len(groups) >= step.config.max_groups:
            step.note(group_refused(request.group_id, Who.calling(caller, ""), step))
            step.reply(reply_to, commit_refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        group = groups.create(request.group_id, step)
    group.is_stored = True
    for topic, partitions in weighed.offsets:
        group.offsets.setdefault(topic, {}).update(partitions)
    step.write(weighed.records, size)
    if group.members:
        rearm_session(group, group.members[request.member_id], step)
    count = len(weighed.records)
    step.note(OffsetsCommitted(group.group_id, group.generation, group.state, count))
    step.reply(reply_to, weighed.response)


def _may_commit(group: Group | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # an administrator, or a consumer that assigns by hand
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_member(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


@dataclass(slots=True)
class Weighed:
    """What a commit comes to: without those partitions whose metadata is too long."""

    response: OffsetCommitResponse
    offsets: list[tuple[str, dict[int, bytes]]]
    records: list[Record]


def _weigh(request: OffsetCommitRequest, step: Step) -> Weighed:
    weighed = Weighed(OffsetCommitResponse(), [], [])
    now, limit = step.wall, step.config.offset_metadata_max_bytes
    # v2 to v4 may carry a retention of their own, which then replaces the group's.
    retention = request.retention_time_ms
    expires = -1 if retention == -1 else min(now + retention, LAST_TIMESTAMP)
    for topic in request.topics:
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
                weighed.records.append((offset_key(head, index), value))
            results.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
        if accepted:
            weighed.offsets.append((topic.name, accepted))
        weighed.response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, partitions=results)
        )
    return weighed


def _is_longer(text: str, limit: int) -> bool:
    """Longer than the limit as Java counts: in UTF-16 units."""
    return len(text) * 2 > limit and len(text.encode("utf-16-le", "surrogatepass")) // 2 > limit


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """An error of the whole group, which the protocol shows on every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=error
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# -- OffsetFetch ---------------------------------------------------------------------------------


def fetch(
    groups: Groups, request: OffsetFetchRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """The stored offsets of one or more groups, in the form of v8; nobody is fenced by it."""
    answered: list[OffsetFetchResponseGroup] = []
    whole: dict[str, OffsetFetchResponseGroup] = {}
    for each in request.groups:
        reply = whole.get(each.group_id) if each.topics is None else None
        if reply is None:
            reply = _fetch_group(groups.get(each.group_id), each)
        if each.topics is None:  # asked for again, it is not put together again
            whole[each.group_id] = reply
        answered.append(reply)
    step.reply(reply_to, OffsetFetchResponse(groups=answered))


def _fetch_group(group: Group | None, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    stored = group.offsets if group is not None else {}
    if asked.topics is None:
        wanted = [(topic, list(partitions)) for topic, partitions in stored.items()]
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in asked.topics]
    topics = []
    for topic, partitions in wanted:
        have = stored.get(topic, {})
        rows = [_fetched(partition, have.get(partition)) for partition in partitions]
        topics.append(OffsetFetchResponseTopics(name=topic, partitions=rows))
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _fetched(partition: int, stored: bytes | None) -> OffsetFetchResponsePartitions:
    if stored is None:  # nothing stored is no error, whether or not the topic exists
        return OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=-1, committed_leader_epoch=-1
        )
    value = decode_offset_value(stored)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


# -- OffsetDelete --------------------------------------------------------------------------------


def delete(
    groups: Groups, request: OffsetDeleteRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Delete offsets (KIP-496), but not those of topics that members are subscribed to."""
    group = groups.get(request.group_id)
    error = _may_delete(group, request.group_id)
    if error or group is None:
        step.reply(reply_to, OffsetDeleteResponse(error_code=error))
        return
    response, deleted = OffsetDeleteResponse(), 0
    for topic in request.topics:
        subscribed = group.state is not GroupState.EMPTY and group.subscribes(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        results = []
        for each in topic.partitions:
            if not subscribed:
                deleted += forget(group, topic.name, each.partition_index, step)
            results.append(
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=error
                )
            )
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    note_removed(group, deleted, False, step)
    step.reply(reply_to, response)


def _may_delete(group: Group | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def forget(group: Group, topic: str, partition: int, step: Step) -> bool:
    """Write a tombstone for one offset; False when there was none."""
    stored = group.offsets.get(topic)
    if stored is None or stored.pop(partition, None) is None:
        return False
    if not stored:
        del group.offsets[topic]
    step.append(offset_key(offset_key_head(group.group_id, topic), partition), None)
    return True


def forget_topics(groups: Groups, topics: list[str], step: Step) -> None:
    """Topics were deleted: every group loses their offsets."""
    for group in groups.values():
        deleted = 0
        for topic in topics:
            for partition in list(group.offsets.get(topic, ())):
                deleted += forget(group, topic, partition, step)
        note_removed(group, deleted, False, step)


def note_removed(group: Group, offsets: int, expired: bool, step: Step) -> None:
    """Note that offsets are gone, if any are."""
    if offsets:
        step.note(OffsetsRemoved(group.group_id, group.generation, group.state, offsets, expired))
