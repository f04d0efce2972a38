"""The manifest of a partition folder: its finished segments, and how far the log was on the disk.

Lines of JSON after a first line with the CRC-32C of the rest. Written when a segment is finished
and when a log is closed, and replaced whole. It guards the segments, and sound segments do not
need it: a folder without one (of a Kafka broker, or of an older version), or with a damaged one,
is opened all the same.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, read_whole, replace_whole
from groupkeeper.storage.log.index import IndexState
from groupkeeper.storage.recovery.marks import Mark, RecoveryPoint

FILE_NAME: Final = "manifest"
VERSION: Final = 1


class FinishedSegment(NamedTuple):
    """A segment that takes no more appends. A checksum is None where it is not known."""

    base: int
    end: int
    """The offset after its last one."""
    size: int
    """Bytes."""
    crc: int | None
    """CRC-32C of the segment."""
    index_crc: int | None
    """CRC-32C of both index files, one after the other."""
    compacted: bool = False
    """Offsets may be missing between its batches."""


@dataclass(slots=True, frozen=True)
class Manifest:
    """The contents of one file."""

    finished: Sequence[FinishedSegment] = ()
    begun: int | None = None
    """The base offset of the segment after the finished ones."""
    mark: Mark | None = None
    given_up: int = -1
    """An operator has accepted that records before this offset may be missing; -1: no loss."""
    rounds_lost_at: int = -1
    """A journal was missing when the log ended at this offset; -1: none was."""
    first_dirty: int = 0
    """Records before this offset are compacted: the newest of each key, and tombstones."""


class ManifestFile:
    """The manifest of one log."""

    def __init__(self, files: Files, folder: str) -> None:
        """Read it. Raises Corrupt if a newer version wrote it, and OSError."""
        self._files = files
        self._folder = folder
        self._path = f"{folder}/{FILE_NAME}"
        self.damage = ""
        """What is wrong with the file, in a line; empty if nothing is."""
        self.on_disk = self._read()
        self.given_up = -1
        self.first_dirty = self.on_disk.first_dirty

    def _read(self) -> Manifest:
        try:
            data = read_whole(self._files, self._path)
        except FileNotFoundError:
            return Manifest()
        manifest = parse_manifest(data, self._path)
        if manifest is None:
            self.damage = f"{self._path} is damaged, and is written anew"
        return manifest or Manifest()

    def write(
        self, finished: Sequence[FinishedSegment], begun: int | None, mark: Mark | None
    ) -> None:
        """Make it durable, if anything has changed. Raises OSError.

        A note of lost rounds goes: they were found, or an operator has given them up.
        """
        given_up = max(self.given_up, self.on_disk.given_up)
        mark = mark or self.on_disk.mark
        manifest = Manifest(finished, begun, mark, given_up, first_dirty=self.first_dirty)
        if manifest != self.on_disk:
            self._replace(manifest)

    def note_lost_rounds(self, end: int) -> None:
        """Make it durable that a journal is missing which held records up to `end`, or beyond it.

        The next start finds a journal that knows newer epochs, and nothing else would tell. Does
        nothing if the log ends where it was closed, or an operator has accepted the loss. Raises
        OSError.
        """
        closed_at = self.on_disk.mark.end if self.on_disk.mark is not None else 0
        if end not in (closed_at, self.on_disk.given_up, self.on_disk.rounds_lost_at):
            self._replace(replace(self.on_disk, rounds_lost_at=end))

    def _replace(self, manifest: Manifest) -> None:
        mark = manifest.mark
        first = {
            "version": VERSION,
            "begun": manifest.begun,
            "mark": None if mark is None else _mark_row(mark),
            "recovery_point": mark.point._asdict() if mark and mark.point else None,
            "given_up": manifest.given_up,
            "rounds_lost_at": manifest.rounds_lost_at,
            "first_dirty": manifest.first_dirty,
        }
        rows = [first, *(each._asdict() for each in manifest.finished)]
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        replace_whole(self._files, self._path, checksum(body) + b"\n" + body)
        self._files.sync_folder(self._folder)
        self.on_disk = manifest


def parse_manifest(data: bytes, path: str) -> Manifest | None:
    """The contents of the file; None if it is damaged. Raises Corrupt if a newer version wrote it.

    `path` is for the message.
    """
    head, _, body = data.partition(b"\n")
    if head != checksum(body):
        return None
    first, *lines = [json.loads(line) for line in body.splitlines()]
    if first["version"] > VERSION:
        raise Corrupt(f"{path} was written by a newer version of Groupkeeper: start that")
    return _parsed(first, lines)


def _mark_row(mark: Mark) -> dict[str, Any]:
    """The mark without its recovery point, which older versions do not know."""
    row = {**mark._asdict(), "tail": mark.tail.hex()}
    del row["point"]
    return row


def _parsed(first: dict[str, Any], lines: Iterable[dict[str, Any]]) -> Manifest:
    mark, point = first["mark"], first.get("recovery_point")
    if point is not None:
        point = RecoveryPoint(**{**point, "indexes": IndexState(*point["indexes"])})
    if mark is not None:
        mark = Mark(**{**mark, "tail": bytes.fromhex(mark["tail"])}, point=point)
    finished = [FinishedSegment(**line) for line in lines]
    # Files of older versions do not have all fields.
    lost_at, first_dirty = first.get("rounds_lost_at", -1), first.get("first_dirty", 0)
    return Manifest(finished, first["begun"], mark, first["given_up"], lost_at, first_dirty)
