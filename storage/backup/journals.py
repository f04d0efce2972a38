"""Copies the journals of a data directory up to a moment, while their processes write to them.

Theory of operation. A journal is removed as soon as all its batches are in the segments. A backup
copies the segments first, so it needs the journals that existed before: it holds them open, and
copies them after the segments, removed or not. A journal that came and went in the meantime shows
as a gap between the flushes of its node.
"""

from contextlib import ExitStack
from itertools import pairwise

from crc32c import crc32c

from groupkeeper.storage.backup.folders import Copier, FileCopy
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.journal.journal import FOLDER, JournalReader, node_of
from groupkeeper.storage.log.window import PIECE


class Disturbed(Exception):
    """A change during the copy, which is therefore not a state of the directory."""


class HeldJournals:
    """The journals that existed at some moment, and those created since."""

    def __init__(self, copier: Copier, stack: ExitStack) -> None:
        """Open the journals; the stack closes them. Raises Disturbed, StorageError and OSError."""
        self._copier = copier
        self._stack = stack
        self._folder = f"{copier.data_dir}/{FOLDER}"
        self._readers: dict[str, JournalReader] = {}
        """By file name."""
        self._open_new()
        self._newest = {node: readers[-1] for node, readers in self._by_node().items()}
        """The newest journal of each node when the journals were opened."""

    def cut(self) -> None:
        """Read the flushes that were written until now.

        Raises Disturbed if a journal was missed: then the flushes of its node have a gap since the
        journals were opened.
        """
        self._open_new()
        for reader in self._readers.values():
            reader.read_on()
        for node, readers in self._by_node().items():
            newest = self._newest.get(node)
            since = readers[readers.index(newest) :] if newest is not None else []
            if not since or any(a.next_flush != b.first_flush for a, b in pairwise(since)):
                raise Disturbed("journals came and went")

    def gaps(self, ends: dict[str, int]) -> set[tuple[str, int]]:
        """Return the logs whose batches in the journals do not continue their segments. Each with
        the offset of the gap. `ends` are the offsets after the segments, by log.
        """
        found = set()
        readers = self._readers.values()
        for name in {name for reader in readers for name in reader.names}:
            end = ends.get(name, 0)
            entries = [entry for reader in readers for entry in reader.entries(name)]
            for base, last, *_ in sorted(entries):
                if base > end:
                    found.add((name, end))
                end = max(end, last + 1)
        return found

    def copy(self) -> None:
        """Copy the flushes that were read, without an unfinished one: none of it was acknowledged.
        Journals without a flush, such as new ones, are left out.
        """
        copier = self._copier
        folder = f"{copier.copy_dir}/{FOLDER}"
        for name in copier.folders.get(FOLDER, ()):
            copier.target.remove(f"{folder}/{name}")
        copier.target.make_folder(folder)
        copier.folders[FOLDER] = {
            name: self._copy(reader, f"{folder}/{name}")
            for name, reader in self._readers.items()
            if not reader.is_empty
        }

    def _copy(self, reader: JournalReader, path: str) -> FileCopy:
        crc = 0
        with opened(self._copier.target, path, create=True) as handle:
            for at in range(0, reader.end, PIECE):
                data = reader.batch(at, min(PIECE, reader.end - at))
                self._copier.target.write(handle, data, at)
                crc = crc32c(data, crc)
        return FileCopy(b"", reader.end, crc)

    def _open_new(self) -> None:
        for name in self._copier.source.list_folder(self._folder):
            if node_of(name) is not None and name not in self._readers:
                path = f"{self._folder}/{name}"
                try:
                    reader = JournalReader(self._copier.source, path, go_on=True)
                except FileNotFoundError:
                    raise Disturbed("journals came and went") from None
                self._stack.callback(reader.close)
                self._readers[name] = reader

    def _by_node(self) -> dict[int | None, list[JournalReader]]:
        """Return the journals of each node, in the order of their flushes."""
        nodes: dict[int | None, list[JournalReader]] = {}
        for reader in sorted(self._readers.values(), key=lambda reader: reader.first_flush):
            nodes.setdefault(node_of(reader.path.rpartition("/")[2]), []).append(reader)
        return nodes
