"""Creates the topics of `serve --topic` before clients are served."""

from collections.abc import Mapping
from typing import Final

from groupkeeper.apis.create_topics import CreateTopicsHandler
from groupkeeper.apis.gather import ask
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
    """Create topics with these partition counts; existing ones are unchanged.

    Raises SettingsError.
    """
    rows = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    handler = CreateTopicsHandler(server.topics, Node(0, server.address))
    request = CreateTopicsRequest(topics=rows, timeout_ms=_TIMEOUT_MS)
    caller = Caller(_VERSION, Peer(client_id=CLIENT_ID))
    answer = await ask(handler.handle, request, caller, server.turns)
    for each in answer.topics:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise SettingsError(f"--topic {each.name}: {each.error_message}")
