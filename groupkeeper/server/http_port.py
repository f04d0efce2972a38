"""The HTTP port of a server: its pages, the JSON API, and the page for people."""

import gc
from collections.abc import Iterable
from socket import gethostname

from groupkeeper.observe.http_host import own_names
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.observe.pages import pages
from groupkeeper.server.api import API_PREFIX, PAGE_PREFIX, LateApi, LatePage
from groupkeeper.server.server import Server
from groupkeeper.server.status_page import StatusPage
from groupkeeper.settings.options import Address
from groupkeeper.turns import PacedTurns


class HttpPort:
    """One port; on the loop of the server, from its start until it ends."""

    def __init__(self, server: Server, hosts: Iterable[str]) -> None:
        """`hosts`: those of the options; the names that requests may give this port."""
        turns = PacedTurns()  # its own: health checks do not queue behind Kafka clients
        self._api = LateApi(server)
        found = {**pages(server.metrics, turns), "/status": StatusPage(server).page}
        apis = {API_PREFIX: self._api.answer, PAGE_PREFIX: LatePage().answer}  # the first that fits
        counts, names = server.metrics.counts, own_names((*hosts, gethostname()))
        self._http = HttpServer(found, turns, apis=apis, names=names, counts=counts)

    async def start(self, address: Address) -> Address:
        """Returns the bound address. Raises OSError."""
        return await self._http.start(address)

    def freeze_when_serving(self) -> None:
        """Let the garbage collector forget the modules that it imports: they stay."""
        self._http.serving.add_done_callback(lambda _: gc.freeze())

    def abandon(self) -> None:
        """See `HttpServer.abandon`."""
        self._http.abandon()

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()
        self._api.close()
