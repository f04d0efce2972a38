"""Records of a segment as tuples: what a Spark source in Python is without Arrow and numba."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from groupkeeper.protocol.record_batch import (
    BatchHeader,
    Record,
    check_crc,
    decode_records,
    iter_batches,
)
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    decode_offset_value,
)

COLUMNS: Final = (
    "batch_position bigint, offset bigint, timestamp_ms bigint, leader_epoch int, "
    "producer_id bigint, attributes int, `group` string, topic string, topic_partition int, "
    "committed_offset bigint, commit_leader_epoch int, commit_timestamp_ms bigint, "
    "metadata string, tombstone boolean, value binary"
)


def tuples(path: Path) -> Iterator[tuple[Any, ...]]:
    """One with COLUMNS for each record of a sound segment."""
    content = path.read_bytes()
    for header in iter_batches(content):
        if not check_crc(content, header):
            raise ValueError(f"{path}: wrong checksum at {header.position}")
        for record in decode_records(content, header):
            yield (*_frame(header, record), *_commit(header, record))


def _frame(header: BatchHeader, record: Record) -> tuple[Any, ...]:
    return (
        header.position,
        record.offset,
        record.timestamp_ms,
        header.leader_epoch,
        header.producer_id,
        header.attributes,
    )


def _commit(header: BatchHeader, record: Record) -> tuple[Any, ...]:
    key = None if header.is_control else decode_key(record.key or b"")
    is_gone = record.value is None
    match key:
        case OffsetCommitKey():
            place = key.group, key.topic, key.partition
            if record.value is None:
                return (*place, None, None, None, None, is_gone, None)
            value = decode_offset_value(record.value)
            said = value.offset, value.leader_epoch, value.commit_timestamp, value.metadata
            return (*place, *said, is_gone, None)
        case GroupMetadataKey():
            return (key.group, *(None,) * 6, is_gone, record.value)
    return (*(None,) * 7, is_gone, record.value)
