"""Loads groups from a log: collects the newest value of every key, then builds the groups.

Keys are compared as raw bytes, and values are decoded only after the whole log is read: most
records of an offsets log are overwritten by later ones. Transactional commits, which a log of
Apache Kafka may have, count from their commit marker on, unless a later plain commit exists.

Source: `CoordinatorLoaderImpl`, `GroupMetadataManager.replay`, `OffsetMetadataManager.replay` and
`replayEndTransactionMarker`.
"""

from collections.abc import Generator, Mapping
from typing import Final

from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.records import checked_offset_value, restore_group
from groupkeeper.coordinator.soft_state import Seat, added
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.record_batch import (
    BatchHeader,
    Record,
    decode_records,
    lone_record,
    read_header,
)
from groupkeeper.protocol.records.consumer_offsets import (
    GroupConfigsKey,
    GroupMetadataKey,
    GroupSeatKey,
    GroupSeatValue,
    OffsetCommitKey,
    decode_configs_value,
    decode_group_value,
    decode_key,
    decode_seat_value,
)

COMMIT_MARKER = b"\x00\x00\x00\x01"
"""Key of an end-transaction marker: version 0, type 1 (type 0 aborts)."""

RESTORED_IN_A_SLICE = 200
"""The records of one slice of `Replay.restore`, about a millisecond."""

FORGOTTEN_IN_A_SLICE = 5_000
"""How many records that are only forgotten make up one slice."""

_Newest = dict[bytes, tuple[int, bytes | None]]
"""Key to log offset and value; None is a tombstone."""


class Replay:
    """Reads a partition's batches in log order."""

    def __init__(self) -> None:
        self.record_count = 0
        self._newest: _Newest = {}
        self._open: dict[int, _Newest] = {}

    @property
    def newest(self) -> Mapping[bytes, tuple[int, bytes | None]]:
        """Newest record of every key so far: its offset in the log and its value."""
        return self._newest

    def take(self, batches: bytes) -> None:
        """Read a run of whole batches. Raises CorruptBatch."""
        position = 0
        while position < len(batches):
            lone = lone_record(batches, position)
            if lone is None:
                header = read_header(batches, position)
                self._take_batch(batches, header)
                position = header.end
            else:
                position, offset, key, value = lone
                self.record_count += 1
                self._newest[key] = (offset, value)

    def _take_batch(self, batches: bytes, header: BatchHeader) -> None:
        records = decode_records(batches, header)
        if header.is_control:
            self._end_transaction(header, list(records))
            return
        target = self._newest
        if header.is_transactional:
            target = self._open.setdefault(header.producer_id, {})
        for record in records:
            self.record_count += 1
            if record.key is not None:
                target[record.key] = (record.offset, record.value)

    def _end_transaction(self, header: BatchHeader, marker: list[Record]) -> None:
        pending = self._open.pop(header.producer_id, {})
        if not marker or marker[0].key != COMMIT_MARKER:
            return
        for key, (offset, value) in pending.items():
            if offset > self._newest.get(key, (-1, None))[0]:
                self._newest[key] = (offset, value)

    def restore(self, groups: Groups) -> Generator[None, None, None]:
        """Build the groups, in slices, and forget the records. Those of unknown types are skipped.

        Memory is freed in slices, too: to free a million records at once takes 50 ms.
        """
        offsets: list[tuple[OffsetCommitKey, bytes]] = []
        seats: list[tuple[GroupSeatKey, GroupSeatValue]] = []
        for count, (raw, (_, value)) in enumerate(self._newest.items(), 1):
            if not count % RESTORED_IN_A_SLICE:
                yield
            if value is None:
                continue
            match key := decode_key(raw):
                case GroupMetadataKey():
                    groups[key.group] = restore_group(key.group, decode_group_value(value))
                case OffsetCommitKey():
                    offsets.append((key, value))
                case GroupConfigsKey():
                    configs = decode_configs_value(value).configs
                    groups.configs[key.group] = {each.name: each.value for each in configs}
                case GroupSeatKey():
                    seats.append((key, decode_seat_value(value)))
        _restore_seats(groups, seats)
        yield from _restore_offsets(groups, offsets)
        yield from self._forget()

    def _forget(self) -> Generator[None, None, None]:
        while self._newest:
            if not len(self._newest) % FORGOTTEN_IN_A_SLICE:
                yield
            self._newest.popitem()


def _restore_offsets(
    groups: Groups, found: list[tuple[OffsetCommitKey, bytes]]
) -> Generator[None, None, None]:
    found.reverse()
    while found:
        if not len(found) % RESTORED_IN_A_SLICE:
            yield
        key, value = found.pop()
        group = groups.get(key.group)
        if group is None:  # a simple group: offsets, and no members ever
            group = groups[key.group] = Group(key.group, -1, is_stored=True)
        group.offsets.setdefault(key.topic, {})[key.partition] = checked_offset_value(value)


_UNKNOWN: Final = CauseCode.SESSION_EXPIRED
_CODES: Final = {str(each): each for each in CauseCode}


def _restore_seats(groups: Groups, found: list[tuple[GroupSeatKey, GroupSeatValue]]) -> None:
    """Add the seats to their groups, the first one lost first. Their monotonic times are set when
    the sessions start. A seat of a member that the group's record does not have is none, and its
    record is deleted later: the crash came between two batches.
    """
    found.sort(key=lambda each: each[1].since)
    for key, value in found:
        group = groups.get(key.group)
        if group is None:
            continue
        if key.member in group.members:
            seat = Seat(0, value.since, _CODES.get(value.code, _UNKNOWN))
            group.seats = added(group.seats, key.member, seat)
        else:
            group.freed_seats = added(group.freed_seats, key.member, None)
