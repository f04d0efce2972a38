"""Removes expired offsets, and an empty group with its last offset (KIP-211).

The retention counts from the moment the group became empty, or from the commit if that moment is
unknown. A retention that came with the commit overrides the configured one. The check runs on a
timer of the partition, a piece at a time: a partition may hold a million expired offsets.

Source: `GroupCoordinatorShard.cleanupGroupMetadata`, `OffsetMetadataManager.cleanupExpiredOffsets`,
`ClassicGroup.isSubscribedToTopic`, `OffsetExpirationConditionImpl`.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final

from groupkeeper.coordinator.deletion import Allowance, delete_group, forget, note_removed
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import ExpiryCheck, Groups
from groupkeeper.coordinator.records import offset_times
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.embedded import CONSUMER

LOOKED_AT_IN_A_SLICE: Final = 500
"""How many groups and offsets a slice of `first_expiry` visits, in less than a millisecond."""


def expire_offsets(groups: Groups, step: Step) -> bool:
    """Check some groups; False while groups are left.

    Groups may appear, vanish and change between two pieces: the next check finds what this one
    misses.
    """
    check = groups.expiry_check
    if not check.left:
        check.left, check.kept, check.expired = list(reversed(groups)), 0, False
    allowed = Allowance.of(step)
    while check.left and not allowed.is_over(step):
        group = _checked(groups, check.left[-1])
        if group is not None and not _expire_group(group, check, allowed, step):
            break
        if group is not None and group.state is GroupState.EMPTY and not group.offsets:
            delete_group(groups, group, "expired" if check.expired else "unused", None, step)
        allowed.offsets -= 1
        check.left.pop()
        check.kept, check.expired = 0, False
    return not check.left


def _checked(groups: Groups, group_id: str) -> Group | None:
    """The group, unless it is deleted or being deleted."""
    return None if group_id in groups.deletions else groups.get(group_id)


def _expire_group(group: Group, check: ExpiryCheck, allowed: Allowance, step: Step) -> bool:
    """Check the offsets of a group; False when the piece ends before that is done."""
    room, expired = allowed.offsets, defaultdict[str, list[int]](list)
    offsets = list(islice(_candidates(group, check.kept), room))
    for topic, partition, value in offsets:
        if allowed.is_over(step):
            break
        allowed.offsets -= 1
        if _is_old(group, value, step):
            forget(group, topic, partition, step)
            expired[topic].append(partition)
        else:
            check.kept += 1
    check.expired = check.expired or bool(expired)
    note_removed(group, expired, "expired", None, step)
    return room - allowed.offsets == len(offsets) < room


def _candidates(group: Group, passed: int) -> Iterator[tuple[str, int, bytes]]:
    """Return topic, partition and value of offsets that may expire, after the first `passed`."""
    for topic, partitions in group.offsets.items():
        if _may_expire(group, topic):
            for partition, value in islice(partitions.items(), passed, None):
                yield topic, partition, value
            passed = max(passed - len(partitions), 0)


def _may_expire(group: Group, topic: str) -> bool:
    """Whether offsets of the topic may expire: in a Stable group only without a subscriber."""
    if group.state is GroupState.EMPTY:
        return True
    stable = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
    return stable and not group.subscribes(topic)


def _is_old(group: Group, stored: bytes, step: Step) -> bool:
    return step.wall >= _expires_at(group, stored, step.config.offsets_retention_ms)


def _expires_at(group: Group, stored: bytes, retention_ms: int) -> int:
    base, expires = offset_times(stored)
    if expires != -1:
        return expires
    emptied = group.state is GroupState.EMPTY and group.protocol_type
    if emptied and group.state_timestamp_ms != -1:
        base = group.state_timestamp_ms
    return base + retention_ms


def first_expiry(groups: Groups, retention_ms: int) -> Generator[None, None, int | None]:
    """Return the time of the first expiry, in Unix ms, or None without any. In slices."""
    if groups.expiry_check.left:  # a check is under way
        return 0
    first: int | None = None
    work = 0
    for group_id in list(groups):
        group = _checked(groups, group_id)
        if group is None:
            continue
        if group.state is GroupState.EMPTY and not group.offsets:
            return 0
        for _, _, stored in list(_candidates(group, 0)):
            at = _expires_at(group, stored, retention_ms)
            first = at if first is None else min(first, at)
            work += 1
            if work % LOOKED_AT_IN_A_SLICE == 0:
                yield
        work += 1
        if work % LOOKED_AT_IN_A_SLICE == 0:
            yield
    return first
