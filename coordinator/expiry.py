"""Offsets that nobody needs any more go, and with the last one an empty group (KIP-211).

Counted from the moment the group became empty, or from the commit where there is no such moment;
a retention that came with the commit overrides the group's. Runs on a timer of the partition, a
piece at a time: a partition may hold a million offsets, and all of them may be old.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from coordinator.facts import GroupDeleted
from coordinator.group import CONSUMER, Group, GroupState
from coordinator.groups import ExpiryCheck, Groups
from coordinator.offsets import forget, note_removed
from coordinator.rebalance import drop_pending
from coordinator.records import group_key
from coordinator.step import RECORD_OVERHEAD, Step
from protocol.records.consumer_offsets import decode_offset_value

PIECE_OFFSETS = 2_000
"""How many offsets one turn looks at: some milliseconds, in which nobody else has a turn."""

PIECE_SHARE = 16
"""One turn's tombstones take this part of the largest message, plus one."""

PIECE_PAUSE_MS = 10
"""What is written and who waits get their turn before the next piece."""


@dataclass(slots=True)
class Piece:
    """What one turn may still do."""

    offsets: int
    bytes: int

    @property
    def is_over(self) -> bool:
        return self.offsets <= 0 or self.bytes <= 0

    def charge(self, step: Step) -> None:
        """A tombstone was written."""
        self.bytes -= len(step.records[-1][0]) + RECORD_OVERHEAD if step.records else 0


def expire_offsets(groups: Groups, step: Step) -> bool:
    """One piece of the check of all groups; False while some are left.

    Groups may come, go and change between two pieces: what a check misses, the next one finds.
    """
    check = groups.expiry_check
    if not check.left:
        check.left, check.kept = list(reversed(groups)), 0
    piece = Piece(PIECE_OFFSETS, 1 + step.config.message_max_bytes // PIECE_SHARE)
    while check.left and not piece.is_over:
        group = groups.get(check.left[-1])
        if group is not None and not _expire_group(group, check, piece, step):
            break
        if group is not None and group.state is GroupState.EMPTY and not group.offsets:
            delete_group(groups, group, True, step)
            piece.charge(step)
        piece.offsets -= 1
        check.left.pop()
        check.kept = 0
    return not check.left


def _expire_group(group: Group, check: ExpiryCheck, piece: Piece, step: Step) -> bool:
    """False when the piece ends before the group does."""
    room, expired = piece.offsets, 0
    offsets = list(islice(_candidates(group), check.kept, check.kept + room))
    for topic, partition, value in offsets:
        if piece.is_over:
            break
        piece.offsets -= 1
        if _is_old(group, value, step):
            forget(group, topic, partition, step)
            piece.charge(step)
            expired += 1
        else:
            check.kept += 1
    note_removed(group, expired, True, step)
    return room - piece.offsets == len(offsets) < room


def _candidates(group: Group) -> Iterator[tuple[str, int, bytes]]:
    """Topic, partition and value of what may expire at all."""
    for topic, partitions in group.offsets.items():
        if _may_expire(group, topic):
            for partition, value in partitions.items():
                yield topic, partition, value


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
    if group.is_stored:
        step.append(group_key(group.group_id), None)
    group.become(GroupState.DEAD, step.wall)
    del groups[group.group_id]
    for member_id in list(group.pending):
        drop_pending(group, member_id, step)
    step.note(GroupDeleted(group.group_id, group.generation, group.state, expired))
