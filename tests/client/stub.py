"""Nodes of a cluster that answer what a test says, on sockets of this process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from groupkeeper.client.consumer_group_describe import ConsumerGroupDescribeRequest
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from groupkeeper.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from groupkeeper.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from groupkeeper.protocol.registry import APIS, api_of

Answer = Callable[[Any], Any]
"""From a request to its response, bytes instead of a frame, HANG_UP or SILENCE."""
KNOWN = APIS | {69: api_of(ConsumerGroupDescribeRequest)}
HANG_UP, SILENCE = object(), object()


class StubNode:
    """`answers` by name of the API; `versions` are those it offers instead of ours, None for an API
    that it does not have.
    """

    def __init__(
        self, node_id: int, versions: dict[str, tuple[int, int] | None] | None = None
    ) -> None:
        self.node_id = node_id
        self.port = 0
        self.asked: list[tuple[str, int]] = []
        self.answers: dict[str, Answer] = {"ApiVersions": self._api_versions}
        self._versions = versions or {}
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._connections:
            writer.close()
        await asyncio.gather(*filter(None, self._connections.values()))
        self._connections.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = self._answer(await reader.readexactly(size))
                if answer is HANG_UP:
                    break
                if answer is not SILENCE:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def _answer(self, frame: bytes) -> Any:
        header, body = read_request_header(frame, 0, len(frame))
        key, version = header.api_key, header.api_version
        api = KNOWN[key]
        if key not in APIS:  # the end of its flexible header: no tagged fields
            body += 1
        request = decoder(api.request_type, version)(frame, body, len(frame))
        self.asked.append((api.name, version))
        response = self.answers[api.name](request)
        if isinstance(response, bytes):
            payload = header.correlation_id.to_bytes(4, "big") + response
            return len(payload).to_bytes(4, "big") + payload
        if response in (HANG_UP, SILENCE):
            return response
        encode = encoder(api.response_type, version, Framing.RESPONSE)
        return encode(response, header.correlation_id)

    def _api_versions(self, _: Any) -> ApiVersionsResponse:
        served = {api.name: api.served for api in KNOWN.values()} | self._versions
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, api in KNOWN.items()
                for low, high in filter(None, [served[api.name]])
            ]
        )


@asynccontextmanager
async def cluster(*nodes: StubNode) -> AsyncIterator[str]:
    """Nodes that know each other, and the address of the first, which coordinates every group."""
    for node in nodes:
        await node.start()
    brokers = [
        MetadataResponseBroker(node_id=node.node_id, host="127.0.0.1", port=node.port)
        for node in nodes
    ]
    first = brokers[0]
    for node in nodes:
        node.answers.setdefault("Metadata", lambda _: MetadataResponse(brokers=brokers))
        node.answers.setdefault(
            "FindCoordinator",
            lambda asked: FindCoordinatorResponse(
                node_id=first.node_id,
                host=first.host,
                port=first.port,
                coordinators=[
                    Coordinator(key=key, node_id=first.node_id) for key in asked.coordinator_keys
                ],
            ),
        )
    try:
        yield f"127.0.0.1:{first.port}"
    finally:
        for node in nodes:
            await node.stop()
