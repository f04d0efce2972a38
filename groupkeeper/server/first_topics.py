"""Creates the topics of `serve --topic` before clients are served."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from groupkeeper.apis.create_topics import CreateTopicsHandler
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.server.server import Server
from groupkeeper.settings.table import SettingsError

CLIENT_ID: Final = "serve --topic"
_TIMEOUT_MS: Final = 60_000
_VERSION: Final = 7


async def create_topics(server: Server, topics: Mapping[str, int]) -> None:
    """Create topics with so many partitions; those that exist stay as they are.

    Raises SettingsError.
    """
    rows = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    handler = CreateTopicsHandler(server.topics, Node(0, server.address))
    request = CreateTopicsRequest(topics=rows, timeout_ms=_TIMEOUT_MS)
    caller = Caller(_VERSION, Peer(client_id=CLIENT_ID))
    answer: Any = await server.turns.run(handler.handle(request, caller, _Awaited(answered)))
    for each in (await answered if answer is None else answer).topics:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise SettingsError(f"--topic {each.name}: {each.error_message}")


class _Awaited:
    """Where the answer goes. Any: a message."""

    def __init__(self, answered: "asyncio.Future[Any]") -> None:
        self._answered = answered

    def answer(self, response: Any) -> None:
        self._answered.set_result(response)
