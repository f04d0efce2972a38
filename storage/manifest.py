"""
The manifest of a partition folder: which finished segments it must hold, and how far the last one
was on the disk when the log was closed.

Lines of JSON behind a first line with the CRC-32C of the rest. Written when a segment is finished
and when a log is closed; replaced whole or not at all. A folder without one, of a broker or of an
older version, is taken as it is. So is one with a damaged one: it guards the segments, and nobody
needs it when they are whole.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files import Files
from groupkeeper.storage.marks import Mark
from groupkeeper.storage.whole import read_whole, replace_whole

FILE_NAME: Final = "manifest"
VERSION: Final = 1


class Finished(NamedTuple):
    """A segment that nothing is appended to any more. CRCs are None where nobody knew them."""

    base: int
    end: int
    """The offset after the last one."""
    size: int
    crc: int | None
    index_crc: int | None
    """CRC-32C of both index files, one after the other."""


@dataclass(slots=True, frozen=True)
class Manifest:
    """What one file says."""

    finished: Sequence[Finished] = ()
    begun: int | None = None
    """The base offset of the segment that was begun behind the finished ones."""
    mark: Mark | None = None
    given_up: int = -1
    """A person has accepted that records before this offset may be missing; -1 if nobody has."""
    rounds_lost_at: int = -1
    """A journal was missing when the log ended at this offset; -1 if that was never so."""


def read_manifest(files: Files, folder: str) -> tuple[Manifest, str]:
    """
    The manifest of a folder, and what is wrong with the file, in words, if it is damaged.

    Raises Corrupt if a newer version wrote it, and OSError.
    """
    path = f"{folder}/{FILE_NAME}"
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return Manifest(), ""
    head, _, body = data.partition(b"\n")
    if head != b"%08x" % crc32c(body):
        return Manifest(), f"{path} is damaged, and made anew"
    first, *lines = [json.loads(line) for line in body.splitlines()]
    if first["version"] > VERSION:
        raise Corrupt(f"{path} was written by a newer version of Groupkeeper: use that one")
    return _parsed(first, lines), ""


def _parsed(first: dict[str, Any], lines: Iterable[dict[str, Any]]) -> Manifest:
    mark = first["mark"]
    if mark is not None:
        mark = Mark(**{**mark, "tail": bytes.fromhex(mark["tail"])})
    finished = [Finished(**line) for line in lines]
    lost_at = first.get("rounds_lost_at", -1)  # an older file does not say so
    return Manifest(finished, first["begun"], mark, first["given_up"], lost_at)


class Keeper:
    """The manifest of an open log."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self.read = Manifest()
        """As it is on the disk."""
        self.given_up = -1

    def write(self, finished: Sequence[Finished], begun: int | None, mark: Mark | None) -> None:
        """
        Make it durable, if it is news. Raises OSError. What was noted of lost rounds goes: they
        have been found, or a person has given them up.
        """
        given_up = max(self.given_up, self.read.given_up)
        manifest = Manifest(finished, begun, mark or self.read.mark, given_up)
        if manifest != self.read:
            write_manifest(self._files, self._folder, manifest)
            self.read = manifest

    def note_lost_rounds(self, end: int) -> None:
        """
        A journal is missing that records up to offset `end` went through, and maybe more of them.
        Made durable: at the next start there is a journal again, which knows newer epochs, and
        nothing else tells. Not if the log ends as it was closed, or a person has accepted the loss.
        Raises OSError.
        """
        closed_at = self.read.mark.end if self.read.mark is not None else 0
        if end not in (closed_at, self.read.given_up, self.read.rounds_lost_at):
            self.read = replace(self.read, rounds_lost_at=end)
            write_manifest(self._files, self._folder, self.read)


def write_manifest(files: Files, folder: str, manifest: Manifest) -> None:
    """Make it durable in a folder that is there. Raises OSError; it may have been replaced then."""
    mark = manifest.mark
    first = {
        "version": VERSION,
        "begun": manifest.begun,
        "mark": None if mark is None else {**mark._asdict(), "tail": mark.tail.hex()},
        "given_up": manifest.given_up,
        "rounds_lost_at": manifest.rounds_lost_at,
    }
    rows = [first, *(each._asdict() for each in manifest.finished)]
    body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    path = f"{folder}/{FILE_NAME}"
    replace_whole(files, path, b"%08x\n" % crc32c(body) + body)
    files.sync_folder(folder)
