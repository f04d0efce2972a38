"""Paths of files to read and of tables to write: local ones, and those on pyarrow's file systems
(S3, Google Cloud Storage, Azure, HDFS), named by a URL.

`RemotePath` has the needed part of `pathlib.Path`, so other modules use both alike. Operations that
depend on the kind of file system are functions here.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple, Union, cast

from groupkeeper.analytics.errors import AnalyticsError

if TYPE_CHECKING:
    from pyarrow import fs as pyarrow_fs

SCHEMES: Final = {name: name for name in ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")} | {
    "s3a": "s3",
    "s3n": "s3",
}
"""URL scheme -> pyarrow's name for it: Hadoop uses other names for S3."""


class RemotePath:
    """A file or folder on a pyarrow file system. `str` returns its URL."""

    __slots__ = ("_base", "_path", "_query")

    def __init__(self, base: str, path: PurePosixPath, query: str = "") -> None:
        """`base` is the scheme and everything up to the path, `query` the settings after it."""
        self._base = base
        self._path = path
        self._query = query

    def __str__(self) -> str:
        return f"{self._base}{self._path}{self._query}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __lt__(self, other: "RemotePath") -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(self._base, self._path / name, self._query)

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def stem(self) -> str:
        return self._path.stem

    @property
    def parent(self) -> "RemotePath":
        return RemotePath(self._base, self._path.parent, self._query)

    def with_suffix(self, suffix: str) -> "RemotePath":
        return RemotePath(self._base, self._path.with_suffix(suffix), self._query)

    def open(self, mode: Literal["rb"]) -> BinaryIO:  # signature of pathlib
        """Raises OSError."""
        system, path = self.located()
        return cast(BinaryIO, system.open_input_file(path))

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def exists(self) -> bool:
        return bool(self.info().type.name != "NotFound")

    def is_file(self) -> bool:
        return bool(self.info().is_file)

    def resolve(self) -> "RemotePath":
        return self

    def iterdir(self) -> Iterator["RemotePath"]:
        """Raises OSError."""
        return self._below(recursive=False)

    def files(self) -> Iterator["RemotePath"]:
        """All files at any depth. Raises OSError."""
        return self._below(recursive=True)

    def info(self) -> "pyarrow_fs.FileInfo":
        """Raises OSError."""
        system, path = self.located()
        return system.get_file_info(path)

    def _below(self, *, recursive: bool) -> Iterator["RemotePath"]:
        from pyarrow import fs as pyarrow_fs

        system, path = self.located()
        for found in system.get_file_info(pyarrow_fs.FileSelector(path, recursive=recursive)):
            if found.is_file or not recursive:
                yield self / str(PurePosixPath(found.path).relative_to(path))

    def located(self) -> "tuple[pyarrow_fs.FileSystem, str]":
        """Return the file system, and the path on it."""
        system, root = _system(f"{self._base}/{self._query}")
        return system, str(PurePosixPath(root, str(self._path).lstrip("/")))


AnyPath = Union[Path, RemotePath]  # noqa: UP007  # a value, for mypy and isinstance alike


class Status(NamedTuple):
    """Size in bytes, and the identity of a file as opposed to a replacement: (device, inode), or
    (time of change, size) on remote file systems.
    """

    size: int
    identity: tuple[int, int]


def place(text: str) -> AnyPath:
    """A local path, or a remote one if the scheme is in SCHEMES. Raises AnalyticsError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        return Path(text)
    rest, mark, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    return RemotePath(f"{scheme}://{authority}", PurePosixPath("/", path), mark + query)


@lru_cache
def _system(url: str) -> "tuple[pyarrow_fs.FileSystem, str]":
    from pyarrow import fs as pyarrow_fs

    scheme, separator, rest = url.partition("://")
    try:
        system, root = pyarrow_fs.FileSystem.from_uri(f"{SCHEMES[scheme]}{separator}{rest}")
    except (OSError, ValueError, NotImplementedError) as error:
        raise AnalyticsError(f"cannot reach {url}: {one_line(error)}") from error
    return system, root


def located(path: AnyPath) -> "tuple[pyarrow_fs.FileSystem, str]":
    """Return the pyarrow file system, and the path on it."""
    if isinstance(path, RemotePath):
        return path.located()
    from pyarrow import fs as pyarrow_fs

    return pyarrow_fs.LocalFileSystem(), os.path.abspath(path)


def one_line(error: BaseException) -> str:
    """Return the reason: the system's message, or the first line of a library's."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or (str(error).splitlines() or [type(error).__name__])[0]


def absolute(path: AnyPath) -> AnyPath:
    """Make absolute without resolving links: only a link's own name has to state its partition."""
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))


def status(path: AnyPath) -> Status:
    """Raises OSError."""
    if isinstance(path, RemotePath):
        info = path.info()
        if not info.is_file:
            raise FileNotFoundError(str(path))
        return Status(info.size, (info.mtime_ns or 0, info.size))
    found = path.stat()
    return Status(found.st_size, (found.st_dev, found.st_ino))


def identity(path: AnyPath, file: BinaryIO) -> tuple[int, int]:
    """Return the identity of an open file, as in `Status`. Raises OSError."""
    if isinstance(path, RemotePath):
        return status(path).identity
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def is_listed(path: AnyPath) -> bool:
    """Return whether the name exists, even as a broken link."""
    return path.exists() if isinstance(path, RemotePath) else os.path.lexists(path)
