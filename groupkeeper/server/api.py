"""The JSON API of a server: imported in a thread with its first request, and nothing before."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.server.server import Server

if TYPE_CHECKING:
    from groupkeeper.web.api import Api

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
