"""Replaces segments of a log by compacted ones: all or nothing, even in a crash.

Theory of operation. compaction.py writes new segments beside the old ones, synced, under names that
end in `.cleaned`. Then the owner of the log

1. links the sources into the archive, if there is one (`prepare`),
2. renames the new files so that they end in `.swap`: one segment after the other, oldest first,
   and the indexes of each first (`prepare`),
3. replaces the manifest by one that names the new segments, and syncs the folder (`switch`),
4. removes the old segments, and gives the new files their final names, the indexes first
   (`finish`).

A start removes files that end in `.cleaned`, and does steps 3 and 4 for every segment that ends in
`.swap`: these files were synced before step 2. A crash at any point leaves a sound log. The oldest
segment is replaced first, so a tombstone is not dropped before the values that it deletes.

Renames in one folder survive a power cut in their order: the file systems that journal names (ext4,
XFS) preserve it, and Kafka relies on it, too.

Source: Kafka's LocalLog.replaceSegments and LogLoader.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.compaction.archive import link_raw
from groupkeeper.storage.compaction.compaction import Compacted
from groupkeeper.storage.compaction.segment_writer import CLEANED, cleaned_suffix, remove_cleaned
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened, read_whole
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import valid_batches
from groupkeeper.storage.log.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    Replacement,
    Segment,
    base_of,
    segment_path,
    segment_stem,
)
from groupkeeper.storage.log.window import PIECE, Window
from groupkeeper.storage.recovery.findings import Findings
from groupkeeper.storage.recovery.manifest import FinishedSegment, ManifestFile

SWAP: Final = ".swap"
"""Suffix of the names of files that are complete."""
DELETED: Final = ".deleted"
"""Suffix that a Kafka broker gives to files of replaced segments, some time before it removes them.
"""
SUFFIXES: Final = (*INDEX_SUFFIXES, LOG_SUFFIX)
"""The files of a segment, in the order in which they are renamed."""


class Swap:
    """The result of one compaction on its way into an open log.

    `switch` runs on the thread that appends to the log; the other methods may run on another one.
    """

    def __init__(self, log: Log, compacted: Compacted) -> None:
        self._log = log
        self._new = compacted.segments
        self._first_dirty = compacted.first_dirty
        self._replacements: list[Replacement] = []

    def prepare(self, token: str, archive: str = "") -> bool:
        """Do steps 1 and 2, for the files that a compaction has written under `token`.

        `archive` is a folder that keeps segments which were not compacted before, or "". Returns
        False, and changes nothing, if the log was closed: its folder may have another owner. Raises
        OSError, and Corrupt for files that differ from what the compaction wrote; these are
        removed.
        """
        log = self._log
        if log.failed or log.closed:
            return False
        try:
            if archive:
                link_raw(log.files, archive, self._raw())
            for each in self._new:
                stem = segment_stem(log.folder, each.finished.base)
                for suffix in SUFFIXES:
                    name = f"{stem}{suffix}"
                    log.files.rename(f"{name}{cleaned_suffix(token)}", f"{name}{SWAP}")
                segment = Segment(log.files, log.folder, each.finished.base, log.limits, SWAP)
                segment.finished = each.finished
                if segment.size != each.finished.size or not segment.read_index(SWAP):
                    raise Corrupt(f"{stem}{LOG_SUFFIX}{SWAP} is not what the compaction wrote")
                self._replacements.append(Replacement(segment, each.sources))
        except BaseException:
            self.discard()
            raise
        return True

    def switch(self) -> bool:
        """Do step 3. Returns True: call `finish` next; or False if the log has changed: `discard`.

        Raises AppendFailed: reopening the log completes the swap.
        """
        return self._log.switch(self._replacements, self._first_dirty)

    def finish(self) -> None:
        """Do step 4. Raises OSError: the log is `failed` then, and reopening it completes the swap.

        Readers that have the old segments open can continue.
        """
        log = self._log
        with self._failing():
            names = log.files.list_folder(log.folder)
            for each in self._new:
                _settle(log.files, log.folder, names, each.finished)

    def discard(self) -> None:
        """Remove the new files instead. Raises OSError: the log is `failed` then."""
        with self._failing():
            for each in reversed(self._new):
                stem = segment_stem(self._log.folder, each.finished.base)
                for suffix in reversed(SUFFIXES):
                    self._log.files.remove(f"{stem}{suffix}{SWAP}")

    def _raw(self) -> Iterable[Segment]:
        sources = {base for each in self._new for base in each.sources}
        for segment, _ in self._log.finished:
            entry = segment.finished
            if segment.base_offset in sources and not (entry is not None and entry.compacted):
                yield segment

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Mark the log as failed on an OSError: only reopening it deals with leftover files."""
        try:
            yield
        except OSError:
            self._log.failed = True
            raise


def complete_swaps(files: Files, folder: str, manifest: ManifestFile, findings: Findings) -> None:
    """Complete interrupted swaps at start-up.

    Raises OSError, and Corrupt for a damaged new segment whose sources may be gone. If the sources
    are still there the new segment is dropped, and reported in `findings`.
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
            findings.lost(f"{path} is damaged", base, base)  # a scan finds how much is lost
        elif new is None and (not found.sound or found.end not in bases):
            what = f"{path} is damaged: removed, and its source segments are kept"
            findings.repairs.append(what)
            files.remove(path)
            continue
        _settle(files, folder, names, new or _commit(files, folder, manifest, base, found))
    for name in files.list_folder(folder):  # indexes whose segment was removed or never existed
        if name.endswith(SWAP):
            files.remove(f"{folder}/{name}")


def settle_brokers_files(files: Files, folder: str) -> None:
    """Remove what the cleaner of a Kafka broker left in a folder, which has no manifest.

    Raises OSError, and Corrupt if the broker was replacing segments.
    """
    names = files.list_folder(folder)
    if any(name.endswith(SWAP) for name in names):
        raise Corrupt(
            f"{folder} has segments that a Kafka broker was replacing (*{SWAP}): start and stop "
            "the broker, which completes this, and copy the folder again; if the folder is not "
            f"from a broker: {remedy(folder)}"
        )
    for name in names:
        if name.endswith((CLEANED, DELETED)):
            files.remove(f"{folder}/{name}")


@dataclass(slots=True, frozen=True)
class _Found:
    """The contents of a segment file."""

    size: int
    crc: int
    end: int
    """The offset after the last sound batch."""
    sound: bool


def _swapped_base(name: str) -> int | None:
    return base_of(name.removesuffix(SWAP)) if name.endswith(SWAP) else None


def _look(files: Files, path: str, base: int) -> _Found:
    with opened(files, path) as handle:
        size = files.size(handle)
        position, end, crc = 0, base, 0
        for batch in valid_batches(Window(files, handle, size), 0, base):
            position, end = batch.position + batch.size, batch.last_offset + 1
        for start in range(0, size, PIECE):
            crc = crc32c(files.read(handle, PIECE, start), crc)
    return _Found(size, crc, end, sound=bool(size) and position == size)


def _committed(
    files: Files, path: str, manifest: ManifestFile, base: int, found: _Found
) -> FinishedSegment | None:
    """Return the manifest entry that step 3 wrote for a new segment, or None if it wrote none."""
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
    """Do step 3 for one segment."""
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
    """Do step 4 for one segment."""
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
