"""Keeps the lag of groups over the last hour.

A group's history begins with the first request for it, has one point a minute, and is kept for an
hour after the last request.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from groupkeeper.clock import Clock
from groupkeeper.groups.lag import GroupLags, PartitionLag
from groupkeeper.observe.logs import Logger
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices, Turns

POINT_S: Final = 60.0
"""Interval between points."""
POINTS: Final = 60
"""Maximum number of points per group: an hour."""
HISTORIES: Final = 200
"""Maximum number of groups (LRU); each takes 10 KB."""
KEPT_S: Final = 3_600.0
"""Time after the last request when a history is dropped."""

_log = Logger("http")


class Point(NamedTuple):
    """The total lag of a group at one time."""

    at_ms: int
    records: int
    lag_ms: int | None


class LagHistory:
    """The lag histories of recently requested groups."""

    def __init__(self, lags: GroupLags, turns: Turns, clock: Clock) -> None:
        self._lags = lags
        self._turns = turns
        self._clock = clock
        self._points: OrderedDict[str, tuple[float, deque[Point]]] = OrderedDict()
        """Time of the last request and points, by group, least recently requested first."""
        self._task: asyncio.Task[None] | None = None

    def of(self, group: str, now: Point) -> list[Point]:
        """Return the points of a group so far; `now` is the first point of a new history."""
        _, points = self._points.pop(group, (0.0, deque([now], POINTS)))
        self._points[group] = self._clock.seconds(), points
        while len(self._points) > HISTORIES:
            self._points.popitem(last=False)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return [*points]

    def close(self) -> None:
        """Stop adding points."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._points:
            await asyncio.sleep(POINT_S)
            try:
                await self._add_points()
            except Exception:  # noqa: BLE001  # keep the task alive for the next point
                _log.exception("lag is unknown")
        self._task = None

    async def _add_points(self) -> None:
        now = self._clock.seconds()
        while self._points and now - next(iter(self._points.values()))[0] >= KEPT_S:
            self._points.popitem(last=False)
        wall = self._clock.wall()
        found = await self._lags.of([*self._points], wall)
        for group, now_there in (await self._turns.run(_sums(found, wall))).items():
            if group in self._points:
                self._points[group][1].append(now_there)


def _sums(found: Mapping[str, list[PartitionLag]], at_ms: int) -> Slices[dict[str, Point]]:
    points, pace = dict[str, Point](), Pace()
    for group, lags in found.items():
        points[group] = yield from point(lags, at_ms, pace)
    return points


def point(lags: Iterable[PartitionLag], at_ms: int, pace: Pace) -> Slices[Point]:
    """Return the sum of record lags, and the maximum time lag (None if any is unknown). Topics that
    no member subscribes any more do not count: nobody is late for them.
    """
    records, longest = 0, 0
    is_known = True
    for each in lags:
        if each.is_subscribed:
            records += each.lag
            longest = max(longest, each.lag_ms or 0)
            is_known = is_known and each.lag_ms is not None
        if pace.spent():
            yield
    return Point(at_ms, records, longest if is_known else None)
