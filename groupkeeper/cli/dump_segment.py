"""Segments as text, one line per batch and per record, in the layout of Kafka's DumpLogSegments."""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from groupkeeper.cli.dumping import Dump
from groupkeeper.cli.record_text import RecordText, control_record
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
)
from groupkeeper.storage.scan import next_candidate
from groupkeeper.storage.window import Window

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DELETE_HORIZON: Final = 0x40
"""The attribute of a batch whose base timestamp is the time from which its tombstones may go."""

TRIES: Final = 3
PAUSE_S: Final = 0.02
"""How often, and after which pauses, an unfinished end is read again: it may be being written."""


class Piece(NamedTuple):
    """A batch in a file, or damaged bytes."""

    position: int
    batch: bytes
    """Empty: damaged, and no batch can be recognized."""
    header: BatchHeader | None
    damage: str
    """What is damaged; empty if nothing is."""
    end: int


class Summary(NamedTuple):
    """What was shown of a segment."""

    first: int = -1
    """The first offset; -1: none."""
    following: int = -1
    """The offset after the last one."""
    batches: int = 0
    records: int = 0
    first_epoch: int = -1
    last_epoch: int = -1


def show_segment(dump: Dump, path: str, *, text: RecordText, quiet: bool = False) -> Summary:
    """Show a segment; with `quiet`, only damage. Raises OSError."""
    if not quiet:
        dump.line(f"Dumping {path}")
    found = Summary()
    for piece in pieces_of(dump, path):
        dump.told(path, piece.end - piece.position)
        if piece.header is not None and not quiet:
            _show(dump, piece, found.following, text=text)
        if piece.damage:
            dump.damage(path, piece.damage)
        elif piece.header is not None:
            found = _added(dump, path, found, piece.header)
    return found


def _added(dump: Dump, path: str, found: Summary, header: BatchHeader) -> Summary:
    position = header.position
    if header.base_offset < found.following:
        what = f"offset {header.base_offset} follows offset {found.following - 1}"
        dump.damage(path, f"the batch at byte {position}: {what}")
    if header.leader_epoch < found.last_epoch:
        what = f"epoch {header.leader_epoch} follows epoch {found.last_epoch}"
        dump.damage(path, f"the batch at byte {position}: {what}")
    return Summary(
        header.base_offset if found.first < 0 else found.first,
        header.next_offset,
        found.batches + 1,
        found.records + header.record_count,
        header.leader_epoch if found.first < 0 else found.first_epoch,
        header.leader_epoch,
    )


def pieces_of(dump: Dump, path: str) -> Iterator[Piece]:
    """The batches of a file, and the damaged places between them. Raises OSError."""
    handle = dump.files.open(path)
    try:
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
                piece = piece._replace(end=at, damage=_placed(piece.damage, at, window.size))
            yield piece
            if piece.header is not None and not piece.damage:
                lowest = piece.header.next_offset
            position = piece.end
    finally:
        dump.files.close(handle)


def _placed(damage: str, following: int, size: int) -> str:
    if following == size:
        return f"{damage}, and no sound one follows up to byte {size - 1}"
    return f"{damage}, a sound one follows at byte {following}"


def _piece_at(window: Window, position: int) -> Piece:
    """What begins at a position: `end` is only right if it is a sound batch."""
    size = window.size
    at = window.find(position, min(HEADER_SIZE, size - position))
    try:
        header = read_header(window.buffer[at : at + HEADER_SIZE])
    except CorruptBatch as problem:
        return Piece(position, b"", None, f"at byte {position}: {problem}", size)
    if position + header.size > size:
        return Piece(position, b"", None, f"the batch at byte {position} is cut off", size)
    at = window.find(position, header.size)
    batch = window.buffer[at : at + header.size]
    damage = ""
    if not check_crc(batch, header):
        what = f"the batch with base offset {header.base_offset} at byte {position}"
        damage = f"{what} fails its checksum"
    header.position = position
    return Piece(position, batch, header, damage, position + header.size)


def _show(dump: Dump, piece: Piece, due: int, *, text: RecordText) -> None:
    header = piece.header
    assert header is not None
    if not piece.damage and 0 <= due < header.base_offset:
        dump.line(f"no offsets {due} to {header.base_offset - 1}")
    dump.line(_batch_line(header, valid=not piece.damage))
    header.position = 0
    if dump.records:
        try:
            for record in decode_records(piece.batch, header):
                dump.line(_record_line(record, header, text=text))
        except CorruptBatch as problem:
            if not piece.damage:
                dump.damage(f"the batch at byte {piece.position}", str(problem))
    header.position = piece.position


def _batch_line(header: BatchHeader, *, valid: bool) -> str:
    codec = CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)
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
        "position": header.position,
        "CreateTime": header.max_timestamp,
        "size": header.size,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": str(valid).lower(),
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _record_line(record: Record, header: BatchHeader, *, text: RecordText) -> str:
    shown = control_record(record) if header.is_control else text(record)
    return f"| offset: {record.offset} CreateTime: {record.timestamp_ms} {shown}"


def show_batch(dump: Dump, batch: bytes, *, text: RecordText) -> None:
    """Show the records of a sound batch that is elsewhere than in a segment."""
    try:
        header = read_header(batch)
        for record in decode_records(batch, header):
            dump.line(_record_line(record, header, text=text))
    except CorruptBatch as problem:
        dump.damage("a batch", str(problem))
