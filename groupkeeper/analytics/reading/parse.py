"""Parses bytes of segments into Arrow record batches: one row per record.

for split in chunk:
    for batch in parse_split(split): ...

The file may change between planning and reading: a broker truncates it, or compaction replaces it.
What it replaced is read again by offsets, from the files that are there then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.columns import SCHEMA, note_rows, text_rows
from groupkeeper.analytics.reading.plan import Split, cut
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import cover, log_files_in, segment_file

_OFFSET_SIZE: Final = 8
_ATTEMPTS: Final = 3
"""How often bytes are looked for that compaction moves again and again."""


def parse(
    buffer: bytes, split: Split, names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """The rows of `buffer`, which holds the bytes of `split` and starts with a batch, with the
    columns `names` of `columns.SCHEMA`.

    Damaged bytes raise nothing: they become rows with `problem` and `problem_bytes`.
    """
    # Loading its kernels takes half a second, and compiling them the first time 20.
    from groupkeeper.analytics.reading import numba_engine

    return numba_engine.read(buffer, split, names)


def parse_split(split: Split, names: Sequence[str] = SCHEMA.names) -> Iterator[pa.RecordBatch]:
    """The rows of one split, read from its file. What cannot be read, or is gone, is a row."""
    if split.notes:
        yield note_rows(split).select(names)
    for part, buffer in _buffers(split, _ATTEMPTS):
        if isinstance(buffer, bytes):
            yield from parse(buffer, part, names)
        else:
            yield text_rows(part, [buffer]).select(names)


def _buffers(split: Split, attempts: int) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """What to parse, with its bytes, or a row about bytes that are not there."""
    try:
        path = files.place(split.path)
        with path.open("rb") as file:
            identity = files.identity(path, file)
            file.seek(split.start)
            buffer = file.read(split.size)
    except FileNotFoundError:
        yield from _read_again(split, attempts)
        return
    except OSError as error:
        text = f"{Problem.UNREADABLE.text}: {files.one_line(error)}"
        yield split, (split.start, text, split.size)
        return
    if _is_replaced(split, identity, buffer):
        yield from _read_again(split, attempts)
        return
    yield replace(split, last=split.last and len(buffer) == split.size), buffer
    if len(buffer) < split.size:
        missing = split.size - len(buffer)
        yield split, (split.start + len(buffer), Problem.SHORTER.text, missing)


def _is_replaced(split: Split, identity: tuple[int, int], buffer: bytes) -> bool:
    """Whether this is not the file that was planned, or not its content: inodes are used again."""
    if split.identity == (0, 0):
        return False
    if split.identity != identity:
        return True
    base = int.from_bytes(buffer[:_OFFSET_SIZE], "big")
    return split.start > 0 and len(buffer) >= _OFFSET_SIZE and base != split.first


def _read_again(
    split: Split, attempts: int
) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """The offsets of the split, from the segments that are in its folder now."""
    path = files.place(split.path)
    gone = split, (split.start, Problem.GONE.text, split.size)
    try:
        there = log_files_in(path.parent)
        found = [segment_file(file, split.partition, split.topic) for file in there]
    except AnalyticsError:
        found = []
    covered = list(cover([segment for segment in found if segment]))
    only = max(split.first, split.only[0]), min(split.until, split.only[1])
    parts = [
        replace(part, notes=(), only=only, selection=split.selection)
        for each in covered
        for part in cut(each, max(split.size, 1), last=split.last and each is covered[-1])
        if part.first < split.until and part.until > split.first
    ]
    if not parts or not attempts:
        yield gone
    for part in parts if attempts else ():
        yield from _buffers(part, attempts - 1)
