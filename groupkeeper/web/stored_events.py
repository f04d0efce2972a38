"""Reads the stored events of one group like a Fetch: bounded, in slices, without a cache.

All groups of a partition share an event log. Batches that do not contain the group's id are skipped
without decoding their records. Offsets are positions in the log; an `EventPosition` (epoch and seq)
is the position that users see.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from groupkeeper.protocol.record_batch import CorruptBatch, decode_records, iter_batches
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.limits import OverLimitError
from groupkeeper.topics.names import EVENT_TOPIC
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices, Turns
from groupkeeper.web.parts import SOON, HttpRefused
from groupkeeper.web.route import EventPosition

READ_BYTES: Final = 16 * 1024 * 1024
"""Maximum size read for one response: some ten thousand events. Responses have a cursor."""
FETCH_BYTES: Final = 512 * 1024
"""Maximum size of one read; a larger batch is returned alone."""
FIRST_PIECE: Final = 500
"""Number of records in the first piece of a backward read; each further piece is twice as long, up
to `LARGEST_PIECE`."""
LARGEST_PIECE: Final = 8_000
BATCHES_IN_A_SLICE: Final = 100
RECORDS_IN_A_SLICE: Final = 100

_VERSION: Final = 12
"""The last version of Fetch with topic names."""
_PLACE: Final = re.compile(rb'\{"v":\d+,"seq":(\d+),"epoch":(\d+),')
_NO_GROUP: Final = b'"group":null'


class Stored(NamedTuple):
    """A stored event."""

    offset: int
    place: EventPosition
    key: bytes
    """The group id; empty for events of the partition."""
    value: bytes
    """The event as one line of JSON."""


@dataclass(slots=True)
class _Piece:
    """The result of one read."""

    events: list[Stored]
    following: int
    """Offset of the next read."""


def event_partition(topics: Topics, number: int) -> TopicPartition:
    """Return a partition of the event topic."""
    found = topics.partitions.find(EVENT_TOPIC, number)
    assert found is not None, "it has as many partitions as the group topic"
    return found


class EventReader:
    """Reads one partition of the event topic, for one request. Methods raise HttpRefused if the
    partition is unavailable.
    """

    def __init__(self, topics: Topics, turns: Turns, partition: int, group: str | None) -> None:
        """`group`: return the events of this group and of the partition itself; None: all."""
        self._topics = topics
        self._turns = turns
        self._partition = partition
        self._key = None if group is None else group.encode("utf-8", "backslashreplace")
        self.bytes_read = 0

    @property
    def is_spent(self) -> bool:
        """Whether `READ_BYTES` have been read."""
        return self.bytes_read >= READ_BYTES

    async def bounds(self) -> tuple[int, int]:
        """Return log start and end offset; (0, 0) if no event was ever stored."""
        log = event_partition(self._topics, self._partition).log
        is_stored = self._topics.settings.group_events_enabled
        if log is None and is_stored and not self._is_new():
            raise HttpRefused(503, "the events are unavailable: their log is closed", SOON)
        return (0, 0) if log is None else (log.start_offset, log.next_offset)

    def _is_new(self) -> bool:
        return self._topics.partitions.is_new(EVENT_TOPIC, self._partition)

    async def since(self, time_ms: int) -> int:
        """Return the offset of the first event from a time on; the log end if all are older."""
        log = event_partition(self._topics, self._partition).log
        try:
            found = None if log is None else await self._topics.lookup.first(log, time_ms)
        except (StorageError, OSError, CorruptBatch, OverLimitError) as problem:
            raise HttpRefused(503, f"the events are unavailable: {problem}", SOON) from None
        return (await self.bounds())[1] if found is None else found[0]

    async def after(self, place: EventPosition) -> int:
        """Return the offset of the first event after a place, by binary search."""
        low, high = await self.bounds()
        while low < high:
            middle = (low + high) // 2
            first = await self._first(middle)
            if first is None or first[1] > place:
                high = middle
            else:
                low = first[0] + 1
        return low

    async def place_before(self, offset: int) -> EventPosition | None:
        """Return the place of the last event before an offset; None if there is none. Steps back in
        growing distances, because the cleaner may have removed a million events.
        """
        (start, _), step = await self.bounds(), 1
        while offset > start:
            begin = at = max(start, offset - step)
            last: EventPosition | None = None
            while at < offset:
                found, at = await self._batch(at)
                last = next((place for each, place in found[::-1] if each < offset), last)
            if last is not None:
                return last
            offset, step = begin, 2 * step
        return None

    async def place_at(self, offset: int) -> EventPosition | None:
        """Return the place of the first event from an offset on; None if there is none."""
        first = await self._first(offset)
        return None if first is None else first[1]

    async def read(self, start: int, end: int) -> AsyncIterator[_Piece]:
        """Yield the events in [start, end), one read at a time, until `is_spent`."""
        while start < end and not self.is_spent:
            data = await self._fetch(start, FETCH_BYTES)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted in the meantime
                first, _ = await self.bounds()
                if first <= start:
                    return
                start = first
                continue
            records = bytes(data.records or b"")
            self.bytes_read += len(records)
            piece = await self._turns.run(self._events(records, start, end))
            if piece.following <= start:
                return
            start = piece.following
            yield piece

    async def backwards(self, start: int, end: int) -> AsyncIterator[tuple[int, list[Stored]]]:
        """Yield the events in [start, end) as (offset, piece), from the last piece to the first;
        events within a piece are in order.
        """
        length = FIRST_PIECE
        while end > start and not self.is_spent:
            begin = max(start, end - length)
            yield begin, [each async for piece in self.read(begin, end) for each in piece.events]
            end, length = begin, min(2 * length, LARGEST_PIECE)

    # -- reading ---------------------------------------------------------------------------------

    async def _first(self, offset: int) -> tuple[int, EventPosition] | None:
        """Return offset and place of the first event from an offset on; None if there is none.
        The cleaner may have left batches without events.
        """
        _, end = await self.bounds()
        while offset < end:
            found, following = await self._batch(offset)
            first = next((each for each in found if each[0] >= offset), None)
            if first is not None:
                return first
            offset = following
        return None

    async def _batch(self, offset: int) -> tuple[list[tuple[int, EventPosition]], int]:
        """Return (offset, place) of the events in the batch at or after an offset, and the offset
        after the batch.
        """
        data = await self._fetch(offset, 1)
        try:
            found, following = await self._turns.run(_places(bytes(data.records or b"")))
        except CorruptBatch as problem:
            raise HttpRefused(500, f"the events cannot be read: {problem}") from None
        return found, max(following, offset + 1)

    async def _fetch(self, offset: int, size: int) -> PartitionData:
        wanted = FetchPartition(
            partition=self._partition, fetch_offset=offset, partition_max_bytes=size
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=EVENT_TOPIC, partitions=[wanted])],
        )
        result = await self._topics.reader.read(request, _VERSION, self._turns)
        data: PartitionData = result.response.responses[0].partitions[0]
        if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            line = f"the events are unavailable ({ErrorCode(data.error_code).name}): retry"
            raise HttpRefused(503, line, SOON)
        return data

    def _events(self, data: bytes, start: int, end: int) -> Slices[_Piece]:
        events: list[Stored] = []
        following = start
        try:
            for number, header in enumerate(iter_batches(data)):
                if number % BATCHES_IN_A_SLICE == BATCHES_IN_A_SLICE - 1:
                    yield
                following = max(following, min(header.next_offset, end))
                if header.next_offset <= start or header.base_offset >= end:
                    continue
                if header.codec or self._may_be_in(data, header.position, header.end):
                    records = decode_records(data, header)
                    for count, record in enumerate(records):
                        if count % RECORDS_IN_A_SLICE == RECORDS_IN_A_SLICE - 1:
                            yield
                        wanted = self._key is None or record.key in (self._key, b"", None)
                        if wanted and start <= record.offset < end and record.value is not None:
                            events += _read(record.offset, record.key, record.value)
        except CorruptBatch as problem:
            raise HttpRefused(500, f"the events cannot be read: {problem}") from None
        return _Piece(events, following)

    def _may_be_in(self, data: bytes, start: int, end: int) -> bool:
        """Whether a batch may contain events of the group or of the partition."""
        if self._key is None:
            return True
        return data.find(self._key, start, end) >= 0 or data.find(_NO_GROUP, start, end) >= 0


def _read(offset: int, key: bytes | None, value: bytes) -> list[Stored]:
    """Return the event of a record as a list; empty for any other record."""
    match = _PLACE.match(value)
    if match is None:
        return []
    return [Stored(offset, (int(match[2]), int(match[1])), key or b"", value)]


def _places(data: bytes) -> Slices[tuple[list[tuple[int, EventPosition]], int]]:
    """Return (offset, place) of all events in the first batch, and the offset after it."""
    found, following = list[tuple[int, EventPosition]](), 0
    header = next(iter_batches(data), None)
    if header is not None:
        following = header.next_offset
        for count, record in enumerate(decode_records(data, header)):
            if count % RECORDS_IN_A_SLICE == RECORDS_IN_A_SLICE - 1:
                yield
            if record.value is not None:
                events = _read(record.offset, record.key, record.value)
                found += [(each.offset, each.place) for each in events]
    return found, following
