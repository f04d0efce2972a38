"""Reads the events of one group from `__group_events` of a Groupkeeper server, over the wire.

    log = await EventLog.of(client, "billing")
    async for events in log.read(log.start, log.end): ...

Only the group's partition is read, in responses of bounded size. Source: docs/events.md.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.partition_log import PartitionReader, followed
from groupkeeper.client.partitions import EARLIEST, LATEST, NO_SUCH_RECORD, leaders_of
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
"""Number of records in the first piece of a backward read; each further piece is four times as
long, up to `LARGEST_PIECE`."""
LARGEST_PIECE: Final = 64_000
PIECE_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of the group's events in a piece; above it, a shorter piece is read. Decoded events
take ten times as much memory. The maximum size of one event is 256 KiB."""
BACKWARDS_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a backward read: some hundred thousand events."""


class NoEventLog(Exception):
    """The cluster has no topic `__group_events`."""


class EventTopicReader:
    """Reads the partition with a group's events. `start` and `end` are the log's initial bounds."""

    def __init__(self, client: Client, group: str, partition: int) -> None:
        self._log = PartitionReader(client, TOPIC, partition)
        self._key = group.encode("utf-8", "backslashreplace")
        self.start = self.end = 0
        self.bytes_read = 0
        self.unreadable = 0
        """Number of records that are not valid events."""
        self.readable = 0
        """Number of events of the group and of its partition."""
        self.first_error = ""
        """The decoding error of the first invalid record."""
        self.oldest_ms: int | None = None
        """The lowest max timestamp of the batches read so far."""
        self._parsed_bytes = 0

    @classmethod
    async def of(cls, client: Client, group: str) -> "EventTopicReader":
        """Open the partition of a group (Kafka's hash). Raises NoEventLog and CallFailed."""
        partitions = [number for _, number in await leaders_of(client, [TOPIC])]
        if not partitions:
            raise NoEventLog
        log = cls(client, group, partition_of(group, max(partitions) + 1))
        log.start, log.end = await log._log.offset(EARLIEST), await log._log.offset(LATEST)
        return log

    async def since(self, time_ms: int) -> int:
        """Return the offset of the first event from a time on; the log end if all are older."""
        offset = await self._log.offset(time_ms)
        return self.end if offset == NO_SUCH_RECORD else offset

    async def read(self, start: int, end: int) -> AsyncIterator[list[Event]]:
        """Yield the events in [start, end), one response at a time. Raises CallFailed."""
        while start < end:
            following, events = await self._fetch(start, end, wait_ms=0)
            if following == start:
                return
            start = following
            yield events

    async def backwards(self) -> AsyncIterator[list[Event]]:
        """Yield all events in pieces, from the last piece to the first; each piece is in order.

        Stops after `BACKWARDS_BYTES`, and then sets `start` to the first offset read.
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
        """Return the events in [start, end); None if they exceed `PIECE_BYTES`."""
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
        """Yield new events forever, and an empty list after each `wait_ms()` without any.

        While no leader responds, `lost` is called after each timeout of the client.
        """

        async def fetch(at: int, ms: int) -> tuple[int, list[Event]]:
            return await self._fetch(at, None, ms)

        async for events in followed(fetch, start, wait_ms, lost):
            yield events

    # -- requests --------------------------------------------------------------------------------

    async def _fetch(self, start: int, end: int | None, wait_ms: int) -> tuple[int, list[Event]]:
        """Return the next offset, and the events."""
        data = await self._log.fetch(start, wait_ms)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted in the meantime
            return max(start, await self._log.offset(EARLIEST)), []
        return self._events(data.records or b"", start, end)

    # -- records ---------------------------------------------------------------------------------

    # Any: bytes, or a view of them.
    def _events(self, records: Any, start: int, end: int | None) -> tuple[int, list[Event]]:
        """Decode the complete batches of a response, the last of which may be cut off."""
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
