"""Waits for the topic of an observed cluster, with an HTTP port that says so.

The port says that the process is alive and what it waits for, and nothing of the cluster, so it
asks for no token. That of the observer takes its place, at the same address.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import gethostname
from typing import Final

from groupkeeper.backoff import Backoff
from groupkeeper.client import CallFailed, Client
from groupkeeper.observe.http_exchange import (
    Apis,
    HttpAnswer,
    HttpRequest,
    Page,
    error_answer,
    json_line,
)
from groupkeeper.observe.http_host import own_names
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.server.tls import ListenersTls
from groupkeeper.server.unusable import listening_at
from groupkeeper.settings.options import Address, ServeOptions, format_address
from groupkeeper.settings.table import Settings
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.watch.tail import PAUSE_FIRST_S, PAUSE_MOST_S
from groupkeeper.watch.topic import TopicSeen, look

REASON: Final = (
    f"the cluster has no topic {GROUP_TOPIC}: it is created with the first group, and looked for"
)
_SOON: Final = {"Retry-After": "5"}
_log = Logger("observer")


async def wait_for_topic(
    client: Client, topic: str, missing: Callable[[], Awaitable[Address]]
) -> TopicSeen:
    """Look the topic up, until there is one. `missing` is called once, if there is none at first,
    and returns where that is told. Raises CallFailed, at the first look, and NoRight.
    """
    backoff, is_told = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S), False
    while True:
        try:
            return await look(client, topic)
        except CallFailed as failure:
            if failure.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_told:
                raise
        if not is_told:
            is_told = True
            _log.warning(
                f"the cluster has no topic {topic}",
                why="it is created with the first group; some managed clusters hide it",
                http=format_address(await missing()),
            )
        await asyncio.sleep(backoff.failed())


class WaitingPort:
    """One port; `address` is the bound one from `open` on."""

    def __init__(self, address: Address, settings: Settings) -> None:
        """Raises SettingsError: TLS reads files."""
        self.address = address
        options = ServeOptions(Path(), http=address, settings=settings)
        self._tls = ListenersTls((), settings, Metrics())
        apis: Apis = {"/healthz": Page(_healthz), "/readyz": Page(_readyz), "/": Page(_waits)}
        self._http = HttpServer(apis, names=own_names((*options.hosts, gethostname())))
        self._is_open = False

    async def open(self) -> Address:
        """Listen. Raises OSError."""
        with listening_at(self.address, "--http"):
            self.address = await self._http.start(self.address, self._tls.of_http())
        self._is_open = True
        self._tls.watch()
        return self.address

    async def close(self) -> None:
        """Stop listening, if it ever did."""
        self._tls.stop()
        if self._is_open:
            await self._http.close()


def _healthz(_: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, json_line({"alive": True}))


def _readyz(_: HttpRequest) -> HttpAnswer:
    return HttpAnswer(503, json_line({"ready": False, "partitions": 0, "reason": REASON}))


def _waits(_: HttpRequest) -> HttpAnswer:
    return error_answer(503, REASON, _SOON)
