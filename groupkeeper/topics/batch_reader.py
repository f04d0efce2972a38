"""Reads the records of single batches, which may contain anything.

A few bytes may decompress to many. So records are read in slices (`turns`), and large batches are
decompressed on the worker, one at a time.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from groupkeeper.protocol.compression import (
    DecompressionError,
    codecs,
    decompress,
    decompress_mapped,
    has_codecs,
)
from groupkeeper.protocol.record_batch import (
    DECOMPRESSED_LIMIT,
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
)
from groupkeeper.topics.worker import WorkerThread
from groupkeeper.turns import Slices, Turns

R = TypeVar("R")

_Scan = Callable[[bytes | memoryview], Slices[R]]
"""Scans the decompressed bytes after the header of a batch."""

_SMALL: Final = 1024 * 1024
"""Batches up to this size are decompressed on the event loop, in less than a millisecond."""


class BatchReader:
    """Decompresses batches, and runs a scan of their records in slices."""

    def __init__(self, worker: WorkerThread, turns: Turns) -> None:
        self._worker = worker
        self._turns = turns
        self._large = asyncio.Lock()
        """Bounds memory to one large batch at a time."""

    async def read(self, batch: bytes | memoryview, header: BatchHeader, scan: _Scan[R]) -> R:
        """Return the result of `scan`. Raises the errors of `scan`, and CorruptBatch for a batch
        that cannot be decompressed, or decompresses to more than DECOMPRESSED_LIMIT.
        """
        data = batch[HEADER_SIZE : header.end]
        if not header.codec:
            return await self._turns.run(scan(data))
        compressed = bytes(data)
        if not has_codecs():
            await self._worker(codecs)  # the event loop must not read files
        try:
            small = decompress(header.codec, compressed, _SMALL)
        except DecompressionError:  # too large, or corrupt: decided there
            return await self._read_large(compressed, header, scan)
        return await self._turns.run(scan(small))

    async def _read_large(self, compressed: bytes, header: BatchHeader, scan: _Scan[R]) -> R:
        async with self._large:
            try:
                data = await self._worker(
                    lambda: decompress_mapped(header.codec, compressed, DECOMPRESSED_LIMIT)
                )
            except DecompressionError as error:
                raise CorruptBatch(f"the batch at offset {header.base_offset}: {error}") from error
            return await self._turns.run(scan(data))
