"""What rebalances cost: the worst groups, as bars to one scale from zero."""

import re
from typing import Final

import numpy as np

from groupkeeper.analytics.page.data import Data, Row, legend
from groupkeeper.analytics.page.figure import Figure, Lane, LaneRow, Link, Scale
from groupkeeper.analytics.page.markup import linked
from groupkeeper.analytics.page.overview import counts_of
from groupkeeper.analytics.page.times import Span, count, told

ROWS: Final = 15


def not_stable(data: Data, link: Link) -> Figure | None:
    """The groups that were not stable for the longest, by cause."""
    worst = [each for each in data.groups.slice(0, ROWS).to_pylist() if each["not_stable_ms"]]
    if not worst:
        return None
    names, whole = [each["group"] for each in worst], Span(data.shown.start, data.shown.end + 1)
    lost = counts_of(data.rounds, Scale(whole, 1), names, "duration_ms")[:, 0]
    rest = len(data.groups) - len(worst)
    more = f" {count(rest, 'other group')}: see the table of groups." if rest else ""
    rows: list[LaneRow] = [
        (
            linked(each["group"], link(each["group"])),
            _words("{not_stable_ms}, {share}; longest {longest_ms}", each),
            _bars(*((f"p{at}", part) for at, part in enumerate(parts))),
        )
        for each, parts in zip(worst, lost.tolist(), strict=True)
    ]
    most = max(lane["bars"][-1][1] for _, _, lane in rows)
    shared = {"of": most, "legend": legend(np.flatnonzero(lost.sum(axis=0)))}
    return Figure(
        "not-stable",
        "How long groups were not stable, by cause",
        "Look for the longest bar, and for the texture that fills most of it: that is what to "
        "change first.",
        "Unit: time in which a rebalance was under way, its share of all the time, and the longest "
        f"rebalance.{more}",
        rows,
        shared,
        "bars",
    )


def _words(template: str, row: Row) -> str:
    """With the values of columns that are named in braces."""
    columns = re.findall(r"\{(\w+)\}", template)
    return template.format(**{each: told(each, row[each]) for each in columns})


def _bars(*parts: tuple[str, float]) -> Lane:
    """Looks with amounts, one behind the other."""
    ends = [sum(amount for _, amount in parts[:at]) for at in range(len(parts) + 1)]
    return {
        "bars": [(ends[at], ends[at + 1], look) for at, (look, part) in enumerate(parts) if part]
    }
