"""Keeping the sound batches of a damaged segment, after an operator has accepted the loss."""

from collections.abc import Iterator

from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.scan import Batch, next_candidate, valid_batches
from groupkeeper.storage.segment import LOG_SUFFIX
from groupkeeper.storage.window import PIECE, Window


def salvage(files: Files, path: str, base_offset: int, end_offset: int | None) -> list[str]:
    """Replace a segment, durably, by its sound batches with offsets before `end_offset`.

    Returns a line for each run of bytes that was left out; without any, the file stays as it is.
    Raises OSError.
    """
    handle = files.open(path)
    try:
        size = files.size(handle)
        runs = _runs(_in_order(_sound(Window(files, handle, size), base_offset), end_offset))
        if runs == [(0, size)] or not size:
            return []
        _write_runs(files, handle, runs, f"{path}.sound")
    finally:
        files.close(handle)
    for suffix in (".index", ".timeindex"):
        files.remove(path.removesuffix(LOG_SUFFIX) + suffix)
    files.rename(f"{path}.sound", path)
    files.sync_folder(parent_of(path))
    ends = [0, *(end for _, end in runs)]
    starts = [*(start for start, _ in runs), size]
    return [
        f"{path}: left out bytes {end} to {start - 1}"
        for end, start in zip(ends, starts, strict=True)
        if end < start
    ]


def _sound(window: Window, base_offset: int) -> Iterator[Batch]:
    """All batches with a sound checksum. It covers neither their offsets nor their epochs."""
    position, lowest = 0, base_offset
    while position < window.size:
        batch = next(valid_batches(window, position, base_offset), None)
        if batch is None:
            position = next_candidate(window, position, lowest)
        else:
            yield batch
            position, lowest = batch.position + batch.size, batch.last_offset + 1


def _in_order(batches: Iterator[Batch], end_offset: int | None) -> Iterator[Batch]:
    """The batches whose offsets and epochs ascend.

    Of two neighbours that do not, the second one is kept if it follows the one before them both.
    """
    before: Batch | None = None
    held: Batch | None = None
    for batch in batches:
        if end_offset is not None and batch.last_offset >= end_offset:
            continue
        if held is None or _follows(batch, held):
            if held is not None:
                yield held
                before = held
            held = batch
        elif before is None or _follows(batch, before):
            held = batch
    if held is not None:
        yield held


def _follows(batch: Batch, other: Batch) -> bool:
    return batch.base_offset > other.last_offset and batch.epoch >= other.epoch


def _runs(batches: Iterator[Batch]) -> list[tuple[int, int]]:
    """The byte ranges in which batches lie back to back."""
    runs: list[tuple[int, int]] = []
    for batch in batches:
        start, end = batch.position, batch.position + batch.size
        if runs and runs[-1][1] == start:
            start = runs.pop()[0]
        runs.append((start, end))
    return runs


def _write_runs(files: Files, source: int, runs: list[tuple[int, int]], path: str) -> None:
    handle = files.open(path, create=True)
    try:
        written = 0
        for start, end in runs:
            for at in range(start, end, PIECE):
                data = files.read(source, min(PIECE, end - at), at)
                files.write(handle, data, written)
                written += len(data)
        files.truncate(handle, written)
        files.sync(handle)
    finally:
        files.close(handle)
