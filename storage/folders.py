"""
Partition folders: their names, and which there were when the data directory was closed, so that a
lost one is missed.

A text file: a line with the CRC-32C of the rest, then a name per line. A clean stop writes it.
Folders that are made later are not in it, and those of deleted topics are taken out.
"""

from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from storage.errors import Corrupt, remedy
from storage.files import Files

FILE_NAME: Final = "folders"


class FolderList:
    """The list of one data directory, which is ours."""

    def __init__(self, files: Files, data_dir: str) -> None:
        """Read it. Raises OSError."""
        self._files = files
        self._data_dir = data_dir
        self.repairs: list[str] = []
        self._names = self._read()
        self._written = True

    def check(self, name: str) -> None:
        """Raises Corrupt if there must be something in a folder, and there is nothing."""
        folder = f"{self._data_dir}/{name}"
        if name in self._names and not self._files.list_folder(folder):
            raise Corrupt(f"{folder} is missing, with all its records: {remedy(folder)}")

    def forget(self, name: str) -> None:
        """The folder was removed for a good reason. To be made durable with `settle`."""
        if name in self._names:
            self._names.discard(name)
            self._written = False

    def settle(self) -> None:
        """Write what was forgotten; durable when the data directory is synced. Raises OSError."""
        if not self._written:
            self._written = True
            self._write(self._names)

    def leave(self, names: Iterable[str]) -> None:
        """These are there as the directory is closed. Durable then. Raises OSError."""
        self._write({*names, *self._names})
        self._files.sync_folder(self._data_dir)

    def _read(self) -> set[str]:
        path = f"{self._data_dir}/{FILE_NAME}"
        try:
            handle = self._files.open(path)
        except FileNotFoundError:
            return set()
        try:
            data = self._files.read(handle, self._files.size(handle), 0)
        finally:
            self._files.close(handle)
        head, _, body = data.partition(b"\n")
        if head != b"%08x" % crc32c(body):
            self.repairs.append(f"{path} is damaged: nobody knows whether a folder is missing")
            return set()
        return set(body.decode().splitlines())

    def _write(self, names: Iterable[str]) -> None:
        body = "".join(f"{name}\n" for name in sorted(names)).encode()
        data = b"%08x\n" % crc32c(body) + body
        path = f"{self._data_dir}/{FILE_NAME}"
        handle = self._files.open(f"{path}.tmp", create=True)
        try:
            self._files.write(handle, data, 0)
            self._files.truncate(handle, len(data))
            self._files.sync(handle)
        finally:
            self._files.close(handle)
        self._files.rename(f"{path}.tmp", path)


def is_partition(name: str) -> bool:
    """Whether a folder has the name of a partition's: `<topic>-<partition>`."""
    topic, dash, partition = name.rpartition("-")
    return bool(topic and dash) and partition.isdigit()


def partition_of(name: str) -> int:
    """The number at the end of such a name."""
    return int(name.rpartition("-")[2])
