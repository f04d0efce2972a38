"""Reads request headers, v1 and v2.

A flexible version has header v2, any other v1. Response headers are written by the encoders
(`compile_encode.py`).

Source: Kafka's `RequestHeader.json`; `ApiMessageType.requestHeaderVersion` chooses the version.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.wire import bad_length, skip_tags

_read_fixed_header = Struct(">hhih").unpack_from
_FIXED_HEADER_BYTES = 10
_NEVER_FLEXIBLE = 1 << 16

# API key -> first version with request header v2
_flexible_from = {api.key: api.flexible for api in APIS.values() if api.flexible is not None}


@dataclass(slots=True)
class RequestHeader:
    """The header of a request; `client_id` may be None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buffer: bytes, pos: int, end: int) -> tuple[RequestHeader, int]:
    """Return the header at `pos`, after the size, and the position of the body; DecodeError if the
    header does not fit before `end`.

    The header of an unknown API is read as v1.
    """
    try:
        key, version, correlation_id, size = _read_fixed_header(buffer, pos)
        pos += _FIXED_HEADER_BYTES
        client_id = None
        if size != -1:
            stop = pos + size
            if not pos <= stop <= end:
                raise bad_length("RequestHeader.client_id", size, end - pos)
            client_id = buffer[pos:stop].decode()
            pos = stop
        if version >= _flexible_from.get(key, _NEVER_FLEXIBLE):
            pos = skip_tags(buffer, pos, end) if buffer[pos] else pos + 1
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    if pos > end:
        raise DecodeError(f"request header: {pos - end} bytes missing")
    return RequestHeader(key, version, correlation_id, client_id), pos
