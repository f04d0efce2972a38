"""Batches of every kind that a log can have, built with aiokafka's encoder and not with ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.record import default_records as aio
from crc32c import crc32c

from groupkeeper.protocol.record_batch import (
    BatchHeader,
    Record,
    decode_records,
    iter_batches,
    patch,
)

TIME = 1_700_000_000_000
COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class Written:
    """A record to write. Value None is a tombstone."""

    key: bytes | None
    value: bytes | None = b"value"
    time: int = TIME
    headers: Sequence[tuple[str, bytes | None]] = ()
    gap: int = 0
    """Offsets left out before it."""


@dataclass(slots=True, kw_only=True)
class Kind:
    """What a batch is besides its records."""

    codec: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False
    append_time: int | None = None
    leader_epoch: int = 0
    trailing_gap: int = 0
    """Offsets that the batch has after its last record."""


PLAIN = Kind()


def raw_batch(base: int, records: Sequence[Written], kind: Kind = PLAIN) -> bytes:
    """One batch of at least one record."""
    builder = aio.DefaultRecordBatchBuilder(
        2,
        kind.codec,
        kind.transactional,
        kind.producer_id,
        kind.producer_epoch,
        kind.sequence,
        1 << 30,
    )
    offset = -1
    for record in records:
        offset += 1 + record.gap
        builder.append(offset, record.time, record.key, record.value, list(record.headers))
    batch = bytearray(patch(bytes(builder.build()), base, kind.leader_epoch))
    batch[22] |= 0x20 * kind.control | 0x08 * (kind.append_time is not None)
    batch[23:27] = (offset + kind.trailing_gap).to_bytes(4, "big")
    if kind.append_time is not None:
        batch[35:43] = kind.append_time.to_bytes(8, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def plain(base: int, *records: tuple[bytes | None, bytes | None], time: int = TIME) -> bytes:
    """A batch without producer, codec and headers."""
    return raw_batch(base, [Written(key, value, time) for key, value in records])


def transactional(
    base: int, producer_id: int, *records: tuple[bytes | None, bytes | None], time: int = TIME
) -> bytes:
    """Data of a transaction."""
    kind = Kind(producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True)
    return raw_batch(base, [Written(key, value, time) for key, value in records], kind)


def marker(
    base: int,
    producer_id: int,
    key: bytes,
    *,
    producer_epoch: int = 0,
    time: int = TIME,
    leader_epoch: int = 0,
) -> bytes:
    """The end of a transaction: COMMIT or ABORT."""
    kind = Kind(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )
    return raw_batch(base, [Written(key, bytes(6), time)], kind)


def headers_of(data: bytes) -> list[BatchHeader]:
    return list(iter_batches(data))


def records_of(data: bytes) -> list[Record]:
    """The records of all data batches."""
    return [
        record
        for header in iter_batches(data)
        if not header.is_control
        for record in decode_records(data, header)
    ]


def newest_values(data: bytes) -> dict[bytes, bytes]:
    """What a reader has at the end of a log: key to value, by offset, of committed records only."""
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    is_open: dict[int, list[Record]] = {}
    for header in iter_batches(data):
        records = list(decode_records(data, header))
        if header.is_control:
            ended = is_open.pop(header.producer_id, []) if records else []
            records = ended if records and records[0].key == COMMIT else []
        elif header.is_transactional:
            is_open.setdefault(header.producer_id, []).extend(records)
            continue
        for record in records:
            if record.key is not None and record.offset > newest.get(record.key, (-1, None))[0]:
                newest[record.key] = (record.offset, record.value)
    return {key: value for key, (_, value) in newest.items() if value is not None}
