"""What a log holds, in groups, members and offsets, or in messages; and how certain that is.

The newest readable record of a key is the newest one for certain if it comes after everything that
is lost. Groups are built from the log by `Replay`, as a server builds them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.log import Log

Told = Callable[[int], None]
"""Called with the number of bytes that were read."""


class State(NamedTuple):
    """What one record says: a committed offset, or a group."""

    at: int
    """The offset of the record in the log."""
    group: str
    topic: str | None
    """None: the group itself."""
    partition: int
    value: int | None
    """The committed offset, or the generation; None: deleted."""
    members: int
    time_ms: int
    """When it was committed, or when the group changed; -1 if that is unknown."""


@dataclass
class GroupContents:
    """What a log of `__consumer_offsets` holds."""

    records: int = 0
    groups: int = 0
    members: int = 0
    offsets: int = 0
    states: list[State] = field(default_factory=list)
    """The newest readable record of each key, deleted ones included, if that was asked for."""


@dataclass
class MessageContents:
    """What a log of another topic holds."""

    first: int
    """Its first offset."""
    end: int
    """The offset after its last one."""
    batches: int = 0
    records: int = 0
    next_producer_id: int = 0
    """Larger than the ids of all producers in it."""
    last_epoch: int = 0
    """The newest leader epoch in it."""


Contents = GroupContents | MessageContents


def read_groups(log: Log, told: Told, *, states: bool) -> GroupContents:
    """Build the groups of a log. Raises Corrupt, and CorruptBatch and DecodeError for records that
    no server can load.
    """
    replay, groups = Replay(), Groups()
    for chunk in log.batches(log.start_offset):
        replay.take(chunk)
        told(len(chunk))
    newest = sorted(_states(replay), key=_by_name) if states else []
    for _ in replay.restore(groups):  # which forgets the records
        pass
    return GroupContents(
        records=replay.record_count,
        groups=len(groups),
        members=sum(len(group.members) for group in groups.values()),
        offsets=sum(len(each) for group in groups.values() for each in group.offsets.values()),
        states=newest,
    )


def read_messages(log: Log, told: Told) -> MessageContents:
    """Count the messages of a log. Raises Corrupt."""
    found = MessageContents(log.start_offset, log.next_offset)
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            found.batches += 1
            found.last_epoch = max(found.last_epoch, header.leader_epoch)
            found.next_producer_id = max(found.next_producer_id, header.producer_id + 1)
            if not header.is_control:
                found.records += header.record_count
        told(len(chunk))
    return found


def _by_name(state: State) -> tuple[str, str, int]:
    return state.group, state.topic or "", state.partition


def _states(replay: Replay) -> Iterator[State]:
    for key, (at, value) in replay.newest.items():
        state = state_of(at, key, value)
        if state is not None:
            yield state


def state_of(at: int, key: bytes, value: bytes | None) -> State | None:
    """What the record at an offset says; None if it is of another type. Raises DecodeError."""
    what = decode_key(key)
    if isinstance(what, OffsetCommitKey):
        place = at, what.group, what.topic, what.partition
        if value is None:
            return State(*place, None, 0, -1)
        commit = decode_offset_value(value)
        return State(*place, commit.offset, 0, commit.commit_timestamp)
    if isinstance(what, GroupMetadataKey):
        if value is None:
            return State(at, what.group, None, -1, None, 0, -1)
        group = decode_group_value(value)
        since = group.current_state_timestamp
        return State(at, what.group, None, -1, group.generation, len(group.members), since)
    return None


def certain_from(losses: Sequence[Loss]) -> int | None:
    """Records from this offset on are the newest of their keys; None: none is for certain."""
    if any(loss.end is None for loss in losses):
        return None
    return max((loss.end or 0 for loss in losses if (loss.end or 0) > loss.first), default=0)
