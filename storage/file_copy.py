"""Copies of single files for a backup: linked, copied as a whole, or followed while they grow."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from crc32c import crc32c

from groupkeeper.storage.files import Files
from groupkeeper.storage.manifest import FinishedSegment
from groupkeeper.storage.scan import valid_batches
from groupkeeper.storage.window import PIECE, Window

TAIL_TRIES: Final = 5
"""How often the end of a segment is read until it is sound. A batch is written in microseconds."""

NO_LINKS: Final = {
    errno.EXDEV: "is on another file system",
    errno.EPERM: "allows no hard links to these files",
    errno.ENOTSUP: "allows no hard links",
    errno.ENOSYS: "allows no hard links",
    errno.EMLINK: "allows no more hard links to a file",
}
"""Errors of a link after which the file is copied, and what they say about the target."""


@dataclass(slots=True)
class Copier:
    """Where files are copied from and to, and what was remarkable."""

    source: Files
    data_dir: str
    target: Files
    copy_dir: str
    pause: Callable[[], None]
    """Called before something is tried again."""
    may_link: bool = True
    no_links: str = ""
    """Why files were copied that could be linked; empty if none was."""
    warnings: dict[str, str] = field(default_factory=dict)
    """By path: a line about damage in the source, which the copy has, too."""
    bytes_copied: int = 0
    """Also of what was copied in vain."""

    def link(self, name: str) -> bool:
        """Link a file, by its path in the data directory. False if it has to be copied."""
        path = f"{self.copy_dir}/{name}"
        if not self.may_link:
            return False
        try:
            self.target.link(f"{self.data_dir}/{name}", f"{path}.link")
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self.no_links = NO_LINKS[error.errno]
            self.may_link = error.errno == errno.EMLINK
            return False
        self.target.rename(f"{path}.link", path)
        return True


class FileCopy:
    """One file and its copy."""

    def __init__(self, copier: Copier, name: str, identity: tuple[int, int]) -> None:
        """`name` is its path in the data directory."""
        self._copier = copier
        self.name = name
        self.identity = identity
        self.size = 0
        """Bytes that were copied or linked."""
        self.crc: int | None = 0
        """Their CRC-32C; None if they were not read."""
        self.linked = False
        self.made_as: FinishedSegment | None = None
        """What the manifest knew of its segment when all of it was copied."""
        self.whole = False
        """All of it is there, and it does not grow."""
        self.next_offset = 0
        """The offset after the last sound batch that `follow` has found."""
        self._last = 0
        """The position of that batch."""
        self._sound = 0
        """Bytes up to its end."""
        self._sound_crc = 0

    @property
    def is_sound(self) -> bool:
        """Whether the copy ends with a whole batch."""
        return self._sound == self.size

    def link(self, size: int, crc: int | None) -> bool:
        """Link the file, whose size and checksum are known. False if it has to be copied."""
        self.linked = self._copier.link(self.name)
        if self.linked:
            self.size, self.crc, self.whole = size, crc, True
        return self.linked

    def copy(self) -> None:
        """Copy a file that does not grow any more; what `follow` has copied stays."""
        with _Pair(self._copier, self.name) as pair:
            self._check_continued(pair)
            self.size = pair.size
            self.crc = pair.copy(self._sound, self.size, self._sound_crc)
            self.whole = True

    def follow(self, base: int) -> bool:
        """Copy what was appended to the last segment. False if it does not end with a whole batch:
        then its end is torn, or damaged, and is copied as it is.
        """
        assert not self.linked, "the bytes of the source would be written"
        with _Pair(self._copier, self.name) as pair:
            self._check_continued(pair)
            for _ in range(TAIL_TRIES):
                self.size = pair.size
                self.crc = pair.copy(self._sound, self.size, self._sound_crc)
                self._check(pair, base)
                if self._sound == self.size:
                    return True
                self._copier.pause()
        return False

    def _check_continued(self, pair: "_Pair") -> None:
        """Begin anew if a start has cut off the end of what was copied."""
        if not pair.has_same(self._last, self._sound):
            self._sound = self._sound_crc = self._last = 0

    def _check(self, pair: "_Pair", base: int) -> None:
        """Find the sound batches in what was copied."""
        before = self._sound
        if not before:
            self.next_offset = base
        for batch in valid_batches(pair.copy_window(self.size), before, self.next_offset):
            self._last = batch.position
            self._sound = batch.position + batch.size
            self.next_offset = batch.last_offset + 1
        self._sound_crc = pair.copy_crc(before, self._sound, self._sound_crc)


class _Pair:
    """A file and its copy, open within a `with` block."""

    def __init__(self, copier: Copier, name: str) -> None:
        self._copier = copier
        self._reading = copier.source.open(f"{copier.data_dir}/{name}")
        try:
            self._writing = copier.target.open(f"{copier.copy_dir}/{name}", create=True)
        except BaseException:
            copier.source.close(self._reading)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._copier.source.close(self._reading)
        self._copier.target.close(self._writing)

    @property
    def size(self) -> int:
        """Of the file."""
        return self._copier.source.size(self._reading)

    def copy(self, start: int, end: int, crc: int) -> int:
        """Copy all from a position on; returns `crc` continued over it.

        If the file is shorter than `end` by now, the rest of the copy is zeros, and not sound.
        """
        copier = self._copier
        for at in range(start, end, PIECE):
            size = min(PIECE, end - at)
            data = copier.source.read(self._reading, size, at).ljust(size, b"\0")
            copier.target.write(self._writing, data, at)
            crc = crc32c(data, crc)
            copier.bytes_copied += size
        if copier.target.size(self._writing) > end:
            copier.target.truncate(self._writing, end)
        return crc

    def has_same(self, start: int, end: int) -> bool:
        """Whether both have the same bytes there."""
        files = self._copier
        found = files.source.read(self._reading, end - start, start)
        return found == files.target.read(self._writing, end - start, start)

    def copy_window(self, size: int) -> Window:
        return Window(self._copier.target, self._writing, size)

    def copy_crc(self, start: int, end: int, crc: int) -> int:
        """`crc` continued over a part of the copy."""
        for at in range(start, end, PIECE):
            data = self._copier.target.read(self._writing, min(PIECE, end - at), at)
            crc = crc32c(data, crc)
        return crc
