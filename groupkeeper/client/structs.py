"""Our messages as the requests and responses of aiokafka's connections.

A connection calls `prepare` with the versions of its peer, writes the header and the struct that it
gets, and decodes the answer with the struct's RESPONSE_TYPE. Both structs have a Schema of one
field, the message, whose type is our codec. aiokafka's own types do not do for the fields of a
message: they leave out the size of a tagged field, know neither uuid nor uint16, take null anywhere
and pass over bytes that are left.
"""

from functools import cache
from io import BytesIO
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.api import RequestStruct, Response, ResponseHeader_v0
from aiokafka.protocol.types import Schema

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.message import Message, layout_of


class MessageType:
    """A message class in one version, with the interface of aiokafka's types."""

    def __init__(self, cls: type, version: int) -> None:
        self._encode = encoder(cls, version, Framing.BARE)
        self._decode = decoder(cls, version)

    def encode(self, message: Message) -> bytes:
        """TypeError or ValueError, naming the field, for a value that cannot be written."""
        return self._encode(message)

    def decode(self, data: BytesIO) -> Message:
        """The message that takes all the bytes left, or DecodeError."""
        body = data.read()
        return self._decode(body, 0, len(body))

    def repr(self, message: Message) -> str:
        """For aiokafka's log lines at level DEBUG."""
        return repr(message)


class VersionedRequest:
    """A request that takes the newest version which the peer has and which carries all of it."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def prepare(self, offered: dict[int, tuple[int, int]]) -> RequestStruct:
        """The struct to send to a peer that offers these versions, by API key; raises
        IncompatibleBrokerVersion when there is none.
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
                return _request_struct(cls, version)(self._message)
        raise IncompatibleBrokerVersion(
            f"the node has versions {oldest} to {newest}, none of which carries this request"
        )


def carries(message: Message, version: int) -> bool:
    """Whether nothing that is set in the message is lost, or refused as null, in the version."""
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


@cache
def _request_struct(cls: type, version: int) -> Any:  # Any: aiokafka's classes are not typed
    layout = layout_of(cls)
    assert layout.response is not None, f"{layout.name} is not a request"
    response = {
        "API_KEY": layout.key,
        "API_VERSION": version,
        "SCHEMA": _schema(layout.response, version),
    }
    request = response | {
        "SCHEMA": _schema(cls, version),
        "FLEXIBLE_VERSION": layout.is_flexible(version),
        "RESPONSE_TYPE": type(layout.response.__name__, (Response,), response),
    }
    if layout.key == ApiKey.API_VERSIONS:
        # Its answer has the oldest header in every version: any client can read it.
        request["parse_response_header"] = lambda _, data: ResponseHeader_v0.decode(data)
    return type(layout.name, (RequestStruct,), request)


def _schema(cls: type, version: int) -> Schema:
    return Schema(("message", MessageType(cls, version)))
