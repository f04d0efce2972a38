"""Compacted segments take the places of their sources: whole or not at all, whatever crashes.

Theory of operation. compaction.py writes new segments beside the old ones, synced, under names that
end in `.cleaned`. Then the owner of the log

1. links the sources into the archive, if there is one (`prepare`),
2. renames the new files so that they end in `.swap`: those of one segment after the other, from the
   oldest on, the indexes first (`prepare`),
3. replaces the manifest by one that names the new segments, and syncs the folder (`Log.switch`),
4. removes the old segments, and gives the new files their final names, the indexes first
   (`finish`).

A start removes what is still `.cleaned`, and does 3 and 4 for every segment that is `.swap`: it was
synced before it got that name. Every prefix of these steps leaves a sound log. New segments come
from the oldest on, so a tombstone does not go before the values that it deletes.

Changes of names in one folder survive a power cut in their order: the file systems that journal
names (ext4, XFS) keep it, and Kafka relies on it, too.

Source: Kafka's LocalLog.replaceSegments and LogLoader.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.archive import link_raw
from groupkeeper.storage.compaction import Compacted
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files import Files
from groupkeeper.storage.findings import Findings
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.manifest import FinishedSegment, ManifestFile
from groupkeeper.storage.scan import valid_batches
from groupkeeper.storage.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    Segment,
    base_of,
    segment_path,
    segment_stem,
)
from groupkeeper.storage.segment_writer import CLEANED, cleaned_suffix, remove_cleaned
from groupkeeper.storage.whole import read_whole
from groupkeeper.storage.window import PIECE, Window

SWAP: Final = ".swap"
"""The end of the names of files that are complete."""
SUFFIXES: Final = (*INDEX_SUFFIXES, LOG_SUFFIX)
"""Of the files of a segment, in the order in which they are renamed."""


@dataclass(slots=True, frozen=True)
class Replacement:
    """A new segment, and the base offsets of those whose place it takes."""

    segment: Segment
    sources: tuple[int, ...]


class Swap:
    """The new segments of one compaction, complete, and not yet in the places of the old ones."""

    def __init__(self, files: Files, folder: str, limits: Limits, compacted: Compacted) -> None:
        self._files = files
        self._folder = folder
        self._limits = limits
        self._new = compacted.segments
        self.replacements: list[Replacement] = []
        self.first_dirty = compacted.first_dirty
        """Where the next compaction begins to look for new keys."""

    def prepare(self, token: str, raw: Iterable[Segment], archive: str) -> None:
        """Steps 1 and 2. Raises OSError, and Corrupt for files that are not right.

        `raw` are the sources that were never compacted; `archive` is the folder that keeps them, or
        "".
        """
        if archive:
            link_raw(self._files, archive, raw)
        for each in self._new:
            stem = segment_stem(self._folder, each.finished.base)
            for suffix in SUFFIXES:
                self._files.rename(
                    f"{stem}{suffix}{cleaned_suffix(token)}", f"{stem}{suffix}{SWAP}"
                )
            segment = Segment(self._files, self._folder, each.finished.base, self._limits, SWAP)
            segment.finished = each.finished
            if segment.size != each.finished.size or not segment.read_index(SWAP):
                raise Corrupt(f"{stem}{LOG_SUFFIX}{SWAP} is not what the compaction wrote")
            self.replacements.append(Replacement(segment, each.sources))

    def finish(self) -> None:
        """Step 4. Raises OSError: the next start does the rest.

        Readers that have the old segments open can go on.
        """
        names = self._files.list_folder(self._folder)
        for each in self._new:
            _settle(self._files, self._folder, names, each.finished)

    def discard(self) -> None:
        """Remove the new files, instead of step 3. Raises OSError."""
        for each in reversed(self._new):
            stem = segment_stem(self._folder, each.finished.base)
            for suffix in reversed(SUFFIXES):
                self._files.remove(f"{stem}{suffix}{SWAP}")


def complete_swaps(files: Files, folder: str, manifest: ManifestFile, findings: Findings) -> None:
    """What a start does. Raises OSError, and Corrupt for a new segment that is damaged and whose
    sources may be gone; one whose sources are there is dropped, which `findings` is told.
    """
    names = files.list_folder(folder)
    if not any(name.endswith((CLEANED, SWAP)) for name in names):
        return
    remove_cleaned(files, folder)
    bases = {base for base in map(base_of, names) if base is not None}
    for base in sorted(base for base in map(_swapped_base, names) if base is not None):
        path = f"{segment_stem(folder, base)}{LOG_SUFFIX}{SWAP}"
        found = _look(files, path, base)
        new = _committed(files, segment_path(folder, base), manifest, base, found)
        if new is not None and new.crc != found.crc:
            findings.lost(f"{path} is damaged")
        elif new is None and (not found.sound or found.end not in bases):
            what = f"{path} is damaged: removed, and the segments that it was made of are kept"
            findings.repairs.append(what)
            files.remove(path)
            continue
        _settle(files, folder, names, new or _commit(files, folder, manifest, base, found))
    for name in files.list_folder(folder):  # indexes whose segment was removed, or never came
        if name.endswith(SWAP):
            files.remove(f"{folder}/{name}")


@dataclass(slots=True, frozen=True)
class _Found:
    """What is in a file."""

    size: int
    crc: int
    end: int
    """The offset after the last sound batch."""
    sound: bool


def _swapped_base(name: str) -> int | None:
    return base_of(name.removesuffix(SWAP)) if name.endswith(SWAP) else None


def _look(files: Files, path: str, base: int) -> _Found:
    handle = files.open(path)
    try:
        size = files.size(handle)
        position, end, crc = 0, base, 0
        for batch in valid_batches(Window(files, handle, size), 0, base):
            position, end = batch.position + batch.size, batch.last_offset + 1
        for start in range(0, size, PIECE):
            crc = crc32c(files.read(handle, PIECE, start), crc)
    finally:
        files.close(handle)
    return _Found(size, crc, end, sound=bool(size) and position == size)


def _committed(
    files: Files, path: str, manifest: ManifestFile, base: int, found: _Found
) -> FinishedSegment | None:
    """The entry of a new segment if step 3 was done: it does not tell of the file at `path`."""
    entry = next((each for each in manifest.on_disk.finished if each.base == base), None)
    if entry is None or not entry.compacted or entry.crc == found.crc:
        return entry if entry is not None and entry.crc == found.crc else None
    try:
        old = _look(files, path, base)
    except FileNotFoundError:
        return entry
    return None if (old.size, old.crc) == (entry.size, entry.crc) else entry


def _commit(
    files: Files, folder: str, manifest: ManifestFile, base: int, found: _Found
) -> FinishedSegment:
    """Step 3 for one segment."""
    index_crc = _index_crc(files, folder, base)
    new = FinishedSegment(base, found.end, found.size, found.crc, index_crc, compacted=True)
    on_disk = manifest.on_disk
    others = [each for each in on_disk.finished if not base <= each.base < found.end]
    manifest.write(sorted([*others, new]), on_disk.begun, None)
    return new


def _index_crc(files: Files, folder: str, base: int) -> int | None:
    crc = 0
    for suffix in INDEX_SUFFIXES:
        path = f"{segment_stem(folder, base)}{suffix}"
        try:
            data = read_whole(files, path + SWAP)
        except FileNotFoundError:
            try:
                data = read_whole(files, path)
            except FileNotFoundError:
                return None
        crc = crc32c(data, crc)
    return crc


def _settle(files: Files, folder: str, names: Sequence[str], new: FinishedSegment) -> None:
    """Step 4 for one segment."""
    for name in names:
        digits, _, suffix = name.partition(".")
        base = base_of(digits + LOG_SUFFIX)
        inside = base is not None and new.base < base < new.end
        if inside and not suffix.endswith(SWAP):
            files.remove(f"{folder}/{name}")
    stem = segment_stem(folder, new.base)
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            files.rename(f"{stem}{suffix}{SWAP}", f"{stem}{suffix}")
