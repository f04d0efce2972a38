"""Copies of the folders of logs, while another process may write to them.

Theory of operation. The copy of a folder is right if it has the names that the folder had at one
moment, each with the bytes of the file that it led to: that is what a killed process would have
left, and a start goes on from there, in the middle of a roll, of a deletion or of the swap of a
compaction. So the names and identities of the files are noted before and after the copying, with
the contents of the small files, which are replaced. If both are equal, they were so all the time in
between; if not, what has changed is copied again.

Only the last segment changes under its name. It grows by whole batches, but a reader may see the
last one in part. So what was copied of it is checked, batch by batch, and read again from the first
one that is not sound.

Files that are never written again are linked: segments that the manifest calls finished, because
the next segment is on the disk then, so that they can never be the last again; those of an archive;
and those that a compaction has completed. A swap replaces names, never bytes. Indexes are written
in place when a start finds them wrong, so they are copied; the manifest has their checksum.
"""

import errno
from collections.abc import Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.epochs import FILE_NAME as EPOCHS
from groupkeeper.storage.errors import ACCEPT_FILE, StorageError
from groupkeeper.storage.file_copy import Copier, FileCopy
from groupkeeper.storage.manifest import FILE_NAME as MANIFEST
from groupkeeper.storage.manifest import FinishedSegment, parse_manifest
from groupkeeper.storage.segment import DIGITS, LOG_SUFFIX, base_of
from groupkeeper.storage.segment_writer import CLEANED
from groupkeeper.storage.start import FILE_NAME as START
from groupkeeper.storage.swap import SWAP
from groupkeeper.storage.whole import overwrite, read_whole

TRIES: Final = 100
"""How often a folder is copied before giving up: a swap or a deletion takes a few."""

SMALL: Final = (MANIFEST, EPOCHS, START, ACCEPT_FILE, "partition.metadata")
"""Files that are read and written as a whole."""

LEFT_OUT: Final = (CLEANED, ".tmp", ".sound", ".deleted")
"""The ends of the names of files that a start removes or writes anew."""


class Names(NamedTuple):
    """What a folder holds at one moment."""

    files: Mapping[str, tuple[int, int]]
    """Segments, indexes and unknown files: identity by name."""
    small: Mapping[str, bytes]
    """Small files: contents by name."""

    @property
    def last_segment(self) -> str:
        """The segment that appends go to, or ""."""
        return max((name for name in self.files if base_of(name) is not None), default="")


class CopiedFile(NamedTuple):
    """A file of the copy."""

    name: str
    """Its path in the data directory."""
    size: int
    crc: int | None
    """CRC-32C; None if it is not known, as the file was linked."""
    linked: bool


class FolderCopy:
    """One folder of segments and its copy."""

    def __init__(self, copier: Copier, name: str, *, finished: bool = False) -> None:
        """`name` is its path in the data directory. `finished`: none of its segments grows."""
        self._copier = copier
        self._name = name
        self._finished = finished
        self._path = f"{copier.data_dir}/{name}"
        self._copy_path = f"{copier.copy_dir}/{name}"
        self._files: dict[str, FileCopy] = {}
        self._small: dict[str, bytes] = {}
        self._names: Names | None = None
        """What the copy is of; None while it is not complete."""

    @property
    def next_offset(self) -> int:
        """The offset after the last sound batch in the copy; 0 without segments."""
        last = self._names.last_segment if self._names is not None else ""
        return self._files[last].next_offset if last else 0

    def contents(self) -> list[CopiedFile]:
        """All files of the copy."""
        large = [CopiedFile(f.name, f.size, f.crc, f.linked) for f in self._files.values()]
        small = [
            CopiedFile(f"{self._name}/{name}", len(data), crc32c(data), linked=False)
            for name, data in self._small.items()
        ]
        return [*large, *small]

    def update(self) -> None:
        """Copy the folder as it is at some moment of this call. Raises StorageError and OSError.

        A folder that was removed meanwhile is empty in the copy.
        """
        for _ in range(TRIES):
            try:
                before = self._look()
                if before == self._names and self._has_not_grown(before):
                    return
                self._names = None
                self._copy(before)
                if self._look() == before:
                    self._names = before
                    return
            except FileNotFoundError:
                self._names = None
            self._copier.pause()
        raise StorageError(
            f"{self._path} changed during each of {TRIES} copies: try again when less is going on, "
            "or stop the server"
        )

    def has_not_changed(self) -> bool:
        """Whether the segments are, byte by byte, what the copy has. Reads all of them."""
        try:
            logs = [each for name, each in self._files.items() if base_of(name) is not None]
            return self._look() == self._names and all(map(self._is_same, logs))
        except FileNotFoundError:
            return False

    def discard(self) -> None:
        """Remove the copy."""
        for name in [*self._files, *self._small]:
            self._copier.target.remove(f"{self._copy_path}/{name}")
            self._copier.warnings.pop(f"{self._path}/{name}", None)
        self._copier.target.remove_folder(self._copy_path)

    def _is_same(self, each: FileCopy) -> bool:
        copier = self._copier
        found = read_whole(copier.source, f"{copier.data_dir}/{each.name}")
        return found == read_whole(copier.target, f"{copier.copy_dir}/{each.name}")

    def _look(self) -> Names:
        """Raises FileNotFoundError if a name goes meanwhile."""
        source = self._copier.source
        files: dict[str, tuple[int, int]] = {}
        small: dict[str, bytes] = {}
        for name in source.list_folder(self._path):
            path = f"{self._path}/{name}"
            if name in SMALL:
                small[name] = read_whole(source, path)
            elif not name.endswith(LEFT_OUT):
                files[name] = self._identity(path)
        return Names(files, small)

    def _identity(self, path: str) -> tuple[int, int]:
        status = self._copier.source.look(path)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "removed meanwhile", path)
        return status.identity

    def _has_not_grown(self, names: Names) -> bool:
        last = "" if self._finished else names.last_segment
        if not last:
            return True
        status, copy = self._copier.source.look(f"{self._path}/{last}"), self._files[last]
        return copy.is_sound and status is not None and status.size == copy.size

    def _copy(self, names: Names) -> None:
        copier = self._copier
        copier.target.make_folder(self._copy_path)
        for known, kept in ((self._files, names.files), (self._small, names.small)):
            for name in known.keys() - kept.keys():
                copier.target.remove(f"{self._copy_path}/{name}")
                del known[name]
        finished = self._finished_segments(names)
        last = "" if self._finished else names.last_segment
        for name in sorted(names.files):  # an index comes before its segment: it may not know more
            copy = self._copy_of(name, names.files[name], grows=name == last)
            if name == last:
                self._follow(name, copy)
                continue
            entry = finished.get(name[:DIGITS])
            # The last index may have been written anew, and another file may have the same number.
            if not copy.whole or copy.made_as != entry or name[:DIGITS] == last[:DIGITS]:
                self._copy_finished(name, copy, entry)
        for name, data in names.small.items():
            if self._small.get(name) != data:
                overwrite(copier.target, f"{self._copy_path}/{name}", data, sync=False)
                self._small[name] = data

    def _finished_segments(self, names: Names) -> dict[str, FinishedSegment]:
        """The entries of the manifest, by what the names of their files begin with."""
        manifest = parse_manifest(names.small.get(MANIFEST, b""), f"{self._path}/{MANIFEST}")
        entries = manifest.finished if manifest is not None else ()
        return {f"{each.base:0{DIGITS}d}": each for each in entries}

    def _copy_of(self, name: str, identity: tuple[int, int], *, grows: bool) -> FileCopy:
        """The copy of a file; a new one if another file has the name, or a linked one grows."""
        known = self._files.get(name)
        if known is None or known.identity != identity or (known.linked and grows):
            self._copier.target.remove(f"{self._copy_path}/{name}")
            known = self._files[name] = FileCopy(self._copier, f"{self._name}/{name}", identity)
        return known

    def _follow(self, name: str, copy: FileCopy) -> None:
        base = base_of(name)
        assert base is not None, "the last segment has one"
        path = f"{self._path}/{name}"
        self._copier.warnings.pop(path, None)
        if not copy.follow(base):
            self._copier.warnings[path] = (
                f"{path} does not end with a whole batch, and is copied as it is: a start will cut "
                "off the end, or refuse the partition if it is damaged"
            )

    def _copy_finished(self, name: str, copy: FileCopy, entry: FinishedSegment | None) -> None:
        path = f"{self._path}/{name}"
        status = self._copier.source.look(path)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "removed meanwhile", path)
        is_segment = name.endswith(LOG_SUFFIX)
        known = is_segment and entry is not None and entry.size == status.size
        crc = entry.crc if entry is not None and known else None
        fixed = known or name.endswith(LOG_SUFFIX + SWAP) or (is_segment and self._finished)
        if not fixed or not copy.link(status.size, crc):
            copy.copy()
        copy.made_as = entry
        if crc not in (None, copy.crc):
            self._copier.warnings[path] = f"{path} is damaged, and is copied as it is"
