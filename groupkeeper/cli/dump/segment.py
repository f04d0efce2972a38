"""Segments as text, one line per batch and per record, in the layout of Kafka's DumpLogSegments."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import click

from groupkeeper.cli.dump.record_text import (
    RecordText,
    consumer_offset,
    control_record,
    group_event,
    plain,
)
from groupkeeper.cli.progress import ByteProgress
from groupkeeper.protocol.group_events import TOPIC as EVENT_TOPIC
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    check_crc,
    decode_records,
    read_header,
)
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.scan import next_candidate
from groupkeeper.storage.log.window import Window

OFFSETS_TOPIC: Final = "__consumer_offsets"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DELETE_HORIZON: Final = 0x40
"""Attribute of a batch whose base timestamp is the delete horizon of its tombstones."""

TRIES: Final = 3
PAUSE_S: Final = 0.02
"""Rereads of an unfinished end, which a server may be writing, and the pause before each."""


@dataclass
class Dump:
    """The options and the output of one call of the command."""

    files: Files
    told: ByteProgress
    records: bool = True
    offsets: bool = False
    damages: int = field(default=0, init=False)

    def line(self, text: str) -> None:
        click.echo(text)

    def damage(self, path: str, what: str) -> None:
        """Report damage: the exit code will be 1."""
        self.damages += 1
        sys.stdout.flush()
        print(f"groupkeeper: {path}: {what}", file=sys.stderr)

    @contextmanager
    def unless_gone(self, path: str) -> Iterator[None]:
        """Tolerate the removal of a path by a running server."""
        try:
            yield
        except FileNotFoundError:
            self.line(f"{path} was removed meanwhile")

    def text_of(self, folder: str) -> RecordText:
        """Return the function that formats the records of a folder, or a log."""
        topic = folder.rpartition("/")[2].rpartition("-")[0]
        if self.offsets or topic == OFFSETS_TOPIC:
            return consumer_offset
        return group_event if topic == EVENT_TOPIC else plain

    def show_records(self, what: str, batch: bytes, header: BatchHeader, text: RecordText) -> None:
        """Print the records of a batch, a line each. Damage is reported under the name `what`."""
        if header.is_control:
            text = control_record
        try:
            for each in decode_records(batch, header):
                place = f"| offset: {each.offset} CreateTime: {each.timestamp_ms}"
                self.line(f"{place} {text(each)}")
        except CorruptBatch as problem:
            if what:
                self.damage(what, str(problem))


class _Piece(NamedTuple):
    """A batch in a file, or damaged bytes."""

    position: int
    end: int
    header: BatchHeader | None = None
    """None: damaged, and no batch can be recognized."""
    batch: bytes = b""
    damage: str = ""
    """Description of the damage; empty if there is none."""


@dataclass
class Summary:
    """Totals of a segment."""

    first: int = -1
    """The first offset; -1: none."""
    following: int = -1
    """The offset after the last batch."""
    batches: int = 0
    records: int = 0
    first_epoch: int = -1
    last_epoch: int = -1

    def take(self, header: BatchHeader) -> str:
        """Add the next batch; describe offsets or epochs that do not ascend, or return ""."""
        wrong = []
        if header.base_offset < self.following:
            wrong.append(f"offset {header.base_offset} follows offset {self.following - 1}")
        if header.leader_epoch < self.last_epoch:
            wrong.append(f"epoch {header.leader_epoch} follows epoch {self.last_epoch}")
        if not self.batches:
            self.first, self.first_epoch = header.base_offset, header.leader_epoch
        self.following, self.last_epoch = header.next_offset, header.leader_epoch
        self.batches += 1
        self.records += header.record_count
        return ", ".join(wrong)


def show_segment(dump: Dump, path: str, *, text: RecordText, quiet: bool = False) -> Summary:
    """Show a segment; with `quiet`, only damage. Raises OSError."""
    if not quiet:
        dump.line(f"Dumping {path}")
    found = Summary()
    with opened(dump.files, path) as handle:
        for piece in _pieces_of(dump, handle):
            dump.told(path, piece.end - piece.position)
            if piece.header is not None and not quiet:
                _show(dump, piece, piece.header, found.following, text)
            if piece.damage:
                dump.damage(path, piece.damage)
            elif piece.header is not None and (wrong := found.take(piece.header)):
                dump.damage(path, f"the batch at byte {piece.position}: {wrong}")
    return found


def _pieces_of(dump: Dump, handle: int) -> Iterator[_Piece]:
    """Yield the batches of a file, and the damaged places between them. Raises OSError."""
    position = lowest = tries = 0
    window = Window(dump.files, handle, dump.files.size(handle))
    while position < window.size:
        piece = _piece_at(window, position)
        if piece.damage:
            at = next_candidate(window.again(), position + 1, lowest)
            if at == window.size and tries < TRIES:
                tries += 1
                time.sleep(PAUSE_S)
                window = Window(dump.files, handle, dump.files.size(handle))
                continue
            what = f", a sound one follows at byte {at}"
            if at == window.size:
                what = f", and no sound one follows up to byte {at - 1}"
            piece = piece._replace(end=at, damage=piece.damage + what)
        elif piece.header is not None:
            lowest = piece.header.next_offset
        yield piece
        position = piece.end


def _piece_at(window: Window, position: int) -> _Piece:
    """Read the batch or damage at a position. `end` is right only for a sound batch."""
    size = window.size
    try:
        header = read_header(window.read(position, min(HEADER_SIZE, size - position)))
    except CorruptBatch as problem:
        return _Piece(position, size, damage=f"at byte {position}: {problem}")
    end = position + header.size
    if end > size:
        return _Piece(position, size, damage=f"the batch at byte {position} is cut off")
    batch = window.read(position, header.size)
    damage = ""
    if not check_crc(batch, header):
        what = f"the batch with base offset {header.base_offset} at byte {position}"
        damage = f"{what} fails its checksum"
    return _Piece(position, end, header, batch, damage)


def _show(dump: Dump, piece: _Piece, header: BatchHeader, due: int, text: RecordText) -> None:
    if not piece.damage and 0 <= due < header.base_offset:
        dump.line(f"no offsets {due} to {header.base_offset - 1}")
    horizon = {}
    if header.attributes & DELETE_HORIZON:
        horizon = {"deleteHorizonMs": header.base_timestamp}
    fields = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": str(header.is_transactional).lower(),
        "isControl": str(header.is_control).lower(),
        **horizon,
        "position": piece.position,
        "CreateTime": header.max_timestamp,
        "size": header.size,
        "compresscodec": CODECS[header.codec] if header.codec < len(CODECS) else header.codec,
        "crc": header.crc,
        "isvalid": str(not piece.damage).lower(),
    }
    dump.line(named(fields))
    if dump.records:
        what = "" if piece.damage else f"the batch at byte {piece.position}"
        dump.show_records(what, piece.batch, header, text)


def named(fields: Mapping[str, object]) -> str:
    """Format values with their names, as Kafka's tool does."""
    return " ".join(f"{name}: {value}" for name, value in fields.items())
