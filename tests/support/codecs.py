"""The directions of the codecs that a server does not need: requests out, responses in."""

from collections.abc import Callable
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.embedded import Assignment, Subscription
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import Message, layout_of
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.wire import skip_tags

_fixed_header = Struct(">hhih")
_int32 = Struct(">i")


@cache
def request_encoder(key: int, version: int) -> Callable[[Message, int, str | None], bytes]:
    """`encode(request, correlation_id, client_id) -> bytes`: the whole frame."""
    api = APIS[key]
    encode = encoder(api.request_type, version, Framing.BARE)
    tags = b"\0" if layout_of(api.request_type).is_flexible(version) else b""

    def encode_request(request: Message, correlation_id: int, client_id: str | None) -> bytes:
        name = b"" if client_id is None else client_id.encode()
        size = -1 if client_id is None else len(name)
        header = _fixed_header.pack(key, version, correlation_id, size) + name + tags
        body = encode(request)
        return b"".join((_int32.pack(len(header) + len(body)), header, body))

    return encode_request


@cache
def response_decoder(key: int, version: int) -> Callable[[bytes, int, int], tuple[int, Any]]:
    """`decode(buffer, pos, end) -> (correlation id, response)`, from the end of the size on."""
    api = APIS[key]
    decode = decoder(api.response_type, version)
    has_tags = layout_of(api.request_type).is_flexible(version) and key != ApiKey.API_VERSIONS

    def decode_response(
        buffer: bytes, pos: int, end: int
    ) -> tuple[int, Any]:  # Any: the API's response
        try:
            (correlation_id,) = _int32.unpack_from(buffer, pos)
            pos += 4
            if has_tags:
                pos = skip_tags(buffer, pos, end)
        except (IndexError, struct_error) as error:
            raise DecodeError(f"response header: {error}") from error
        return correlation_id, decode(buffer, pos, end)

    return decode_response


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode the subscription in its own `version`, 0 to 3."""
    return encoder(Subscription, subscription.version, Framing.BARE)(subscription)


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode the assignment in its own `version`, 0 to 3."""
    return encoder(Assignment, assignment.version, Framing.BARE)(assignment)
