"""The manifest of a partition folder: its finished segments, and how far the log was on disk.

Lines of JSON after a first line with the CRC-32C of the rest. Written when a segment is finished
and when a log is closed, and replaced as a whole. It guards the segments, but sound segments do not
depend on it: a folder whose manifest is damaged or missing (from a Kafka
broker) can still be opened.
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
    """A segment that takes no more appends. Unknown checksums are None."""

    base: int
    end: int
    """The offset after its last record."""
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
    """The contents of a manifest file."""

    finished: Sequence[FinishedSegment] = ()
    begun: int | None = None
    """The base offset of the segment after the finished ones."""
    mark: Mark | None = None
    given_up: int = -1
    """An operator has accepted that records before this offset may be missing; -1: no loss."""
    flushes_lost_at: int = -1
    """A journal was missing when the log ended at this offset; -1: none was."""
    first_dirty: int = 0
    """Records before this offset are compacted: the newest of each key, and tombstones, remain."""


class ManifestFile:
    """The manifest of one log."""

    def __init__(self, files: Files, folder: str) -> None:
        """Read the manifest. Raises OSError, and Corrupt if a newer version wrote it."""
        self._files = files
        self._folder = folder
        self._path = f"{folder}/{FILE_NAME}"
        self.damage = ""
        """Message about a damaged file; empty if it is sound."""
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
            self.damage = f"{self._path} is damaged, and will be rewritten"
        return manifest or Manifest()

    def write(
        self, finished: Sequence[FinishedSegment], begun: int | None, mark: Mark | None
    ) -> None:
        """Durably write the manifest, if anything has changed. Raises OSError.

        A note of lost flushes is removed: they were found, or an operator has given them up.
        """
        given_up = max(self.given_up, self.on_disk.given_up)
        mark = mark or self.on_disk.mark
        manifest = Manifest(finished, begun, mark, given_up, first_dirty=self.first_dirty)
        if manifest != self.on_disk:
            self._replace(manifest)

    def note_lost_flushes(self, end: int) -> None:
        """Durably note that a journal with records up to `end` or beyond is missing.

        At the next start a journal has the newer epochs, so that nothing else would reveal the
        loss. Does nothing if the log ends where it was closed, or an operator has accepted the
        loss. Raises OSError.
        """
        closed_at = self.on_disk.mark.end if self.on_disk.mark is not None else 0
        if end not in (closed_at, self.on_disk.given_up, self.on_disk.flushes_lost_at):
            self._replace(replace(self.on_disk, flushes_lost_at=end))

    def _replace(self, manifest: Manifest) -> None:
        mark = manifest.mark
        first = {
            "version": VERSION,
            "begun": manifest.begun,
            "mark": None if mark is None else _mark_row(mark),
            "recovery_point": mark.point._asdict() if mark and mark.point else None,
            "given_up": manifest.given_up,
            "rounds_lost_at": manifest.flushes_lost_at,  # as it is stored
            "first_dirty": manifest.first_dirty,
        }
        rows = [first, *(each._asdict() for each in manifest.finished)]
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        replace_whole(self._files, self._path, checksum(body) + b"\n" + body)
        self._files.sync_folder(self._folder)
        self.on_disk = manifest


def parse_manifest(data: bytes, path: str) -> Manifest | None:
    """Parse a manifest file; None if damaged. Raises Corrupt if a newer version wrote it.

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
    """Return the mark without its recovery point, which is a field of its own."""
    row = {**mark._asdict(), "tail": mark.tail.hex()}
    del row["point"]
    return row


def _parsed(first: dict[str, Any], lines: Iterable[dict[str, Any]]) -> Manifest:
    mark, point = first["mark"], first["recovery_point"]
    if point is not None:
        point = RecoveryPoint(**{**point, "indexes": IndexState(*point["indexes"])})
    if mark is not None:
        mark = Mark(**{**mark, "tail": bytes.fromhex(mark["tail"])}, point=point)
    finished = [FinishedSegment(**line) for line in lines]
    lost_at, first_dirty = first["rounds_lost_at"], first["first_dirty"]
    return Manifest(finished, first["begun"], mark, first["given_up"], lost_at, first_dirty)
