"""
Which partition folders there were when the data directory was closed, so that a lost one is missed.

A text file: a line with the CRC-32C of the rest, then a name per line. A start reads it and leaves
in it only the names it misses: from then on folders come and go.
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
        """Read it, and keep what is missing. Raises OSError."""
        self._files = files
        self._data_dir = data_dir
        self.repairs: list[str] = []
        listed = self._read()
        self._missing = listed - set(files.list_folder(data_dir))
        if listed:
            self._write(self._missing)
            files.sync_folder(data_dir)

    def check(self, name: str) -> None:
        """Raises Corrupt if a folder should be there."""
        folder = f"{self._data_dir}/{name}"
        if name not in self._missing:
            return
        if name not in self._files.list_folder(self._data_dir):
            raise Corrupt(f"{folder} is missing, with all its records: {remedy(folder)}")
        self._missing.discard(name)

    def forget(self, name: str) -> None:
        """A folder need not be there any more, from now on. Raises OSError."""
        if name in self._missing:
            self._missing.discard(name)
            self._write(self._missing)
            self._files.sync_folder(self._data_dir)

    def leave(self, names: Iterable[str]) -> None:
        """These are there as the directory is closed. Durable then. Raises OSError."""
        self._write({*names, *self._missing})
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
