"""The pages of the HTTP port: health, readiness and metrics."""

import asyncio
import re
from functools import partial
from importlib import import_module
from math import ceil
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from groupkeeper.observe.http_exchange import (
    Apis,
    HttpAnswer,
    HttpRequest,
    Page,
    SlowPage,
    json_line,
)
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.status import not_active
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.exposition import Exposition

FIELDS_MOST: Final = 100
"""Maximum number of parameters in a query."""

_ENOUGH: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def pages(metrics: Metrics, turns: Turns | None = None) -> Apis:
    """Return the pages for `http_server.HttpServer`, by path."""
    return {
        "/healthz": Page(lambda _: HttpAnswer(200, json_line({"alive": True}))),
        "/readyz": Page(partial(_readyz, metrics)),
        "/metrics": SlowPage(_Scrape(metrics, turns or Turns()).page),
    }


class _Scrape:
    """/metrics. Imports prometheus-client with the first scrape, in a thread."""

    def __init__(self, metrics: Metrics, turns: Turns) -> None:
        self._metrics = metrics
        self._turns = turns
        self._exposition: Exposition | None = None

    async def page(self) -> HttpAnswer:
        if self._exposition is None:
            await asyncio.to_thread(import_module, "groupkeeper.observe.exposition")
        from groupkeeper.observe.exposition import CONTENT_TYPE, Exposition

        if self._exposition is None:
            self._exposition = Exposition(self._metrics)
        sight = await self._exposition.look()
        await self._turns.wait()  # the end of the look used this one
        page = await self._turns.run(self._exposition.page(sight))
        return HttpAnswer(200, page, CONTENT_TYPE)


def _readyz(metrics: Metrics, request: HttpRequest) -> HttpAnswer:
    """Ready with all partitions, or with as many as `enough` requires."""
    snapshots = [*metrics.snapshots()]
    try:
        enough = _enough(request.query, len(snapshots))
    except ValueError as problem:
        return HttpAnswer(400, json_line({"error": str(problem)}))
    waiting = not_active(snapshots)
    active = len(snapshots) - len(waiting)
    ready = bool(snapshots) and active >= enough
    body = {
        "ready": ready,
        "partitions": len(snapshots),
        "active": active,
        "enough": enough,
        "not_active": waiting,
    }
    return HttpAnswer(200 if ready else 503, json_line(body))


def _enough(query: str, partitions: int) -> int:
    """Return how many partitions have to be active. Raises ValueError. All, a number (`enough=45`),
    or with a decimal point, a share of all (`enough=0.9`), rounded up.
    """
    given = parse_qs(query, keep_blank_values=True, max_num_fields=FIELDS_MOST).get("enough")
    if given is None:
        return partitions
    text = given[0]
    if len(given) > 1:
        raise ValueError("'enough' is given twice: give it once")
    found = _ENOUGH.fullmatch(text)
    if found is None or not float(text) or (found[1] and float(text) > 1):
        line = f"'enough' is '{text[:100]}': give a number of partitions, as 45, or a share, as 0.9"
        raise ValueError(line)
    enough = ceil(float(text) * partitions) if found[1] else int(text)
    if partitions and enough > partitions:
        raise ValueError(f"'enough' is {enough}: there are {partitions} partitions")
    return enough
