"""The HTTP port of a server: its pages, the JSON API, and the web page for people.

API and web page are imported in a thread with their first request.
"""

import asyncio
import gc
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final, Protocol

from groupkeeper.observe.http_exchange import Apis, HttpAnswer, HttpRequest, SlowPage, json_line
from groupkeeper.observe.http_host import own_names
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.pages import pages
from groupkeeper.observe.status import status_of
from groupkeeper.server.tls import LOOK_S, ListenersTls
from groupkeeper.server.unusable import listening_at
from groupkeeper.settings.options import Address
from groupkeeper.settings.table import Settings
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.journal.journal import FOLDER
from groupkeeper.storage.store import Store
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import PacedTurns

if TYPE_CHECKING:
    from groupkeeper.access.http_gate import HttpGate
    from groupkeeper.web.api import HttpApi
    from groupkeeper.web.page_files import PageFiles
    from groupkeeper.web.parts import Parts

PAGE_PREFIX: Final = "/"
API_PREFIX: Final = "/api/v1/"
SIZED_MOST: Final = 2_000
"""Partitions of topics whose sizes are added up: each may cost a look at its folder."""
UNKNOWN: Final = -1


class Served(Protocol):
    """A server, or an observer, as its HTTP port uses it."""

    metrics: Metrics
    topics: Topics
    tls: ListenersTls

    @property
    def store(self) -> Store:
        """The data directory."""

    @property
    def files(self) -> Files:
        """The file system of the data directory."""

    def about(self) -> dict[str, Any]:
        """See `Server.about`."""

    def web_parts(self) -> "Parts":
        """Return the dependencies of the JSON API."""


class HttpPort:
    """One port; on the loop of the server, from its start until it ends."""

    def __init__(self, server: Served, hosts: Iterable[str]) -> None:
        """`hosts`: those of the options; the names that requests may use for this port."""
        turns = PacedTurns()  # its own: health checks do not queue behind Kafka clients
        self._server = server
        self._api: HttpApi | None = None
        self._files: PageFiles | None = None
        self._watching: asyncio.Task[None] | None = None
        apis: Apis = {
            **pages(server.metrics, turns),
            "/status": SlowPage(self.status),
            API_PREFIX: self._answer,
            PAGE_PREFIX: self._file,
        }
        counts, names = server.metrics.counts, own_names((*hosts, gethostname()))
        self._http = HttpServer(apis, turns, names=names, counts=counts)

    async def start(self, address: Address, settings: Settings) -> Address:
        """Listen, and return the bound address. Raises OSError, SettingsError."""
        gate = None
        if settings.http_tokens_file is not None:
            from groupkeeper.access.watched_files import watch

            gate = await asyncio.to_thread(self._gate, settings.http_tokens_file, settings)
            self._watching = asyncio.create_task(watch(gate.refresh, LOOK_S))
        tls = self._server.tls.of_http()
        with listening_at(address, "--http"):
            return await self._http.start(address, tls, gate)

    def _gate(self, file: str, settings: Settings) -> "HttpGate":
        """Read the tokens. On a thread. Raises SettingsError."""
        from groupkeeper.access.audit import LoginAudit
        from groupkeeper.access.http_gate import HttpGate

        audit = LoginAudit(self._server.metrics.authentications)
        return HttpGate(Path(file), settings.http_open_paths.split(","), audit)

    def freeze_when_serving(self) -> None:
        """Exclude the modules it imports from garbage collection: they stay."""
        self._http.serving.add_done_callback(lambda _: gc.freeze())

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._http.close()
        if self._api is not None:
            self._api.close()

    # -- what is imported late -------------------------------------------------------------------

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        if self._api is None:
            await asyncio.to_thread(import_module, "groupkeeper.web.api")
        return await self.api().answer(request)

    def api(self) -> "HttpApi":
        """Return the API, importing it if necessary."""
        from groupkeeper.web.api import HttpApi

        if self._api is None:
            self._api = HttpApi(self._server.web_parts())
        return self._api

    async def _file(self, request: HttpRequest) -> HttpAnswer:
        if self._files is None:
            self._files = await asyncio.to_thread(_page_files)
        return self._files.answer(request)

    # -- /status: looks at the disk, which `observe/status.py` does not --------------------------

    async def status(self) -> HttpAnswer:
        """Return `/status`, always with code 200: `ready` has the readiness of the server."""
        server = self._server
        found = status_of(server.metrics, server.about(), await self._disk())
        return HttpAnswer(200, json_line(found))

    async def _disk(self) -> dict[str, int]:
        topics = self._server.topics
        total, free = await topics.positions.space()
        counts = dict(topics.catalog.counts)
        groups, events = ({name: counts.pop(name, 0)} for name in (GROUP_TOPIC, EVENT_TOPIC))
        is_small = sum(counts.values()) <= SIZED_MOST
        return {
            "total_bytes": total,
            "free_bytes": free,
            "journals_bytes": await topics.worker(self._journals),
            "groups_bytes": await self._size(groups),
            "events_bytes": await self._size(events),
            "topics_bytes": await self._size(counts) if is_small else UNKNOWN,
        }

    async def _size(self, counts: dict[str, int]) -> int:
        places = [(name, index) for name, count in counts.items() for index in range(count)]
        extents = await self._server.topics.positions.extents(places)
        return sum(each.size for each in extents.values())

    def _journals(self) -> int:
        """Return the total bytes of journal files. On the worker."""
        folder = f"{self._server.store.data_dir}/{FOLDER}"
        files = self._server.files
        looks = (files.look(f"{folder}/{name}") for name in files.list_folder(folder))
        return sum(each.size for each in looks if each is not None)


def _page_files() -> "PageFiles":
    from groupkeeper.web.page_files import PageFiles

    return PageFiles()
