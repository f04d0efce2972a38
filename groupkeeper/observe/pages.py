"""The pages of the HTTP port: health, readiness and metrics."""

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING

from groupkeeper.observe.http_limits import Page, Pages
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.status import is_ready, not_active
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.exposition import Exposition

_JSON = "application/json"


def pages(metrics: Metrics, turns: Turns | None = None) -> Pages:
    """The pages for `http_server.HttpServer`, by path."""
    return {
        "/healthz": lambda: (200, _JSON, _dump({"alive": True})),
        "/readyz": lambda: _readyz(metrics),
        "/metrics": _Scrape(metrics, turns or Turns()).page,
    }


class _Scrape:
    """/metrics. Imports prometheus-client with the first scrape, in a thread."""

    def __init__(self, metrics: Metrics, turns: Turns) -> None:
        self._metrics = metrics
        self._turns = turns
        self._exposition: Exposition | None = None

    async def page(self) -> Page:
        if self._exposition is None:
            await asyncio.to_thread(import_module, "groupkeeper.observe.exposition")
        from groupkeeper.observe.exposition import CONTENT_TYPE, Exposition

        if self._exposition is None:
            self._exposition = Exposition(self._metrics)
        sight = await self._exposition.look()
        await self._turns.wait()  # the end of the look was in this one
        return 200, CONTENT_TYPE, await self._turns.run(self._exposition.page(sight))


def _readyz(metrics: Metrics) -> Page:
    snapshots = [*metrics.snapshots()]
    ready, waiting = is_ready(snapshots), not_active(snapshots)
    body = {"ready": ready, "partitions": len(snapshots), "not_active": waiting}
    return 200 if ready else 503, _JSON, _dump(body)


def _dump(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
