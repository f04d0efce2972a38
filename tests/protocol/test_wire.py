"""Varints and tag buffers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.wire import (
    ONE_BYTE,
    read_tag,
    read_varint,
    skip_tags,
    write_tags,
    write_varint,
)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_comes_back(value: int) -> None:
    data = write_varint(value)
    assert read_varint(b"x" + data + b"y", 1) == (value, 1 + len(data))


def test_varints_have_the_bytes_of_protocol_buffers() -> None:
    assert [write_varint(v).hex() for v in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]
    assert list(ONE_BYTE) == [write_varint(v) for v in range(128)]


def test_a_varint_ends_within_32_bits() -> None:
    assert read_varint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    for data in (b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00"):
        with pytest.raises(DecodeError):
            read_varint(data, 0)


def test_tags_without_value_are_left_out() -> None:
    assert write_tags([(0, None), (1, b"ab"), (300, b"")]) == b"\2\1\2ab\xac\2\0"
    assert write_tags([(0, None)]) == b"\0"


def test_tags_can_be_skipped() -> None:
    data = write_tags([(1, b"ab"), (300, bytes(200))])
    assert skip_tags(data + b"rest", 0, len(data)) == len(data)


def test_a_tag_is_read_with_the_place_of_its_value() -> None:
    assert read_tag(b"\5\2ab", 0, 4, -1) == (5, 2, 4)
    with pytest.raises(DecodeError, match="tag 5 after tag 5"):
        read_tag(b"\5\2ab", 0, 4, 5)
    with pytest.raises(DecodeError, match="2 bytes announced, 1 left"):
        read_tag(b"\5\2ab", 0, 3, -1)
