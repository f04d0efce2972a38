"""Requests to a Kafka cluster: to a node, to the coordinator of a group, or to any node.

aiokafka's client finds the nodes and keeps the connections, with SASL and TLS; versions are
negotiated on each connection. Source: KafkaAdminClient (which errors are tried again).
"""

import asyncio
from ssl import SSLContext
from typing import Any, Final, Self, TypedDict, Unpack

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
)
from aiokafka.protocol.api import Request

from groupkeeper.backoff import Backoff
from groupkeeper.client.greeting import HTTP, spoken_at
from groupkeeper.client.structs import RequestFrame, VersionedRequest
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.message import Message, layout_of

REQUEST_TIMEOUT_MS: Final = 30_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
SOON_S: Final = 0.3
"""A node that takes longer to answer at first is looked at: it may speak another protocol."""

NOT_YET: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which the coordinator is looked up, and the request sent, once more."""


_CONNECTIONS_PREPARE: Final = hasattr(Request, "prepare")
"""Whether connections ask a request for the version that fits: from aiokafka 0.13 on."""
_CODES: Final = frozenset(ErrorCode)
_AIOKAFKA_ERRORS: Final = {
    IncompatibleBrokerVersion: ErrorCode.UNSUPPORTED_VERSION,
    NodeNotReadyError: ErrorCode.BROKER_NOT_AVAILABLE,
    RequestTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
}


class Security(TypedDict, total=False):
    """What aiokafka needs for SASL and TLS, under its own names (see AIOKafkaClient)."""

    security_protocol: str
    ssl_context: SSLContext
    sasl_mechanism: str
    sasl_plain_username: str
    sasl_plain_password: str
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str
    sasl_oauth_token_provider: AbstractTokenProvider


class CallFailed(Exception):
    """A request was not answered, or was answered with an error.

    `error` is Kafka's: NETWORK_EXCEPTION for a connection that closed, BROKER_NOT_AVAILABLE for one
    that could not be made, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, or the code in the answer.
    `node` is None when no node was reached. `detail` is what the node said, or the error's name.
    """

    def __init__(self, api: str, node: int | None, error: ErrorCode, detail: str = "") -> None:
        where = "" if node is None else f" to node {node}"
        super().__init__(f"{api}{where}: {error.name}" + (f" ({detail})" if detail else ""))
        self.api = api
        self.node = node
        self.error = error
        self.detail = detail or error.name


class NotKafka(Exception):
    """HTTP is spoken at an address that was given as a Kafka node's; the text is that address."""


class Retries:
    """Pauses before something is asked again, ever longer, until the client's timeout."""

    def __init__(self, timeout_s: float) -> None:
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout_s

    async def pause(self) -> bool:
        """False, at once, if the time would be over."""
        pause = self._backoff.failed()
        if self._loop.time() + pause > self._deadline:
            return False
        await asyncio.sleep(pause)
        return True


class Client:
    """Connections to the nodes of one cluster, opened when they are needed.

    `bootstrap_servers` is "host:port,...". A connection, and a request, takes `request_timeout_ms`
    at most; requests to coordinators are tried again for as long.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "groupkeeper",
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        **security: Unpack[Security],
    ) -> None:
        self._servers = bootstrap_servers
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._security = security
        self._kafka: Any = None  # Any: aiokafka is not typed

    async def __aenter__(self) -> Self:
        """Asks the servers for the nodes, one after the other in random order; CallFailed when none
        answers, NotKafka when one speaks HTTP, ValueError for security parameters that do not fit
        together.
        """
        self._kafka = AIOKafkaClient(
            bootstrap_servers=self._servers,
            client_id=self._client_id,
            request_timeout_ms=self._timeout_ms,
            **self._security,
        )
        begun = asyncio.ensure_future(self._kafka.bootstrap())
        try:
            await asyncio.wait([begun], timeout=SOON_S)
            if not begun.done() or begun.exception() is not None:
                await self._check_protocols()
            await begun
        except KafkaError as error:
            raise _failed("Metadata", None, error) from error
        finally:
            begun.cancel()
        return self

    async def _check_protocols(self) -> None:
        """Raises NotKafka. A connection would wait for the rest of a frame until it times out."""
        places = [(host, port) for host, port, _ in self._kafka.hosts]
        found = await asyncio.gather(*(spoken_at(*each) for each in places))
        for (host, port), spoken in zip(places, found, strict=True):
            if spoken == HTTP:
                raise NotKafka(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    async def __aexit__(self, *_: object) -> None:
        await self._kafka.close()

    @property
    def timeout_s(self) -> float:
        """How long a request, with its repetitions, may take."""
        return self._timeout_ms / 1000

    def address_of(self, node: int) -> str:
        """The host and port of a node, as the cluster last told them; "-" if it is unknown."""
        broker = self._kafka.cluster.broker_metadata(node)
        return "-" if broker is None else f"{broker.host}:{broker.port}"

    @property
    def nodes(self) -> list[int]:
        """Ids of the nodes, as the cluster last told them."""
        return sorted(broker.nodeId for broker in self._kafka.cluster.brokers())

    async def call(
        self, request: Message, *, node: int | None = None
    ) -> Any:  # Any: the response of the request's API
        """The response of a node, or of any, to a request in the newest version that carries all of
        it.

        Raises CallFailed, also for an error in the response's own `error_code`; errors of its parts
        are the caller's. Produce with acks=0 has no response and fails with REQUEST_TIMED_OUT.
        """
        return await self._send(await self._any_node(request) if node is None else node, request)

    async def call_each(self, request: Message) -> dict[int, Any]:
        """The responses of all nodes, by node; CallFailed when one fails. A node that loads groups
        is asked again until the timeout.
        """
        nodes = self.nodes
        asked = [self._send_until_loaded(node, request) for node in nodes]
        return dict(zip(nodes, await asyncio.gather(*asked), strict=True))

    async def _send_until_loaded(self, node: int, request: Message) -> Any:
        retries = Retries(self.timeout_s)
        while True:
            try:
                return await self._send(node, request)
            except CallFailed as failure:
                if failure.error not in NOT_YET or not await retries.pause():
                    raise

    async def _any_node(self, request: Message) -> int:
        for node in self.nodes:
            if await self._kafka.ready(node):
                return node
        raise CallFailed(
            _api_of(request), None, ErrorCode.BROKER_NOT_AVAILABLE, f"tried nodes {self.nodes}"
        )

    async def _send(self, node: int, request: Message) -> Any:
        try:
            response = await self._kafka.send(node, await self._prepared(node, request))
        except KafkaError as error:
            raise _failed(_api_of(request), node, error) from error
        code = getattr(response, "error_code", 0)
        if code:
            known = ErrorCode(code) if code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR
            told = getattr(response, "error_message", None) or ""
            detail = told if known == code else f"error {code}"
            raise CallFailed(_api_of(request), node, known, detail)
        return response

    async def _prepared(self, node: int, request: Message) -> VersionedRequest | RequestFrame:
        """What aiokafka's client sends for a request."""
        versioned = VersionedRequest(request)
        if _CONNECTIONS_PREPARE:
            return versioned
        if not await self._kafka.ready(node):
            raise NodeNotReadyError
        connection = self._kafka._conns[node, ConnectionGroup.DEFAULT]  # has no public name
        return versioned.prepare(connection._version_info._versions)


def _api_of(request: Message) -> str:
    return layout_of(type(request)).name.removesuffix("Request")


def _failed(api: str, node: int | None, error: Exception) -> CallFailed:
    code = _AIOKAFKA_ERRORS.get(type(error), ErrorCode.NETWORK_EXCEPTION)
    # aiokafka closes the connection when a response cannot be decoded.
    unreadable = isinstance(error.__cause__, DecodeError)
    return CallFailed(api, node, code, str(error.__cause__ if unreadable else "".join(error.args)))
