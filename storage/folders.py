"""The partition folders of a data directory, and a list of them that reveals missing ones.

The list is a text file. A clean stop writes a header line (the CRC-32C of the rest and the number
of lines), then one line `name start` per folder, where records before offset `start` were deleted
(0 if none were). Later changes, that is new folders and new starts, are appended as `crc boot name
start`. Appended lines are not synced, so they count only until the machine restarts (`boot` is the
system's boot id). Starts above 0 are the exception: they were made durable in their folders first.
Deleted folders are removed from the list.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, remedy
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, opened, read_whole, replace_whole
from groupkeeper.storage.log.start import FILE_NAME as START_FILE
from groupkeeper.storage.log.start import read_start, write_start

FILE_NAME: Final = "folders"

MOST_REPEATED: Final = 1_000
"""Superseded lines in the file beyond which a new start rewrites the file."""

_WORDS: Final = 4
"""Number of words in an appended line."""


class FolderList:
    """The list of one data directory, which this process has locked."""

    def __init__(self, files: Files, data_dir: str) -> None:
        """Read the list. Raises OSError."""
        self._files = files
        self._data_dir = data_dir
        self._path = f"{data_dir}/{FILE_NAME}"
        self._boot = files.boot_id()
        self.repairs: list[str] = []
        self._stopped: dict[str, int] = {}
        """Starts by folder name, as of the last clean stop."""
        self._noted: dict[str, int] = {}
        """Starts by folder name, noted since then."""
        self._lines = 0
        """Number of appended lines in the file."""
        self._read()
        self._saved = True

    @property
    def names(self) -> set[str]:
        """The folders that must exist."""
        return self._stopped.keys() | self._noted.keys()

    def check(self, name: str) -> str:
        """Check one folder, and raise Corrupt if the list has it and it is missing or empty.

        Returns a message if the folder's log start checkpoint was lost and has been restored, else
        "".
        """
        folder = f"{self._data_dir}/{name}"
        start = self._noted.get(name, self._stopped.get(name))
        if start is None:
            return ""
        names = self._files.list_folder(folder)
        if not names:
            raise Corrupt(f"{folder} is missing, with all its records: {remedy(folder)}")
        found = self._found(folder, names, start) if start else ""
        if not found:
            return ""
        write_start(self._files, folder, start)
        return f"{folder}/{START_FILE} was {found}: restored, the log begins at offset {start}"

    def _found(self, folder: str, names: Collection[str], start: int) -> str:
        """Describe the damage to the checkpoint of a folder, or "". Also "" if opening the log must
        fail because no operator has accepted losses yet.
        """
        if START_FILE not in names:
            return "missing"
        try:
            offset = read_start(self._files, folder)
        except Corrupt:
            return "damaged" if ACCEPT_FILE in names else ""
        return f"damaged and had {offset}" if offset < start else ""

    def note(self, name: str, start: int = 0) -> None:
        """List a folder that has a log, whose records before `start` were durably deleted.

        Thread-safe. If the write fails, only the list entry is lost.
        """
        self._noted[name] = start
        self._lines += 1
        with suppress(OSError):
            if start and self._lines > len(self._noted) + MOST_REPEATED:
                self._write()
                return
            with opened(self._files, self._path, create=True) as handle:
                self._files.write(handle, _line(self._boot, name, start), self._files.size(handle))

    def note_removed(self, name: str) -> None:
        """Take a deleted folder off the list; `save` makes the removal durable."""
        known = {self._stopped.pop(name, None), self._noted.pop(name, None)}
        self._saved = self._saved and known == {None}

    def save(self) -> None:
        """Write the list if folders were removed. Durable once the data directory is synced.

        Raises OSError.
        """
        if not self._saved:
            self._saved = True
            self._write()

    def leave(self, names: Iterable[str]) -> None:
        """Durably write the list of a clean stop, including these folders. Raises OSError."""
        self._stopped = dict.fromkeys(names, 0) | self._stopped | self._noted
        self._noted.clear()
        self._write()
        self._files.sync_folder(self._data_dir)

    def _read(self) -> None:
        try:
            data = read_whole(self._files, self._path)
        except FileNotFoundError:
            return
        lines = data.decode("ascii", "replace").splitlines(keepends=True)
        count = self._read_stopped(lines)
        for line in lines[count:]:
            words = line.split()
            if len(words) == _WORDS and words[3].isdigit():
                boot, name, start = words[1], words[2], int(words[3])
                sound = line.encode() == _line(boot, name, start)
                if sound and (start or boot == self._boot):
                    self._noted[name] = start
        self._lines = len(lines) - count

    def _read_stopped(self, lines: list[str]) -> int:
        """Read the part that the last clean stop wrote; return its number of lines."""
        words = lines[0].split() if lines else []
        if len(words) == _WORDS:
            return 0  # no clean stop yet
        count = int(words[-1]) if words and words[-1].isdigit() else 0
        body = lines[1 : count + 1]
        if words != [checksum("".join(body).encode()).decode(), str(count)]:
            self.repairs.append(
                f"{self._path} is damaged: a missing partition folder would not be noticed"
            )
            return 0
        for line in body:
            name, _, start = line.partition(" ")
            self._stopped[name] = int(start)
        return count + 1

    def _write(self) -> None:
        noted = None
        while noted != (noted := list(self._noted.items())):  # `note` may run meanwhile
            rows = [f"{name} {start}\n" for name, start in sorted(self._stopped.items())]
            body = "".join(rows).encode()
            lines = [_line(self._boot, name, start) for name, start in noted]
            head = checksum(body) + b" %d\n" % len(rows)
            replace_whole(self._files, self._path, b"".join([head, body, *lines]))
            self._lines = len(noted)


def _line(boot: str, name: str, start: int) -> bytes:
    body = f"{boot} {name} {start}\n".encode()
    return checksum(body) + b" " + body


def is_partition(name: str) -> bool:
    """Return whether a folder name is that of a partition: `<topic>-<partition>`."""
    topic, dash, partition = name.rpartition("-")
    return bool(topic and dash) and partition.isdigit()


def partition_of(name: str) -> int:
    """Return the partition number at the end of a partition folder's name."""
    return int(name.rpartition("-")[2])


def partitions_among(names: Iterable[str]) -> list[str]:
    """Return the partition folders among some names, sorted by topic and number."""
    return sorted(
        filter(is_partition, names), key=lambda name: (name.rpartition("-")[0], partition_of(name))
    )
