"""Request headers v1 and v2."""

import struct

import pytest

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.framing import read_request_header


def header_bytes(key: int, version: int, client_id: bytes | None, tags: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, size) + (client_id or b"") + tags


def read(data: bytes) -> tuple[int, int, int, str | None, int]:
    header, pos = read_request_header(data, 0, len(data))
    return header.api_key, header.api_version, header.correlation_id, header.client_id, pos


def test_an_old_header_ends_with_the_client_id() -> None:
    data = header_bytes(12, 3, "größe".encode())
    assert read(data + b"body") == (12, 3, 7, "größe", len(data))


def test_a_flexible_header_has_a_tag_buffer() -> None:
    data = header_bytes(12, 4, b"c", b"\0")
    assert read(data + b"body") == (12, 4, 7, "c", len(data))


def test_the_client_id_may_be_null() -> None:
    assert read(header_bytes(12, 0, None)) == (12, 0, 7, None, 10)


def test_tags_of_the_header_are_passed_over() -> None:
    data = header_bytes(12, 4, b"c", b"\2\0\1x\7\2yz")
    assert read(data)[4] == len(data)


def test_the_header_of_an_unknown_api_can_be_read() -> None:
    assert read(header_bytes(99, 9, b"c") + b"\1") == (99, 9, 7, "c", 11)


def test_an_unknown_version_of_a_known_api_counts_as_flexible() -> None:
    assert read(header_bytes(18, 77, b"c", b"\0") + b"body") == (18, 77, 7, "c", 12)


@pytest.mark.parametrize("version", [0, 4])
def test_a_header_cut_off_anywhere_is_refused(version: int) -> None:
    data = header_bytes(12, version, b"client", b"\0" if version == 4 else b"") + b"body"
    for cut in range(len(data) - 4):
        with pytest.raises(DecodeError):
            read_request_header(data[:cut], 0, cut)
        with pytest.raises(DecodeError):
            read_request_header(data, 0, cut)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\x0c\0\0\0\0\0\7\xff\xfe",
        b"\0\x0c\0\0\0\0\0\7\0\1\xff",
        b"\0\x0c\0\4\0\0\0\7\0\0\1\1\x09",
    ],
    ids=["length below null", "no UTF-8", "tag beyond the end"],
)
def test_a_malformed_header_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read(data)


def test_a_header_shows_its_fields() -> None:
    header, _ = read_request_header(header_bytes(12, 4, b"c", b"\0"), 0, 12)
    assert "api_key=12, api_version=4, correlation_id=7, client_id='c'" in repr(header)
