"""`groupkeeper dump`: segments as text, one line per batch and per record.

It reads only the segment files, without locks or indexes, so it works on a copy and beside a
running server. Lines have the layout of Kafka's DumpLogSegments; `record_text` makes the JSON.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from groupkeeper.cli.record_text import consumer_offset, control_record, plain
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
)

OFFSETS_TOPIC = "__consumer_offsets"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH...",
)
@click.option("--records/--no-records", default=True, help="Show the records of every batch.")
@click.option(
    "--offsets", is_flag=True, help=f"Read as {OFFSETS_TOPIC}, whatever the folder's name."
)
def dump(paths: tuple[Path, ...], records: bool, offsets: bool) -> int:
    """Show the batches and records of segment files, Groupkeeper's or Kafka's.

    PATH is a `.log` file, a partition's folder or a data directory. A torn or damaged batch is
    reported on standard error, and the exit code is 1.
    """
    whole = True
    for segment in _segments(paths):
        click.echo(f"Dumping {segment}")
        as_offsets = offsets or segment.parent.name.startswith(f"{OFFSETS_TOPIC}-")
        try:
            with segment.open("rb") as file:
                for buffer, header in _batches(file):
                    _show(buffer, header, as_offsets=as_offsets, records=records)
        except CorruptBatch as problem:
            whole = False
            sys.stdout.flush()
            print(f"groupkeeper: {segment}: {problem}", file=sys.stderr)
    return 0 if whole else 1


def _segments(paths: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        below = [path] if path.is_file() else [*path.glob("*.log"), *path.glob("*/*.log")]
        if not below:
            raise click.ClickException(f"{path}: no segment files (*.log) here or one level below")
        found += sorted(below)
    return found


def _batches(file: BinaryIO) -> Iterator[tuple[bytes, BatchHeader]]:
    """Each batch in a buffer of its own. Raises CorruptBatch at the first one that is not whole."""
    position = 0
    while head := file.read(HEADER_SIZE):
        try:
            header = read_header(head)
        except CorruptBatch as problem:
            raise CorruptBatch(f"at byte {position}: {problem}") from None
        batch = head + file.read(header.size - HEADER_SIZE)
        if len(batch) < header.size:
            raise CorruptBatch(f"the batch at byte {position} is cut off")
        yield batch, header
        position += header.size


def _show(batch: bytes, header: BatchHeader, *, as_offsets: bool, records: bool) -> None:
    valid = check_crc(batch, header)
    codec = CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)
    fields = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": str(header.is_transactional).lower(),
        "isControl": str(header.is_control).lower(),
        "CreateTime": header.max_timestamp,
        "size": header.size,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": str(valid).lower(),
    }
    click.echo(" ".join(f"{name}: {value}" for name, value in fields.items()))
    if not valid:
        raise CorruptBatch(f"the batch with base offset {header.base_offset} fails its checksum")
    if records:
        for record in decode_records(batch, header):
            click.echo(_line(record, header, as_offsets=as_offsets))


def _line(record: Record, header: BatchHeader, *, as_offsets: bool) -> str:
    if header.is_control:
        text = control_record(record)
    elif as_offsets:
        text = consumer_offset(record)
    else:
        text = plain(record)
    return f"| offset: {record.offset} CreateTime: {record.timestamp_ms} {text}"
