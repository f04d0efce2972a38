"""What a producer sent, looked at: each way to be wrong has Kafka's error."""

import pytest
from crc32c import crc32c

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics.batches import check_batch
from groupkeeper.topics.refusals import Refused
from tests.topics.scene import COMPRESSIONS, batch

LIMIT = 1_000_000


def changed(position: int, data: bytes, *, resealed: bool = True) -> bytes:
    """A good batch of two records with some bytes replaced, and the checksum made good again."""
    raw = bytearray(batch("a", "b", id=1))
    raw[position : position + len(data)] = data
    if resealed:
        raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_good_batches(compression):
    header = check_batch(batch("a", "b", compression=compression), 9, LIMIT)
    assert (header.record_count, header.codec) == (2, COMPRESSIONS[compression])


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (batch("a") + batch("b"), ErrorCode.INVALID_RECORD),
        (changed(16, b"\x01"), ErrorCode.INVALID_RECORD),
        (changed(16, b"\x00"), ErrorCode.INVALID_RECORD),
        (changed(16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        (changed(16, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
        (batch("a")[:16], ErrorCode.INVALID_RECORD),
        (batch("a")[:40], ErrorCode.INVALID_RECORD),
        (batch("a")[:-1], ErrorCode.INVALID_RECORD),
        (changed(8, (13).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
        (changed(8, (14).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
        (changed(8, (20).to_bytes(4, "big"))[:32], ErrorCode.CORRUPT_MESSAGE),
        (changed(8, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),
        (changed(70, b"!", resealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(17, b"\0\0\0\0", resealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(0, (5).to_bytes(8, "big")), ErrorCode.INVALID_RECORD),
        (changed(21, b"\x00\x20"), ErrorCode.INVALID_RECORD),
        (changed(21, b"\x00\x05"), ErrorCode.INVALID_RECORD),
        (changed(21, b"\x00\x10"), ErrorCode.UNSUPPORTED_VERSION),
        (changed(23, (7).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
        (changed(57, (0).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
        (changed(51, b"\xff\xff"), ErrorCode.INVALID_RECORD),
        (changed(53, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "null", "empty", "short", "two batches", "magic 1", "magic 0", "magic 3",
        "magic -1", "cut before the magic", "cut in the header", "cut at the end",
        "length of no batch", "bytes behind", "length too small", "length negative",
        "flipped byte", "wrong checksum",
        "base offset", "control", "unknown codec", "transactional", "offset range", "no records",
        "no epoch", "no sequence",
    ],
)  # fmt: skip
def test_bad_batches(records, code):
    with pytest.raises(Refused) as refused:
        check_batch(records, 9, LIMIT)
    assert refused.value.refusal.error == code
    assert refused.value.refusal.message


def test_the_limit_counts_the_whole_batch() -> None:
    records = batch("a")
    assert check_batch(records, 9, len(records)).size == len(records)
    with pytest.raises(Refused) as refused:
        check_batch(records, 9, len(records) - 1)
    assert refused.value.refusal.error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("version", "fine"), [(3, False), (6, False), (7, True), (9, True)])
def test_zstd_came_with_version_7(version, fine):
    records = batch("a" * 50, compression="zstd")
    if fine:
        assert check_batch(records, version, LIMIT)
        return
    with pytest.raises(Refused) as refused:
        check_batch(records, version, LIMIT)
    assert refused.value.refusal.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
