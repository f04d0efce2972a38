"""Panels of single groups: ownership, commits and lag of the groups that readers likely look up."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.page.data import NAMES, Data, PageRow, legend
from groupkeeper.analytics.page.markup import Figure, Html, LaneRow, Scale, cut, fill, name, up_to
from groupkeeper.analytics.page.overview import binned, counts_of, marks
from groupkeeper.analytics.page.times import (
    MINUTE,
    TimeSpan,
    count,
    length,
    period,
    step_name,
    told,
)
from groupkeeper.why.texts import short_id

GROUPS: Final = 10
"""Maximum number of panels: groups with findings, then those not stable for the longest."""
PANELS_BYTES: Final = 300_000
"""Limit of all panels together; the first ones are shown."""
ROWS: Final = 32
"""Maximum number of partitions in a picture: those without an owner for the longest."""
INTERVALS: Final = 2_500
"""Maximum number of intervals in a picture: the first ones of the period shown."""
OWNERS: Final = 24
"""Maximum number of owners in the legend."""
SEEN: Final = 150
"""The period shown is this many times the usual gap in ownership, which is then 5 pixels wide."""
POINTS: Final = 280
"""Maximum number of points of a line."""
RULES: Final = 150
"""Maximum number of rebalances drawn across the lines; more would hide them."""
WIDE: Final = 1_000
"""Steps across a picture of owners."""
NOBODY, UNKNOWN = -1, -2
"""Numbers of owners in lanes.js."""
_Numbers = npt.NDArray[np.int64]
_Place = tuple[str, int]
_PLACE: Final = ["topic", "topic_partition"]
_OWNED: Final = (
    *("topic", "topic_partition", "from", "until", "is_owned", "member", "instance"),
    *("client_id", "host"),
)


class Panels:
    """The groups with a panel, and the anchors of these."""

    def __init__(self, data: Data, findings: Sequence[PageRow]) -> None:
        names = [row["group"] for row in findings if row["group"] is not None]
        names += data.groups["group"].slice(0, GROUPS).to_pylist()
        wanted = pa.array(dict.fromkeys(names), pa.string())
        places = pc.index_in(wanted, data.groups["group"].combine_chunks()).drop_null()
        self.figures: list[Figure] = []
        self._made: dict[str, tuple[str, Html]] = {}
        size = 0
        for group in data.groups.take(places.slice(0, GROUPS)).to_pylist():
            identity = f"group-{len(self._made) + 1}"
            named = group["group"]
            made = [_ownership(data, named, identity), _curves(data, named, identity)]
            figures = [each for each in made if each is not None]
            html = _panel(group, identity, figures, is_open=not self._made)
            size += len(html.encode()) + sum(len(json.dumps(each.data)) for each in figures)
            if size > PANELS_BYTES:
                break
            if figures:
                self.figures += figures
                self._made[named] = identity, html

    def link(self, group: str) -> str | None:
        """Return the anchor of a group's panel."""
        return f"#{self._made[group][0]}" if group in self._made else None

    def html(self) -> Html | None:
        """Return all panels, the first one open."""
        return Html("".join(html for _, html in self._made.values())) or None


def _panel(group: PageRow, identity: str, figures: Sequence[Figure], *, is_open: bool) -> Html:
    times = "of unknown duration"
    if group["not_stable_ms"] is not None:
        times = (
            f"not stable for {length(group['not_stable_ms'])} ({told('share', group['share'])} of "
        )
        times += f"the time), the longest {length(group['longest_ms'])}"
    inferred = "" if group["is_event"] else ", inferred"
    said = f"{count(group['rebalances'], 'rebalance')}, {times}, mostly {group['usual_cause']}"
    return fill(
        '<details class="group-panel"{}><summary><h3>{}</h3></summary>'
        '<div id="{}"><p class="quiet">{}</p>{}</div></details>',
        " open" if is_open else "",
        name(group["group"], 120),
        identity,
        f"{said}{inferred}.",
        [each.html() for each in figures],
    )


def _ownership(data: Data, group: str, identity: str) -> Figure | None:
    """Draw a row per partition, for the period with most gaps; None if nothing is known."""
    rows, shown, number = _intervals(data, group)
    if not rows:
        return None
    lost: dict[_Place, int] = defaultdict(int)
    for row in rows:
        lost[row["topic"], row["topic_partition"]] += row["gap_ms"]
    scale, owners = Scale(shown, WIDE), dict[str, tuple[int, str]]()
    lanes = _lanes(rows, scale, owners)
    whole = "all the time" if shown == data.shown else "the part with most time without an owner"
    left = f"the {len(lost)} with the longest gaps of " if number > len(lost) else ""
    more = [("none", f"and {count(len(owners) - OWNERS)} more")] if len(owners) > OWNERS else []
    return Figure(
        f"{identity}-owners",
        f"Who owned which partition, {period(shown)}",
        "Look for hatched columns: these partitions had no reader. If the letter changes after "
        "one, the partition moved.",
        f"One row a partition, {left}{count(number, 'partition')}; {whole}. Without an owner for "
        f"{length(sum(lost.values()))} of partition time, at the right that of each. Letters at "
        "the top are causes of rebalances. Time: UTC.",
        [
            ("rebalances", "no owner", {"bars": _causes(data, group, scale)}),
            *(
                (name("-".join(map(str, at)), 22), length(lost[at]), {"owners": lanes[at]})
                for at in sorted(lost)
            ),
        ],
        {
            **scale.axis,
            "owners": [cut(told, 48) for _, told in [*owners.values()][:OWNERS]],
            "legend": [("unowned", "no owner"), *more],
        },
        level="h4",
    )


def _intervals(data: Data, group: str) -> tuple[list[PageRow], TimeSpan, int]:
    """Return times with one owner or none, of the partitions with the longest gaps; the period
    shown; and the number of partitions. `gap_ms` is the time without an owner.
    """
    table = data.columns("ownership", _OWNED, group)
    if not len(table):
        return [], data.shown, 0
    until = pc.coalesce(data.within(table["until"]), pa.scalar(data.shown.end, pa.int64()))
    table = table.set_column(0, "topic", table["topic"].cast(pa.string()).fill_null(""))
    table = table.set_column(2, "from", data.within(table["from"])).set_column(3, "until", until)
    is_known = pc.and_(pc.is_valid(table["topic_partition"]), pc.less(table["from"], until))
    table = table.filter(is_known).sort_by("from")
    starts, ends = table["from"].to_numpy(), table["until"].to_numpy()
    is_gap = pc.invert(table["is_owned"].cast(pa.bool_()).fill_null(False)).to_numpy()
    shown = _shown_span(starts, ends, is_gap, data.shown)
    seen = np.minimum(ends, shown.end) - np.maximum(starts, shown.start)
    gaps = pa.array(np.where(is_gap, seen, 0), pa.int64())
    table = table.append_column("gap_ms", gaps).filter(pa.array(seen > 0))
    places = table.group_by(_PLACE).aggregate([("gap_ms", "sum")])
    order = [("gap_ms_sum", "descending"), *((each, "ascending") for each in _PLACE)]
    worst = places.sort_by(order).select(_PLACE).slice(0, ROWS)
    rows = table.join(worst, _PLACE, join_type="inner")
    rows = rows.sort_by([(each, "ascending") for each in ("from", *_PLACE)]).to_pylist()
    if len(rows) > INTERVALS:
        shown = TimeSpan(shown.start, rows[INTERVALS]["from"])
    return rows[:INTERVALS], shown, len(places)


def _shown_span(
    starts: _Numbers, ends: _Numbers, is_gap: npt.NDArray[np.bool_], span: TimeSpan
) -> TimeSpan:
    """The period with the largest sum of gaps, short enough to show them. `starts` rise."""
    first, long = starts[is_gap], (ends - starts)[is_gap]
    if not len(first):
        return span
    size = max(SEEN * int(np.sort(long)[len(long) // 2]), 2 * MINUTE)
    if size >= span.ms:
        return span
    sums = np.concatenate(([0], np.minimum(long, size).cumsum()))
    inside = sums[np.searchsorted(first, first + size)] - sums[:-1]
    begin = int(first[inside.argmax()]) - size // 20
    return TimeSpan(max(begin, span.start), begin + size)


def _causes(data: Data, group: str, scale: Scale) -> list[tuple[float, float, str, str]]:
    """Return bars with letters where rebalances began, as far as there is room."""
    rounds = data.rounds.filter(pc.equal(data.rounds["group"], group))
    found: dict[int, tuple[float, float, str, str]] = {}
    for at, family in zip(rounds["at"].to_pylist(), rounds["family"].to_pylist(), strict=True):
        if scale.shown.has(at):
            place = scale(at)
            found.setdefault(int(place) // 16, (place, place + 3, f"p{family}", NAMES[family][0]))
    return [*found.values()]


def _lanes(
    rows: Sequence[PageRow], scale: Scale, owners: dict[str, tuple[int, str]]
) -> dict[_Place, list[float]]:
    """Return place, owner, place, owner, ... of each partition. Fills `owners` with numbers, in
    order of appearance as on the live page, and names.
    """
    found: dict[_Place, list[float]] = defaultdict(list)
    ends: dict[_Place, int] = defaultdict(lambda: scale.shown.start)
    for row in rows:
        place = row["topic"], row["topic_partition"]
        start = max(row["from"], scale.shown.start)
        if ends[place] < start:
            found[place] += [scale(ends[place]), UNKNOWN]
        ends[place] = max(row["until"], ends[place])
        owner = NOBODY
        if row["is_owned"]:
            key = row["instance"] or row["member"] or "?"
            who = row["instance"] or short_id(row["member"] or "") or row["client_id"] or "?"
            told = f"{who} on {row['host']}" if row["host"] else str(who)
            owner, _ = owners.setdefault(key, (len(owners), told))
        found[place] += [scale(start), owner]
    for place, end in ends.items():
        if end < scale.shown.end:
            found[place] += [scale(end), UNKNOWN]
    return found


def _curves(data: Data, group: str, identity: str) -> Figure | None:
    """Draw commits and lag over time, below rebalances; None if both are unknown."""
    scale = binned(data.shown, POINTS)
    bands = [*_commits(data, group, scale), *_lag(data, group, scale)]
    if not bands:
        return None
    counts = counts_of(data.rounds, scale, [group])
    [line], _ = marks(counts)
    times = data.rounds.filter(pc.equal(data.rounds["group"], group))["at"].to_pylist()
    return Figure(
        f"{identity}-curves",
        "Commits and lag, with rebalances",
        "Look for what follows a rebalance: commits that stop, and lag that grows and takes long "
        "to come down.",
        f"One point per {step_name(scale.size)}. Marks at the top are rebalances, by cause. Time: "
        "UTC.",
        [("rebalances", count(len(times)), {"marks": line}), *bands],
        {
            **scale.axis,
            "rules": [*map(scale, times)] if len(times) <= RULES else [],
            "legend": legend(np.flatnonzero(counts.sum(axis=(0, 1)))),
        },
        level="h4",
    )


def _commits(data: Data, group: str, scale: Scale) -> list[LaneRow]:
    rows = data.columns("commit_minutes", ("minute", "commits"), group)
    at, is_known = _places(rows["minute"], data, scale)
    if not is_known.any():
        return []
    commits = rows["commits"].cast(pa.int64()).fill_null(0).to_numpy()[is_known]
    begins = data.within(rows["minute"]).fill_null(0).to_numpy()[is_known]
    rates = _spread(begins, commits, scale) * MINUTE / scale.size
    last = (min(int(begins.max()) + MINUTE, data.shown.end) - 1 - scale.shown.start) // scale.size
    line = [(place + 0.5, round(each, 3)) for place, each in enumerate(rates.tolist())]
    most = round(float(rates.max()), 1)
    lane = {"line": line[at[is_known].min() : last + 1], **up_to(most, count, 92)}
    return [("commits a minute, all partitions", f"at most {count(most)}", lane)]


def _spread(begins: _Numbers, commits: _Numbers, scale: Scale) -> npt.NDArray[np.float64]:
    """Return the commits in each step, from those of minutes, which have them all along: a step may
    be a part of a minute.
    """
    minutes, which = np.unique(begins, return_inverse=True)
    totals = np.cumsum(np.bincount(which, commits))
    times = np.column_stack([minutes, minutes + MINUTE]).ravel()
    reached = np.column_stack([np.concatenate([[0], totals[:-1]]), totals]).ravel()
    edges = scale.shown.start + scale.size * np.arange(scale.of + 1)
    return np.diff(np.interp(edges, times, reached))


def _lag(data: Data, group: str, scale: Scale) -> list[LaneRow]:
    """Draw lag in time; in records if no time is known."""
    rows = data.columns("lag", ("time", "lag", "lag_ms"), group)
    is_time = rows["lag_ms"].null_count < rows.num_rows
    amount = rows["lag_ms" if is_time else "lag"].cast(pa.int64())
    at, is_known = _places(rows["time"], data, scale)
    is_known &= amount.is_valid().to_numpy()
    if not is_known.any():
        return []
    most = np.full(scale.of, -1)
    np.maximum.at(most, at[is_known], amount.fill_null(0).to_numpy()[is_known])
    line = [(place + 0.5, each) for place, each in enumerate(most.tolist()) if each >= 0]
    highest, show = int(most.max()), length if is_time else count
    lane = {"line": line, **up_to(highest, show, 92)}
    unit = "time" if is_time else "records"
    return [(f"lag of the worst partition, {unit}", f"at most {show(highest)}", lane)]


def _places(
    times: pa.ChunkedArray, data: Data, scale: Scale
) -> tuple[_Numbers, npt.NDArray[np.bool_]]:
    """Return the step of each time, and whether it is in the period."""
    at = data.within(times).fill_null(0).to_numpy()
    return (at - scale.shown.start) // scale.size, (at >= data.shown.start) & (at <= data.shown.end)
