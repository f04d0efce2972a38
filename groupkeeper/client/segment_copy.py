"""Copies partitions over the wire into segment files in the format of a broker.

Batches are written undecoded, as the leader has them, including transaction markers and the records
of aborted transactions.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, Final, Self

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.groups import Partition
from groupkeeper.client.partition_log import PartitionReader
from groupkeeper.client.partitions import EARLIEST, LATEST, list_offsets
from groupkeeper.protocol.errors import ErrorCode

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a response; a larger batch is returned alone."""
AT_ONCE: Final = 8
"""Number of partitions copied concurrently, which needs 32 MiB."""
WAIT_MS: Final = 500
"""Fetch wait time, for a new leader that lacks records the old one had when the copy began."""
EMPTY_PAUSE_S: Final = 0.05
"""Pause after a response without a whole batch, which may arrive at once."""

_OFFSETS: Final = 2**31
"""Maximum number of offsets in a segment: index entries are int32."""
_HEAD: Final = Struct(">qi4xb6xi")
"""Base offset, batch length, magic, and last offset delta."""
_PREFIX: Final = 12
"""Bytes of a batch that its batch length does not count."""

_Told = Callable[[str, int], None]
"""Called with the name of a topic, and the number of bytes copied since the last call."""
Gone = Callable[[str, int], None]
"""Called with a partition's name, and the new start offset if retention deleted unread records."""


async def copy_partitions(
    client: Client, starts: Mapping[Partition, int], place: Path, told: _Told, gone: Gone
) -> None:
    """Copy partitions from these offsets up to their present log ends into the folder `place`, as
    `<topic>-<partition>/<first offset>.log`. Each gets at least an empty file.

    Raises CallFailed, with OFFSET_OUT_OF_RANGE for a log that ends before the start offset, and
    OSError.
    """
    first, last = [await list_offsets(client, starts, which) for which in (EARLIEST, LATEST)]
    places = asyncio.Semaphore(AT_ONCE)

    async def copy(partition: Partition, start: int) -> None:
        topic, number = partition
        log = PartitionReader(client, topic, number, ANSWER_BYTES)
        begin, end = first[partition], last[partition]
        if begin is None or end is None:
            raise CallFailed("ListOffsets", None, ErrorCode.LEADER_NOT_AVAILABLE, log.name)
        if start > end:
            raise _cut_off(log, start)
        async with places:
            with _Segments(place / f"{topic}-{number}", max(begin, start)) as segments:
                async for size in _copy(client, log, segments, end, gone):
                    told(topic, size)

    await asyncio.gather(*(copy(*each) for each in starts.items()))


async def _copy(
    client: Client, log: PartitionReader, segments: "_Segments", end: int, gone: Gone
) -> AsyncIterator[int]:
    """Write the batches with a base offset below `end`; yield the numbers of bytes written."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + client.timeout_s
    while segments.next < end:
        start = segments.next
        data = await log.fetch(start, WAIT_MS)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            begin = await log.offset(EARLIEST)
            if begin <= start:
                raise _cut_off(log, start)
            gone(log.name, begin)
            segments.begin(begin)
        else:
            yield segments.write(memoryview(data.records or b""), end)
        if segments.next > start:
            deadline = loop.time() + client.timeout_s
        elif loop.time() > deadline:
            detail = f"{log.name}: no records arrive from offset {start} on"
            raise CallFailed("Fetch", None, ErrorCode.REQUEST_TIMED_OUT, detail)
        else:
            await asyncio.sleep(EMPTY_PAUSE_S)


def _cut_off(log: PartitionReader, offset: int) -> CallFailed:
    detail = f"{log.name} ends before offset {offset}, up to which it was read earlier"
    return CallFailed("Fetch", None, ErrorCode.OFFSET_OUT_OF_RANGE, detail)


class _Segments:
    """Writes the segment files of one partition. `next` is the next offset to write."""

    def __init__(self, folder: Path, start: int) -> None:
        folder.mkdir()
        self._folder = folder
        self._open(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _open(self, base: int) -> None:
        self._base = self.next = base
        self._file = (self._folder / f"{base:020d}.log").open("wb")

    def begin(self, base: int) -> None:
        """Start over at an offset, and delete the files written so far."""
        self._file.close()
        for file in self._folder.iterdir():
            file.unlink()
        self._open(base)

    def write(self, data: memoryview, end: int) -> int:
        """Write the complete batches that begin before `end`; return the number of bytes."""
        position = 0
        for base, following, size in _batches(data):
            if base >= end:  # the offsets before `end` no longer exist
                self.next = end
                break
            if following - self._base >= _OFFSETS:
                self._file.close()
                self._open(base)
            self._file.write(data[position : position + size])
            position += size
            self.next = following
        return position


# Any: bytes of a response.
def _batches(data: Any) -> Iterator[tuple[int, int, int]]:
    """Yield base offset, next offset and size of each complete batch."""
    position = 0
    while position + _HEAD.size <= len(data):
        base, size, magic, last = _HEAD.unpack_from(data, position)
        size += _PREFIX
        if size <= _HEAD.size or position + size > len(data):
            return
        # Before magic 2, the header has a single offset: the only or the last one.
        yield base, base + 1 + (last if magic >= 2 else 0), size
        position += size
