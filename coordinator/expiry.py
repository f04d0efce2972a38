"""Offsets that nobody needs any more go, and with the last one an empty group (KIP-211).

Counted from the moment the group became empty, or from the commit where there is no such moment;
a retention that came with the commit overrides the group's. Runs on a timer of the partition.
"""

from coordinator.facts import GroupDeleted
from coordinator.group import CONSUMER, Group, GroupState
from coordinator.groups import Groups
from coordinator.offsets import forget, note_removed
from coordinator.rebalance import drop_pending
from coordinator.records import group_key
from coordinator.step import Step
from protocol.records.consumer_offsets import decode_offset_value


def expire_offsets(groups: Groups, step: Step) -> None:
    """One pass over all groups of the partition."""
    for group in list(groups.values()):
        _expire_group(group, step)
        if group.state is GroupState.EMPTY and not group.offsets:
            delete_group(groups, group, True, step)


def _expire_group(group: Group, step: Step) -> None:
    expired = [
        (topic, partition)
        for topic, partitions in group.offsets.items()
        if _may_expire(group, topic)
        for partition, value in partitions.items()
        if _is_old(group, value, step)
    ]
    for topic, partition in expired:
        forget(group, topic, partition, step)
    note_removed(group, len(expired), True, step)


def _may_expire(group: Group, topic: str) -> bool:
    """An empty group's offsets may; of a Stable one only those of topics nobody subscribes to."""
    if group.state is GroupState.EMPTY:
        return True
    stable = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
    return stable and not group.subscribes(topic)


def _is_old(group: Group, stored: bytes, step: Step) -> bool:
    value = decode_offset_value(stored)
    if value.expire_timestamp != -1:
        return step.wall >= value.expire_timestamp
    base = value.commit_timestamp
    emptied = group.state is GroupState.EMPTY and group.protocol_type
    if emptied and group.state_timestamp_ms != -1:
        base = group.state_timestamp_ms
    return step.wall - base >= step.config.offsets_retention_ms


def delete_group(groups: Groups, group: Group, expired: bool, step: Step) -> None:
    """Tombstones for what is left of the group, and the group is gone."""
    count = 0
    for topic, partitions in list(group.offsets.items()):
        for partition in list(partitions):
            count += forget(group, topic, partition, step)
    note_removed(group, count, expired, step)
    step.append(group_key(group.group_id), None)
    group.become(GroupState.DEAD, step.wall)
    del groups[group.group_id]
    for member_id in list(group.pending):
        drop_pending(group, member_id, step)
    step.note(GroupDeleted(group.group_id, group.generation, group.state, expired))
