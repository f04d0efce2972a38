"""A file system in memory on top of another one, which stays unchanged.

For trying out changes to files, such as opening a damaged log without the lost part. A file is read
from the file system below until its first change, which copies all of its bytes: to memory, or to a
temporary file of the system if they are many. The file system below must not change meanwhile. Not
thread-safe.
"""

from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Final

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import File, MemoryFiles
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.window import PIECE

IN_MEMORY: Final = 16 * PIECE
"""Size in bytes beyond which a changed file is kept in a temporary file."""


class _ShownFile(File):
    """A file as the overlay shows it: one from below, changed or not, or one created here."""

    def __init__(
        self, modified_ms: int, below: tuple[Files, str] | None = None, size: int = 0
    ) -> None:
        super().__init__(modified_ms)
        self.below = below
        """File system and path of the file below; None for a file created in the overlay."""
        self._own: SpooledTemporaryFile[bytes] | None = None
        """All bytes of the file after its first change; None before."""
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def read(self, size: int, position: int) -> bytes:
        size = max(0, min(size, self._size - position))
        if self._own is not None:
            self._own.seek(position)
            return self._own.read(size)
        if self.below is None:
            return b""
        files, path = self.below
        with opened(files, path) as handle:
            return files.read(handle, size, position)

    def write(self, data: bytes, position: int) -> None:
        if not data:
            return
        if self._own is None:
            own = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  # in use as long as the file
            for start in range(0, self._size, PIECE):
                own.write(self.read(PIECE, start))
            self._own = own
        self._own.seek(position)
        self._own.write(data)
        self._size = max(self._size, position + len(data))

    def truncate(self, size: int) -> None:
        if size > self._size:
            self.write(bytes(size - self._size), self._size)
        elif self._own is not None:
            self._own.truncate(size)
        self._size = size


class OverlayFiles(MemoryFiles):
    """Shows folders of another file system; changes stay in the overlay."""

    def __init__(self, files: Files) -> None:
        super().__init__()
        self._below = files
        self.overwritten: set[str] = set()
        """Paths of files below that were written to in place since the last `show`."""

    def show(self, folder: str) -> None:
        """Show a folder with its files as they are below; its subfolders start out empty.

        Earlier changes in the folder are discarded. Raises OSError.
        """
        self.overwritten.clear()
        with suppress(FileNotFoundError):
            self._folder(folder).names.clear()
        if not self._below.stamp(folder):
            self.remove_folder(folder)
            return
        self.make_folder(folder)
        shown = self._folder(folder)
        for name in self._below.list_folder(folder):
            path = f"{folder}/{name}"
            found = self._below.look(path)
            if found is None:
                self.make_folder(path)
            else:
                file = _ShownFile(found.modified_ms, (self._below, path), found.size)
                shown.put(name, file)

    def _new_file(self) -> File:
        return _ShownFile(0)

    def boot_id(self) -> str:
        return self._below.boot_id()

    def write(self, handle: int, data: bytes, position: int) -> None:
        self._changing(handle).write(data, position)

    def truncate(self, handle: int, size: int) -> None:
        self._changing(handle).truncate(size)

    def _changing(self, handle: int) -> File:
        file = self._file(handle)
        if isinstance(file, _ShownFile) and file.below is not None:
            self.overwritten.add(file.below[1])
        return file
