"""Files of a folder on any file system of pyarrow. On this machine they are brought to the disk, so
that a power cut does not take them back.
"""

import errno
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from groupkeeper.analytics.reading.files import Place, located

Item = TypeVar("Item")

PRIVATE: Final = "_groupkeeper"
"""What is not a table: Spark, Arrow and others pass over names that begin so."""
_AT_ONCE: Final = 16
"""File systems write together what is synced at the same time: a tenth of the time on ext4. Object
stores answer so many requests at once.
"""


class Files:
    """Paths are relative to the folder, with slashes. Methods raise OSError."""

    def __init__(self, place: Place) -> None:
        self.place = place
        system, root = located(place)
        self.system = fs.SubTreeFileSystem(root, system)
        # In an object store a name with slashes is enough, and a folder would be an object.
        self._has_folders = system.type_name not in {"s3", "gcs", "abfs"}

    def sizes(self, under: str = "", *, recursive: bool = True) -> dict[str, int]:
        """Path -> bytes, of files at any depth; without `recursive`, of all that is right there."""
        chosen = fs.FileSelector(under, allow_not_found=True, recursive=recursive)
        found = self.system.get_file_info(chosen)
        return {
            each.path: each.size
            for each in sorted(found, key=lambda each: each.path)
            if each.is_file or not recursive
        }

    def read(self, path: str) -> bytes | None:
        """None if there is no such file."""
        try:
            with self.system.open_input_stream(path, compression=None) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def writer(self, path: str) -> pa.NativeFile:
        """A new file, which is not on the disk yet."""
        self._make_folder_of(path)
        return self.system.open_output_stream(path, compression=None)

    def write(self, path: str, data: bytes) -> None:
        """The same of a whole file."""
        with self.writer(path) as file:
            file.write(data)

    def replace(self, path: str, data: bytes) -> None:
        """A reader finds the old file or the new one, also after a power cut."""
        attempt = f"{PRIVATE}/attempt-{uuid4().hex}"
        self.write(attempt, data)
        self.sync([attempt])
        self.move(attempt, path)
        self.sync([str(PurePosixPath(path).parent)])

    def move(self, path: str, target: str) -> None:
        """One step on a file system, a copy and its removal in an object store."""
        self._make_folder_of(target)
        self.system.move(path, target)

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it, if it is there."""
        kind = self.system.get_file_info(path).type
        if kind is fs.FileType.Directory:
            self.system.delete_dir(path)
        elif kind is not fs.FileType.NotFound:
            self.system.delete_file(path)

    def sync(self, paths: Iterable[str]) -> None:
        """Wait until files, and the names in folders, are on the disk of this machine."""
        if isinstance(self.place, Path):
            each(_sync, [self.place / path for path in paths])

    def _make_folder_of(self, path: str) -> None:
        if self._has_folders:
            self.system.create_dir(str(PurePosixPath(path).parent))


def each(step: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Take a step with all items, many at once."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(step, items):
            pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems know it of files only.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)
