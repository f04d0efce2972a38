"""OffsetFetch and OffsetDelete.

Topics that do not exist, or that the sender may not see, were set aside before. Transactional
commits are not here.

Source: `OffsetMetadataManager.fetchOffsets`, `fetchAllOffsets`, `deleteOffsets`.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.deletion import forget, note_removed
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import Mapped, mapped
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from groupkeeper.protocol.records.consumer_offsets import decode_offset_value

_ROW_BYTES = 20
"""Bytes of a row without a value, and about those of a topic; values count as in the log."""

# -- OffsetFetch ---------------------------------------------------------------------------------


def fetch(
    groups: Groups, request: OffsetFetchRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Return the stored offsets of groups, in the form of v8. Any client may fetch them."""
    answered: list[OffsetFetchResponseGroup] = []
    whole: dict[str, OffsetFetchResponseGroup] = {}
    for each in request.groups:
        reply = whole.get(each.group_id) if each.topics is None else None
        if reply is None:
            reply = _fetch_group(groups, each)
        if each.topics is None:  # asked for twice, it is built once
            whole[each.group_id] = reply
        answered.append(reply)
    step.reply(reply_to, OffsetFetchResponse(groups=answered))


def _fetch_group(groups: Groups, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """Return the current values, which become rows while the answer is encoded."""
    if asked.group_id in groups.deletions:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
    group = groups.get(asked.group_id)
    stored = group.offsets if group is not None else {}
    if asked.topics is None:
        names = list(stored)
        rows = [partitions.copy() for partitions in stored.values()]
        topics = mapped(_whole_topic, names, rows)
    else:
        values = [_values(stored.get(topic.name), topic) for topic in asked.topics]
        topics = mapped(_asked_topic, asked.topics, values)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def merge_parts(parts: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
    """Merge answers about some topics of the same group; an error in one is the error of all."""
    for part in parts:
        if part.error_code:
            return part
    columns: list[Any] = [part.topics.columns for part in cast("Any", parts)]
    asked, values = (list(chain.from_iterable(rows)) for rows in zip(*columns, strict=True))
    topics = mapped(_asked_topic, asked, values)
    return OffsetFetchResponseGroup(group_id=parts[0].group_id, topics=topics)


def offset_bytes(fetched: OffsetFetchResponseGroup) -> int:
    """Estimate the bytes of the offsets in an answer."""
    topics: Sequence[Any] = fetched.topics
    if not isinstance(topics, Mapped):
        return 0
    size = 0
    for stored in topics.columns[1]:
        values = list(stored.values() if isinstance(stored, dict) else filter(None, stored))
        size += _ROW_BYTES * (1 + len(stored) - len(values)) + sum(map(len, values))
    return size


def _values(
    stored: dict[int, bytes] | None, asked: OffsetFetchRequestTopics
) -> Sequence[bytes | None]:
    if stored is None:
        return [None] * len(asked.partition_indexes)
    return list(map(stored.get, asked.partition_indexes))


def _whole_topic(topic: str, stored: dict[int, bytes]) -> OffsetFetchResponseTopics:
    rows = mapped(_fetched, list(stored), list(stored.values()))
    return OffsetFetchResponseTopics(name=topic, partitions=rows)


def _asked_topic(
    asked: OffsetFetchRequestTopics, values: Sequence[bytes | None]
) -> OffsetFetchResponseTopics:
    rows = mapped(_fetched, asked.partition_indexes, values)
    return OffsetFetchResponseTopics(name=asked.name, partitions=rows)


def _fetched(partition: int, stored: bytes | None) -> OffsetFetchResponsePartitions:
    if stored is None:  # no offset is not an error, whether or not the topic exists
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
    """Delete offsets (KIP-496), except those of topics that members subscribe to."""
    group = groups.get(request.group_id)
    error = _may_delete(group, request.group_id)
    if error or group is None:
        step.reply(reply_to, OffsetDeleteResponse(error_code=error))
        return
    response, deleted = OffsetDeleteResponse(), defaultdict[str, list[int]](list)
    for topic in request.topics:
        subscribed = group.state is not GroupState.EMPTY and group.subscribes(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        results = []
        for each in topic.partitions:
            if not subscribed and forget(group, topic.name, each.partition_index, step):
                deleted[topic.name].append(each.partition_index)
            results.append(
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=error
                )
            )
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    note_removed(group, deleted, "request", Who.calling(caller, ""), step)
    step.reply(reply_to, response)


def _may_delete(group: Group | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE
