"""Batches to put into logs."""

from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches

TIME = 1_700_000_000_000


def batch(base: int, *values: bytes, epoch: int = 0, time: int = TIME) -> bytes:
    return encode_batch(base, epoch, time, [(b"key", value) for value in values])


def values_of(data: bytes) -> list[bytes | None]:
    return [r.value for header in iter_batches(data) for r in decode_records(data, header)]


def offsets_of(data: bytes) -> list[int]:
    return [r.offset for header in iter_batches(data) for r in decode_records(data, header)]
