"""Copies of the journals of a data directory, up to a moment, while their processes write to them.

Theory of operation. A journal is removed as soon as all its batches are in the segments. A backup
copies the segments first, so it needs the journals that were there before: it holds them open, and
copies them after the segments, removed or not. A journal that came and went in the meantime shows
as a gap between the rounds of its node.
"""

from itertools import pairwise
from typing import Final, Self

from crc32c import crc32c

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.file_copy import TAIL_TRIES, Copier
from groupkeeper.storage.folder_copy import CopiedFile
from groupkeeper.storage.journal import FOLDER, JournalReader, node_of
from groupkeeper.storage.window import PIECE

TRIES: Final = 20
"""How often the journals are listed until all that were listed are there."""


class HeldJournals:
    """The journals that were there at some moment, and those that have come since.

    Used in a `with` block, which closes them.
    """

    def __init__(self, copier: Copier) -> None:
        """Open them. Raises StorageError and OSError."""
        self._copier = copier
        self._folder = f"{copier.data_dir}/{FOLDER}"
        self._readers: dict[str, JournalReader] = {}
        """By file name."""
        try:
            self._open_all()
        except BaseException:
            self.close()
            raise
        self._rests: dict[str, bytes] = {}
        """By file name: what follows the last round for good, torn by a crash or damaged."""
        self._newest = {node: readers[-1] for node, readers in self._by_node().items()}
        """Of each node, at this moment."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    @property
    def names(self) -> set[str]:
        """The logs that they hold batches of."""
        return {name for reader in self._readers.values() for name in reader.names}

    def cut(self) -> bool:
        """Read what was written until now. False if a journal has come and gone meanwhile."""
        for _ in range(TRIES):
            if not self._open_new():
                return False
            self._rests = {name: self._read_on(reader) for name, reader in self._readers.items()}
            if self._is_complete():
                return True
        return False

    def gaps(self, ends: dict[str, int]) -> set[str]:
        """A line for each log whose batches in the journals do not continue its segments.

        `ends` are the offsets after the segments, by log.
        """
        entries: dict[str, list[tuple[int, int]]] = {name: [] for name in self.names}
        for reader in self._readers.values():
            for name in reader.names:
                entries[name] += [entry[:2] for entry in reader.entries(name)]
        lines = set()
        for name, found in entries.items():
            end = ends.get(name, 0)
            for base, last in sorted(found):
                if base > end:
                    lines.add(
                        f"{self._copier.data_dir}/{name}: offsets {end} to {base - 1} are neither "
                        "in its segments nor in a journal: a start will refuse the partition"
                    )
                end = max(end, last + 1)
        return lines

    def copy(self) -> list[CopiedFile]:
        """Copy what was read. Journals without a round, as new ones are, are left out."""
        copier, copied = self._copier, []
        folder = f"{copier.copy_dir}/{FOLDER}"
        copier.target.make_folder(folder)
        for name in copier.target.list_folder(folder):
            copier.target.remove(f"{folder}/{name}")
        for name, reader in self._readers.items():
            rest = self._rests[name]
            if reader.is_empty and not rest:
                continue
            size, crc = self._copy(reader, rest, f"{folder}/{name}")
            copied.append(CopiedFile(f"{FOLDER}/{name}", size, crc, linked=False))
        return copied

    def _copy(self, reader: JournalReader, rest: bytes, path: str) -> tuple[int, int]:
        target = self._copier.target
        handle = target.open(path, create=True)
        try:
            position, crc = 0, 0
            while position < reader.end:
                data = reader.batch(position, min(PIECE, reader.end - position))
                target.write(handle, data, position)
                position, crc = position + len(data), crc32c(data, crc)
            target.write(handle, rest, position)
        finally:
            target.close(handle)
        self._copier.bytes_copied += position + len(rest)
        return position + len(rest), crc32c(rest, crc)

    def _read_on(self, reader: JournalReader) -> bytes:
        """Read the rounds until now. Returns what follows them, unless it is being written."""
        for _ in range(TAIL_TRIES):
            end = reader.end
            reader.read_on()
            if not reader.torn or reader.end > end:
                return b""
            self._copier.pause()
        return reader.after_end()

    def _open_all(self) -> None:
        for _ in range(TRIES):
            if self._open_new():
                return
        raise StorageError(f"{self._folder} changed each time it was read: try again")

    def _open_new(self) -> bool:
        """Open those that are listed. False if one of them was removed meanwhile."""
        for name in self._copier.source.list_folder(self._folder):
            if node_of(name) is None or name in self._readers:
                continue
            try:
                path = f"{self._folder}/{name}"
                self._readers[name] = JournalReader(self._copier.source, path, go_on=True)
            except FileNotFoundError:
                return False
        return True

    def _by_node(self) -> dict[int | None, list[JournalReader]]:
        nodes: dict[int | None, list[JournalReader]] = {}
        for name, reader in self._readers.items():
            nodes.setdefault(node_of(name), []).append(reader)
        for readers in nodes.values():
            readers.sort(key=lambda reader: reader.first_round)
        return nodes

    def _is_complete(self) -> bool:
        """Whether each node's rounds go on without a gap since the journals were opened first."""
        for node, readers in self._by_node().items():
            if node not in self._newest:
                return False
            since = readers[readers.index(self._newest[node]) :]
            if any(one.next_round != other.first_round for one, other in pairwise(since)):
                return False
        return True
