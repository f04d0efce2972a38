"""Reads the events of one group from `__group_events` of a Groupkeeper server, over the wire.

    log = await EventLog.of(client, "billing")
    async for events in log.read(log.start, log.end): ...

Only the partition of the group is read, in answers of bounded size. Source: docs/events.md.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from groupkeeper.client.client import LONGEST_PAUSE_S, CallFailed, Client
from groupkeeper.client.partition_log import PartitionReader
from groupkeeper.client.partitions import EARLIEST, LATEST, MOVING, NO_SUCH_RECORD, leaders_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import TOPIC, Event, decode
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    decode_records,
    read_header,
)

FIRST_PIECE: Final = 200
"""Records in the first piece that is read from the end backwards; each further one is four times as
long, up to `LARGEST_PIECE`."""
LARGEST_PIECE: Final = 64_000
PIECE_BYTES: Final = 16 * 1024 * 1024
"""Values of the group's events that a piece may have; if there are more, a shorter one is read. As
objects they take ten times as much. One event has 256 KiB at most."""
BACKWARDS_BYTES: Final = 64 * 1024 * 1024
"""What is read backwards at most: some hundred thousand events."""

EMPTY_PAUSE_S: Final = 0.05
"""After an answer without events, which a server may give at once."""


class NoEventLog(Exception):
    """The cluster has no topic `__group_events`."""


class EventTopicReader:
    """The partition with a group's events. `start` and `end` are offsets, as they were at first."""

    def __init__(self, client: Client, group: str, partition: int) -> None:
        self._log = PartitionReader(client, TOPIC, partition)
        self._key = group.encode("utf-8", "backslashreplace")
        self.start = self.end = 0
        self.bytes_read = 0
        self.unreadable = 0
        """Records that are no events."""
        self.readable = 0
        """Events of the group, or of its partition."""
        self.first_error = ""
        """What was wrong with the first record that is no event."""
        self.oldest_ms: int | None = None
        """The time of the first batch that was read."""
        self._parsed_bytes = 0

    @classmethod
    async def of(cls, client: Client, group: str) -> "EventTopicReader":
        """The log of the group's partition, by Kafka's hash. Raises NoEventLog and CallFailed."""
        partitions = [number for _, number in await leaders_of(client, [TOPIC])]
        if not partitions:
            raise NoEventLog
        log = cls(client, group, partition_of(group, max(partitions) + 1))
        log.start, log.end = await log._log.offset(EARLIEST), await log._log.offset(LATEST)
        return log

    async def since(self, time_ms: int) -> int:
        """The offset of the first event from a time on; the end if all are older."""
        offset = await self._log.offset(time_ms)
        return self.end if offset == NO_SUCH_RECORD else offset

    async def read(self, start: int, end: int) -> AsyncIterator[list[Event]]:
        """The events from `start` up to `end`, an answer at a time. Raises CallFailed."""
        while start < end:
            following, events = await self._fetch(start, end, wait_ms=0)
            if following == start:
                return
            start = following
            yield events

    async def backwards(self) -> AsyncIterator[list[Event]]:
        """All events, in pieces from the end to the start; each piece is in order.

        Ends at the start of the log, or when `BACKWARDS_BYTES` are read: then `start` is where.
        """
        end, length = self.end, FIRST_PIECE
        while end > self.start:
            if self.bytes_read >= BACKWARDS_BYTES:
                self.start = end
                return
            begin = max(self.start, end - length)
            piece = await self._piece(begin, end)
            if piece is None:
                length //= 4
                continue
            yield piece
            end, length = begin, min(4 * length, LARGEST_PIECE)

    async def _piece(self, start: int, end: int) -> list[Event] | None:
        """The events between two offsets; None if they are more than `PIECE_BYTES`."""
        most = self._parsed_bytes + PIECE_BYTES
        piece: list[Event] = []
        async for events in self.read(start, end):
            piece += events
            if self._parsed_bytes > most and end - start >= FIRST_PIECE:
                return None
        return piece

    async def follow(
        self, start: int, wait_ms: Callable[[], int], lost: Callable[[CallFailed], None]
    ) -> AsyncIterator[list[Event]]:
        """New events as they come; an empty list when none came for so long. Does not end.

        While no leader answers, `lost` is told each time that the client's timeout is over.
        """
        while True:
            try:
                start, events = await self._fetch(start, None, wait_ms())
            except CallFailed as failure:
                if failure.error not in MOVING and failure.error != ErrorCode.REQUEST_TIMED_OUT:
                    raise
                lost(failure)
                await asyncio.sleep(LONGEST_PAUSE_S)
                continue
            yield events
            if not events:
                await asyncio.sleep(EMPTY_PAUSE_S)

    # -- requests --------------------------------------------------------------------------------

    async def _fetch(self, start: int, end: int | None, wait_ms: int) -> tuple[int, list[Event]]:
        """The offset to go on from, and the events."""
        data = await self._log.fetch(start, wait_ms)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted meanwhile
            return max(start, await self._log.offset(EARLIEST)), []
        return self._events(data.records or b"", start, end)

    # -- records ---------------------------------------------------------------------------------

    # Any: bytes, or a view of them.
    def _events(self, records: Any, start: int, end: int | None) -> tuple[int, list[Event]]:
        """Of whole batches; the last one may be cut off."""
        data = bytes(records)
        self.bytes_read += len(data)
        events: list[Event] = []
        position, following = 0, start
        while position + HEADER_SIZE <= len(data):
            try:
                header = read_header(data, position)
                if header.end > len(data):
                    break
                self.oldest_ms = min(self.oldest_ms or header.max_timestamp, header.max_timestamp)
                events += self._of_batch(data, header, start, end)
            except CorruptBatch as problem:
                raise CallFailed(
                    "Fetch", None, ErrorCode.CORRUPT_MESSAGE, str(problem)
                ) from problem
            position, following = header.end, max(following, header.next_offset)
        return following, events

    def _of_batch(
        self, data: bytes, header: BatchHeader, start: int, end: int | None
    ) -> list[Event]:
        events = []
        if header.is_control:
            return []
        for record in decode_records(data, header):
            if record.offset < start or (end is not None and record.offset >= end):
                continue
            if record.value is None or record.key not in (self._key, b"", None):
                continue
            self._parsed_bytes += len(record.value)
            try:
                events.append(decode(record.key, record.value))
                self.readable += 1
            except ValueError as problem:
                self.unreadable += 1
                self.first_error = self.first_error or str(problem)
        return events
