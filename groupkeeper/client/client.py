"""Sends requests to a Kafka cluster: to one node, to all nodes, or to any node.

aiokafka's client discovers the nodes and holds the connections, with SASL and TLS. Versions are
negotiated per connection. Source: KafkaAdminClient (retriable errors).
"""

import asyncio
from copy import copy
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack

import aiokafka.client
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
)
from aiokafka.protocol.api import Request

from groupkeeper.backoff import Backoff
from groupkeeper.client.greeting import speaks_http
from groupkeeper.client.sessions import open_connection
from groupkeeper.client.structs import RequestFrame, VersionedRequest
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.message import Message, layout_of

if TYPE_CHECKING:
    from groupkeeper.client.oauth import TokenSource

REQUEST_TIMEOUT_MS: Final = 30_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
SOON_S: Final = 0.3
"""Time without a response after which the bootstrap addresses are checked for HTTP."""

NOT_YET: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which the coordinator is looked up again and the request is retried."""


_CONNECTIONS_PREPARE: Final = hasattr(Request, "prepare")
"""Whether aiokafka's connections choose versions by `Request.prepare`: from 0.13 on."""
aiokafka.client.create_conn = open_connection  # it has no parameter for it
_AIOKAFKA_ERRORS: Final = {
    IncompatibleBrokerVersion: ErrorCode.UNSUPPORTED_VERSION,
    RequestTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
}


class Security(TypedDict, total=False):
    """AIOKafkaClient's parameters for SASL and TLS."""

    security_protocol: str
    ssl_context: SSLContext
    sasl_mechanism: str
    sasl_plain_username: str
    sasl_plain_password: str
    sasl_kerberos_service_name: str
    sasl_oauth_token_provider: "TokenSource"


class CallFailed(Exception):
    """A request got no response, or an error response.

    `error` is the code in the response, or NETWORK_EXCEPTION (the connection closed),
    BROKER_NOT_AVAILABLE (no connection), REQUEST_TIMED_OUT or UNSUPPORTED_VERSION. `node` is None
    if no node was reached. `detail` is the node's error message, or the name of the error.
    """

    def __init__(self, api: str, node: int | None, error: ErrorCode, detail: str = "") -> None:
        where = "" if node is None else f" to node {node}"
        super().__init__(f"{api}{where}: {error.name}" + (f" ({detail})" if detail else ""))
        self.api = api
        self.node = node
        self.error = error
        self.detail = detail or error.name


class NotKafka(Exception):
    """An HTTP server responds at a bootstrap address; the message is that address."""


class Retries:
    """Growing pauses between retries, until the client's timeout."""

    def __init__(self, timeout_s: float) -> None:
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout_s

    async def pause(self) -> bool:
        """Sleep and return True; return False immediately if the pause would exceed the timeout."""
        pause = self._backoff.failed()
        if self._loop.time() + pause > self._deadline:
            return False
        await asyncio.sleep(pause)
        return True


class Client:
    """Connections to the nodes of one cluster, opened on demand.

    `bootstrap_servers` is "host:port,...". `request_timeout_ms` limits each connection attempt and
    each request, and the total time of retries with coordinators.
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
        self._connections = ConnectionGroup.DEFAULT

    async def __aenter__(self) -> Self:
        """Discover the nodes from the bootstrap servers, tried in random order. Raises CallFailed
        if none responds, NotKafka for an HTTP server, ValueError for inconsistent `security`.
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
        """Raise NotKafka if an address speaks HTTP; a Kafka connection would only time out."""
        places = [(host, port) for host, port, _ in self._kafka.hosts]
        found = await asyncio.gather(*(speaks_http(*each) for each in places))
        for (host, port), is_http in zip(places, found, strict=True):
            if is_http:
                raise NotKafka(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    async def __aexit__(self, *_: object) -> None:
        await self._kafka.close()

    def apart(self) -> "Client":
        """Return this client with a second connection to each node. A node answers the requests of
        a connection in turn, so a Fetch that waits for records delays all behind it.
        """
        found = copy(self)
        found._connections = ConnectionGroup.COORDINATION
        return found

    @property
    def timeout_s(self) -> float:
        """Maximum time for a request including retries, in seconds."""
        return self._timeout_ms / 1000

    def address_of(self, node: int) -> str:
        """Return "host:port" of a node from the latest metadata; "-" if it is unknown."""
        broker = self._kafka.cluster.broker_metadata(node)
        return "-" if broker is None else f"{broker.host}:{broker.port}"

    @property
    def nodes(self) -> list[int]:
        """Ids of the nodes in the latest metadata, sorted."""
        return sorted(broker.nodeId for broker in self._kafka.cluster.brokers())

    async def call(
        self, request: Message, *, node: int | None = None
    ) -> Any:  # Any: the response of the request's API
        """Send a request to a node, or to any, in the newest version that can represent it; return
        the response.

        Raises CallFailed, also if the response has a top-level `error_code`; errors in its rows are
        left to the caller. Produce with acks=0 has no response and fails with REQUEST_TIMED_OUT.
        """
        return await self._send(await self._any_node(request) if node is None else node, request)

    async def call_in_slices(
        self, request: Message, *, node: int | None = None
    ) -> Any:  # Any: see `call`
        """As `call`, for a long response, of up to half a million items of arrays: it is decoded in
        slices, between which the event loop does other work.
        """
        node = await self._any_node(request) if node is None else node
        slices = await self._answer(node, request, in_slices=True)
        try:
            while True:
                next(slices)
                await asyncio.sleep(0)
        except StopIteration as end:
            return _checked(request, node, end.value)
        except DecodeError as error:
            code = ErrorCode.NETWORK_EXCEPTION  # as where a connection decodes
            raise CallFailed(_api_of(request), node, code, str(error)) from error

    async def call_each(self, request: Message) -> dict[int, Any]:
        """Send a request to all nodes, and return the responses by node id. Nodes that are loading
        groups are retried until the timeout. Raises CallFailed if any node fails.
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
            if await self._kafka.ready(node, group=self._connections):
                return node
        detail = self._no_token() or f"tried nodes {self.nodes}"
        raise CallFailed(_api_of(request), None, ErrorCode.BROKER_NOT_AVAILABLE, detail)

    def _no_token(self) -> str:
        """Return why there is no token to log in with; empty if that is not the problem."""
        tokens = self._security.get("sasl_oauth_token_provider")
        return "" if tokens is None else tokens.problem

    async def _send(self, node: int, request: Message) -> Any:
        return _checked(request, node, await self._answer(node, request))

    async def _answer(self, node: int, request: Message, *, in_slices: bool = False) -> Any:
        try:
            prepared = await self._prepared(node, VersionedRequest(request, in_slices=in_slices))
            return await self._kafka.send(node, prepared, group=self._connections)
        except NodeNotReadyError as error:
            detail = self._no_token() or "".join(error.args)
            not_there = ErrorCode.BROKER_NOT_AVAILABLE
            raise CallFailed(_api_of(request), node, not_there, detail) from error
        except KafkaError as error:
            raise _failed(_api_of(request), node, error) from error

    async def _prepared(
        self, node: int, versioned: VersionedRequest
    ) -> VersionedRequest | RequestFrame:
        """Return a request in the form that aiokafka's client takes."""
        if _CONNECTIONS_PREPARE:
            return versioned
        if not await self._kafka.ready(node, group=self._connections):
            raise NodeNotReadyError
        connection = self._kafka._conns[node, self._connections]  # has no public name
        return versioned.prepare(connection._version_info._versions)


# Any: the response of the request's API.
def _checked(request: Message, node: int, response: Any) -> Any:
    """Return a response without a top-level error. Raises CallFailed."""
    code = getattr(response, "error_code", 0)
    if code:
        known = ErrorCode(code)
        told = getattr(response, "error_message", None) or ""
        detail = told if known == code else f"error {code}"
        raise CallFailed(_api_of(request), node, known, detail)
    return response


def _api_of(request: Message) -> str:
    return layout_of(type(request)).name.removesuffix("Request")


def _failed(api: str, node: int | None, error: Exception) -> CallFailed:
    code = _AIOKAFKA_ERRORS.get(type(error), ErrorCode.NETWORK_EXCEPTION)
    # aiokafka closes the connection when a response cannot be decoded.
    unreadable = isinstance(error.__cause__, DecodeError)
    detail = str(error.__cause__) if unreadable else "".join(map(str, error.args))
    return CallFailed(api, node, code, detail)
