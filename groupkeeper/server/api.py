"""The JSON API and the page of a server: imported in a thread with the first request of each, and
nothing before.
"""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.server.server import Server

if TYPE_CHECKING:
    from groupkeeper.web.api import Api
    from groupkeeper.web.page_files import PageFiles

PAGE_PREFIX: Final = "/"
API_PREFIX: Final = "/api/v1/"


class LateApi:
    """Answers requests under `API_PREFIX`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._api: Api | None = None

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """See `web.api.Api.answer`."""
        if self._api is None:
            await asyncio.to_thread(import_module, "groupkeeper.web.api")
        return await self.api().answer(request)

    def api(self) -> "Api":
        """The API, imported now if it was not before."""
        from groupkeeper.web.api import Api

        if self._api is None:
            self._api = Api(self._server.web_parts())
        return self._api

    def close(self) -> None:
        """The server stops."""
        if self._api is not None:
            self._api.close()


class LatePage:
    """Answers requests under `PAGE_PREFIX` that nothing else answers."""

    def __init__(self) -> None:
        self._files: PageFiles | None = None

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """See `web.page_files.PageFiles.answer`."""
        if self._files is None:
            self._files = await asyncio.to_thread(_page_files)
        return self._files.answer(request)


def _page_files() -> "PageFiles":
    from groupkeeper.web.page_files import PageFiles

    return PageFiles()
