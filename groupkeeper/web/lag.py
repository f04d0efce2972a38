"""How far groups are behind, as a field of their rows."""

from collections.abc import Mapping, Sequence

from groupkeeper.groups.lag import PartitionLag
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices
from groupkeeper.web.lag_history import point
from groupkeeper.web.parts import Object, Parts


async def add_lags(parts: Parts, rows: Sequence[Object]) -> None:
    """Fill in `lag` of rows of groups; it stays null of a group without committed offsets."""
    wall = parts.clock.wall()
    found = await parts.lags.of([each["group"] for each in rows], wall)
    await parts.turns.run(_add_lags(rows, found, wall))


def _add_lags(
    rows: Sequence[Object], found: Mapping[str, list[PartitionLag]], wall: int
) -> Slices[None]:
    pace = Pace()
    for each in rows:
        lags = found.get(each["group"])
        if lags:
            now = yield from point(lags, wall, pace)
            seconds = None if now.lag_ms is None else now.lag_ms / 1000
            each["lag"] = {"records": now.records, "seconds": seconds}
