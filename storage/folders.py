"""
Partition folders: their names, and which there are, so that a lost one is missed.

A text file. A clean stop writes it: a line with the CRC-32C of what follows and how many lines that
is, then a line per folder, `name start`, with the offset before which records were deleted, 0 if
none were. Behind these come the folders made since, and the starts that changed, as `crc boot name
start`: not synced, and so only true until the machine starts anew (`boot` is the id that the system
gives each of its starts), but for starts, which are durable in their folders before. What was
deleted is taken out.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files import Files
from groupkeeper.storage.start import FILE_NAME as START_FILE
from groupkeeper.storage.start import write_start
from groupkeeper.storage.whole import read_whole, replace_whole

FILE_NAME: Final = "folders"

MOST_REPEATED: Final = 1_000
"""With more lines that later ones made void, a new start has the file written anew."""

_SINCE: Final = 4
"""Words of a line about what is new."""


class FolderList:
    """The list of one data directory, which is ours."""

    def __init__(self, files: Files, data_dir: str) -> None:
        """Read it. Raises OSError."""
        self._files = files
        self._data_dir = data_dir
        self._path = f"{data_dir}/{FILE_NAME}"
        self._boot = files.boot_id()
        self.repairs: list[str] = []
        self._left: dict[str, int] = {}
        """What a clean stop left, with the starts."""
        self._since: dict[str, int] = {}
        """What was noted since."""
        self._lines = 0
        """How many were noted in the file."""
        self._read()
        self._written = True

    def check(self, name: str) -> str:
        """
        Raises Corrupt if there must be something in a folder, and there is nothing. Returns, in
        words, what was put right: the file that says where the log begins was lost.
        """
        folder = f"{self._data_dir}/{name}"
        start = self._since.get(name, self._left.get(name))
        if start is None:
            return ""
        names = self._files.list_folder(folder)
        if not names:
            raise Corrupt(f"{folder} is missing, with all its records: {remedy(folder)}")
        if not start or START_FILE in names:
            return ""
        write_start(self._files, folder, start)
        return f"{folder}/{START_FILE} was missing: the log begins at offset {start}, as it did"

    def note(self, name: str, start: int = 0) -> None:
        """
        There is something in a folder now; its records before `start` were deleted, durably. May
        be called beside everything else. A disk that refuses costs no more than the note.
        """
        self._since[name] = start
        self._lines += 1
        with suppress(OSError):
            if start and self._lines > len(self._since) + MOST_REPEATED:
                self._write()
                return
            handle = self._files.open(self._path, create=True)
            try:
                self._files.write(handle, self._line(name, start), self._files.size(handle))
            finally:
                self._files.close(handle)

    def forget(self, name: str) -> None:
        """The folder was removed for a good reason. To be made durable with `settle`."""
        known = {self._left.pop(name, None), self._since.pop(name, None)}
        self._written = self._written and known == {None}

    def settle(self) -> None:
        """Write what was forgotten; durable when the data directory is synced. Raises OSError."""
        if not self._written:
            self._written = True
            self._write()

    def leave(self, names: Iterable[str]) -> None:
        """These are there as the directory is closed. Durable then. Raises OSError."""
        self._left = dict.fromkeys(names, 0) | self._left | self._since
        self._since.clear()
        self._write()
        self._files.sync_folder(self._data_dir)

    def _read(self) -> None:
        try:
            data = read_whole(self._files, self._path)
        except FileNotFoundError:
            return
        lines = data.decode("ascii", "replace").splitlines(keepends=True)
        count = self._read_left(lines)
        for line in lines[count:]:
            words = line.split()
            if len(words) == _SINCE and words[3].isdigit():
                boot, name, start = words[1], words[2], int(words[3])
                sound = line == _line(boot, name, start)
                if sound and (start or boot == self._boot):
                    self._since[name] = start
        self._lines = len(lines) - count

    def _read_left(self, lines: list[str]) -> int:
        """Read what a clean stop left; of how many lines that is."""
        words = lines[0].split() if lines else []
        if len(words) == _SINCE:
            return 0  # there was no clean stop so far
        count = int(words[-1]) if words and words[-1].isdigit() else 0
        body = lines[1 : count + 1]
        if words != [_crc("".join(body)), str(count)]:
            self.repairs.append(
                f"{self._path} is damaged: nobody knows whether a folder is missing"
            )
            return 0
        for line in body:
            name, _, start = line.partition(" ")
            self._left[name] = int(start)
        return count + 1

    def _line(self, name: str, start: int) -> bytes:
        return _line(self._boot, name, start).encode()

    def _write(self) -> None:
        noted = None
        while noted != (noted := list(self._since.items())):  # another thread may note meanwhile
            body = "".join(f"{name} {start}\n" for name, start in sorted(self._left.items()))
            lines = [f"{_crc(body)} {len(self._left)}\n{body}".encode()]
            lines += [self._line(name, start) for name, start in noted]
            replace_whole(self._files, self._path, b"".join(lines))
            self._lines = len(noted)


def _crc(text: str) -> str:
    return f"{crc32c(text.encode()):08x}"


def _line(boot: str, name: str, start: int) -> str:
    body = f"{boot} {name} {start}\n"
    return f"{_crc(body)} {body}"


def is_partition(name: str) -> bool:
    """Whether a folder has the name of a partition's: `<topic>-<partition>`."""
    topic, dash, partition = name.rpartition("-")
    return bool(topic and dash) and partition.isdigit()


def partition_of(name: str) -> int:
    """The number at the end of such a name."""
    return int(name.rpartition("-")[2])
