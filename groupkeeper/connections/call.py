"""One request in progress; its decoding, handling and encoding, at once or in slices."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from struct import Struct
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol

from groupkeeper.clock import Clock
from groupkeeper.connections.answer_errors import count_errors
from groupkeeper.connections.budget import ANSWER_BYTES, ConnectionLimits, OverBudgetError
from groupkeeper.connections.connection_table import ConnectionTable
from groupkeeper.connections.steady import Find, Numbered
from groupkeeper.connections.too_long import most_bytes
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Handler, ProduceRun, Response
from groupkeeper.observe.metrics import AnswerErrors, RequestTimes
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import DecodeError, LeftOver, TooManyItems
from groupkeeper.protocol.framing import RequestHeader
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.registry import (
    APIS,
    request_decoder,
    response_encoder,
    sliced_request_decoder,
    sliced_response_encoder,
)
from groupkeeper.turns import Slices, Turns

if TYPE_CHECKING:
    from groupkeeper.access.login import LoginFactory

API_VERSIONS: Final = ApiKey.API_VERSIONS.value
HEARTBEAT: Final = ApiKey.HEARTBEAT.value
JOIN_GROUP: Final = ApiKey.JOIN_GROUP.value
OFFSET_COMMIT: Final = ApiKey.OFFSET_COMMIT.value
PRODUCE: Final = ApiKey.PRODUCE.value

MANY_MEMBERS: Final = 500
"""Answers to JoinGroup with more members are encoded in slices: a leader's has all members."""

SIZE_AND_KEY_BYTES = 6
"""Size and API key, which determine how long a request may be."""

_HTTP: Final = (
    *(b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"),
    b"PRI ",  # HTTP/2
)
_TLS: Final = b"\x16\x03"
"""A handshake record of SSL 3 or any TLS."""

HTTP: Final = (
    "an HTTP request: this port speaks Kafka's protocol; metrics are on the port of --http"
)
TLS: Final = (
    "a TLS handshake: this port speaks plaintext; set security.protocol=PLAINTEXT, or "
    "SASL_PLAINTEXT where clients log in"
)

_pack_size = Struct(">i").pack
_key_at = Struct(">h").unpack_from


@dataclass(slots=True)
class ConnectionServices:
    """Shared services and callbacks of all connections of a process."""

    routes: Mapping[int, Handler]
    long_answers: Collection[int]
    """API keys whose answer may be far longer than the request: answers are encoded in slices."""
    unknown_version: Handler
    """Answers an ApiVersions request of an unsupported version (KIP-511)."""
    steady: Find
    """For the fast paths of repeated requests."""
    clock: Clock
    turns: Turns
    limits: ConnectionLimits
    requests: RequestTimes
    answer_errors: AnswerErrors
    connections: ConnectionTable
    authorizer: Numbered | None = None
    """With one, a fast path ends with the next change of what is allowed."""
    produce_run: ProduceRun = lambda asked: []
    """Handles Produce requests that came together; the rest is handled one by one."""
    logins: "Mapping[str, LoginFactory]" = field(default_factory=dict)
    """By the name of the listener; its connections need no login if it is missing."""


class Sender(Protocol):
    """The connection that a request came from."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None if the client is gone."""

    def answered(self, call: "Call", response: Response) -> None: ...
    def answered_in_bytes(self, call: "Call", frame: bytes) -> None: ...
    def close(self) -> None: ...


class Call:
    """One request in progress: the reply token that handlers get."""

    __slots__ = ("asked", "began", "caller", "header", "in_slices", "sender")

    def __init__(self, sender: Sender, header: RequestHeader, caller: Caller, began: float) -> None:
        self.sender = sender
        self.header = header
        self.caller = caller
        self.began = began
        self.in_slices = False
        """The request was long: it is handled in slices, and its answer is encoded in slices."""
        self.asked: tuple[Any, bytes] | None = None
        """A commit, and its frame: similar ones may follow (`steady_commits.py`)."""

    @property
    def api(self) -> str:
        return api_name(self.header.api_key)

    def answer(self, response: Response) -> None:
        """Encode and send the response; drop it if the client is gone."""
        self.sender.answered(self, response)


def has_many_members(response: Response) -> bool:
    """Return whether the response to a JoinGroup is encoded in slices."""
    return isinstance(response, JoinGroupResponse) and len(response.members) > MANY_MEMBERS


def api_name(key: int) -> str:
    """Return the API's name, such as `Heartbeat`; `API 99` if the key is unknown."""
    return APIS[key].name if key in APIS else f"API {key}"


def is_served(key: int, version: int) -> bool:
    """Return whether requests of this version can be decoded."""
    first, last = APIS[key].served
    return first <= version <= last


def not_served(header: RequestHeader, services: ConnectionServices) -> Handler:
    """Return the handler of a request that cannot be decoded. Raises DecodeError without one."""
    if header.api_key != API_VERSIONS:
        raise DecodeError(f"API {header.api_key} version {header.api_version}, which is not served")
    header.api_version = 0  # its body cannot be decoded; the answer has the form of version 0
    return services.unknown_version


def decode(header: RequestHeader, data: bytes, pos: int, end: int) -> Any:
    """Decode the request after a header. Raises DecodeError. Bytes after the request are ignored,
    as by Kafka's brokers: librdkafka sends three in every Metadata request for all topics.
    """
    try:
        return request_decoder(header.api_key, header.api_version)(data, pos, end)
    except LeftOver as odd:
        return odd.message


def encode(header: RequestHeader, response: Response) -> bytes:
    """Return the frame of an answer. Raises the errors of the encoder."""
    write = response_encoder(header.api_key, header.api_version)
    return write(response, header.correlation_id)


def handle_in_slices(
    handler: Handler, call: Call, data: bytes, pos: int, end: int
) -> Slices[Response]:
    """Decode a request and call its handler; return the handler's result.

    Raises DecodeError, and OverBudgetError if the request has too many items.
    """
    header = call.header
    try:
        decoding = sliced_request_decoder(header.api_key, header.api_version)
        request = yield from decoding(data, pos, end)
    except LeftOver as odd:
        request = odd.message
    except TooManyItems as error:
        raise OverBudgetError(f"{call.api} with {error}", f"{error.most} items") from None
    yield
    response = handler(request, call.caller, call)
    if isinstance(response, GeneratorType):
        response = yield from response
    elif header.api_key == PRODUCE:
        call.in_slices = False  # one batch, and a short answer
    return response


def encode_in_slices(call: Call, response: Response, services: ConnectionServices) -> Slices[Any]:
    """Return the frame of an answer in pieces, which count as unsent while it is encoded.

    Raises OverBudgetError, and the errors of the encoder.
    """
    header, limits = call.header, services.limits
    budget = limits.unsent
    count_errors(services.answer_errors, header.api_key, response)
    pieces, size = [b""], 0
    encode = sliced_response_encoder(header.api_key, header.api_version)
    limits.encoding[call] = None
    try:
        for piece in encode(response, header.correlation_id):
            pieces.append(piece)
            size += len(piece)
            budget.change(len(piece))
            if size > ANSWER_BYTES:
                raise OverBudgetError(
                    f"an answer to {call.api} that is too long", f"{ANSWER_BYTES} bytes"
                )
            yield
    finally:
        del limits.encoding[call]
        budget.change(-size)
    pieces[0] = _pack_size(size)
    return pieces


def check_size(size: int, data: bytes, pos: int, limits: ConnectionLimits) -> int:
    """Return how many bytes from `pos` on are needed to continue with a long request. Up to its API
    key, or all. Raises DecodeError, and OverBudgetError if the request is too long for its API.
    """
    if size <= 0:
        raise DecodeError(f"a request of {size} bytes")
    if size > limits.produce_bytes:
        if (other := other_protocol(data, pos)) is not None:
            raise DecodeError(other)
        raise OverBudgetError(f"a request of {size} bytes", "socket.request.max.bytes")
    if len(data) - pos < SIZE_AND_KEY_BYTES:
        return SIZE_AND_KEY_BYTES
    (key,) = _key_at(data, pos + 4)
    most, limit = most_bytes(key, limits.request_bytes, limits.produce_bytes)
    if size > most:
        raise OverBudgetError(f"{api_name(key)} of {size} bytes", limit)
    return size + 4


def other_protocol(data: bytes, pos: int) -> str | None:
    """Return what protocol the four bytes at `pos` belong to, if they are no size; else None."""
    first = bytes(data[pos : pos + 4])
    if first in _HTTP:
        return HTTP
    return TLS if first.startswith(_TLS) else None
