"""Adapts our messages to the request and response classes of aiokafka's connections.

A connection of aiokafka 0.13 or later calls `prepare` with the versions of its peer and sends the
returned frame; an older connection is passed the frame. The connection takes the bytes of header
and body, and a decoder for the response, from the frame. All of these are our own, because
aiokafka's classes for them change between releases. The tag buffer at the end of a flexible header
is sent and read with the body, because connections of 0.10 do not support it in a header.
"""

from collections.abc import Callable
from io import BytesIO
from struct import Struct
from typing import Any, Final

from aiokafka.errors import IncompatibleBrokerVersion

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder, sliced_decoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import Message, layout_of
from groupkeeper.protocol.wire import skip_tags

Versions = dict[int, tuple[int, int]]
"""(oldest, newest) version supported by a node, by API key."""
_HEADER: Final = Struct(">hhih")
"""API key, version, correlation id, size of the client id."""
_NO_TAGS: Final = b"\0"


class _Header:
    """A request header without its tag buffer, or a response header."""

    def __init__(self, correlation_id: int, encoded: bytes = b"") -> None:
        self.correlation_id = correlation_id
        self._encoded = encoded

    def encode(self) -> bytes:
        return self._encoded


class ResponseType:
    """Decodes the response of a request in one version."""

    # Any: a decoder returns the response, one in slices a generator of it.
    _decode: Callable[[bytes, int, int], Any]

    def __init__(self, cls: type, version: int, *, has_tags: bool, in_slices: bool) -> None:
        self._decode = (sliced_decoder if in_slices else decoder)(cls, version)
        self._has_tags = has_tags

    def decode(self, data: BytesIO | bytes) -> Any:  # Any: the response of the request's API
        """Decode the remaining bytes as a message, or return the generator that does so in slices.
        Raises DecodeError.
        """
        rest = data if isinstance(data, bytes) else data.read()
        return self._decode(rest, _end_of_tags(rest) if self._has_tags else 0, len(rest))


class RequestFrame:
    """A request in one version, with the interface that connections expect. `in_slices`: see
    `ResponseType.decode`.
    """

    def __init__(self, message: Message, version: int, *, in_slices: bool = False) -> None:
        cls: type = type(message)
        layout = layout_of(cls)
        assert layout.key is not None, f"{layout.name} is not a request"
        assert layout.response is not None, f"{layout.name} is not a request"
        self._message = message
        self._encode = encoder(cls, version, Framing.BARE)
        self._is_flexible = layout.is_flexible(version)
        self.API_KEY, self.API_VERSION = layout.key, version
        # ApiVersions responses always have header version 0, so that any client can read them.
        has_tags = self._is_flexible and layout.key != ApiKey.API_VERSIONS
        how = {"has_tags": has_tags, "in_slices": in_slices}
        self.RESPONSE_TYPE = ResponseType(layout.response, version, **how)

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        name = client_id.encode()
        start = _HEADER.pack(self.API_KEY, self.API_VERSION, correlation_id, len(name))
        return _Header(correlation_id, start + name)

    def encode(self) -> bytes:
        """Encode the body. Raises TypeError or ValueError with the name of an invalid field."""
        return (_NO_TAGS if self._is_flexible else b"") + self._encode(self._message)

    def parse_response_header(self, data: BytesIO) -> _Header:
        return _Header(int.from_bytes(data.read(4), "big", signed=True))

    def __repr__(self) -> str:
        """Used in aiokafka's log lines at level DEBUG."""
        return repr(self._message)


class VersionedRequest:
    """A request sent in the newest version of the peer that can represent all its fields."""

    def __init__(self, message: Message, *, in_slices: bool = False) -> None:
        self._message, self._in_slices = message, in_slices

    def prepare(self, offered: Versions) -> RequestFrame:
        """Return the frame for a peer with these versions by API key. Raises
        IncompatibleBrokerVersion if no version fits.
        """
        cls: type = type(self._message)
        layout = layout_of(cls)
        assert layout.key is not None, f"{layout.name} is not a request"
        oldest, newest = offered.get(layout.key, (0, -1))
        if newest < 0:
            raise IncompatibleBrokerVersion("the node does not have this API")
        lowest, highest = max(oldest, layout.versions[0]), min(newest, layout.versions[1])
        for version in range(highest, lowest - 1, -1):
            if carries(self._message, version):
                return RequestFrame(self._message, version, in_slices=self._in_slices)
        raise IncompatibleBrokerVersion(
            f"the node supports versions {oldest} to {newest}, none of which fits this request"
        )


def carries(message: Message, version: int) -> bool:
    """Whether the version can represent all fields of the message, including nulls."""
    unset = type(message)()
    for field in layout_of(type(message)).fields:
        value = getattr(message, field.name)
        if not field.in_version(version):
            if value != getattr(unset, field.name):
                return False
        elif value is None:
            if not field.nullable_in(version):
                return False
        else:
            items = value if isinstance(value, list) else [value]
            if not all(carries(each, version) for each in items if hasattr(each, "__layout__")):
                return False
    return True


def _end_of_tags(data: bytes) -> int:
    """Return the position after the leading tag buffer."""
    try:
        return skip_tags(data, 0, len(data))
    except IndexError:
        raise DecodeError("the response ends within its header") from None
