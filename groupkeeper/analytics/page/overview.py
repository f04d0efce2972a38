"""Rebalances over time: of all groups as columns, of the worst as one line each; and their cost."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.page.data import NAMES, Data, PageRow, legend
from groupkeeper.analytics.page.findings import CARDS, within
from groupkeeper.analytics.page.markup import (
    Figure,
    Lane,
    LaneRow,
    PageLink,
    Scale,
    linked,
    name,
    up_to,
)
from groupkeeper.analytics.page.times import SECOND, TimeSpan, count, floor, step, step_name, told

WORST: Final = 40
"""Maximum number of groups in the timeline; others are only in the table."""
BINS: Final = 180
"""Maximum number of steps of a time axis: at least four pixels each, to show textures."""
FLAGS: Final = 8
"""Maximum number of findings below the columns, each about at most `LONGEST` of the time."""
LONGEST: Final = 0.5
_Counts = npt.NDArray[np.int64]


def binned(shown: TimeSpan, most: int = BINS) -> Scale:
    """Return the axis of a period in round steps."""
    size = max(step(shown.ms, most), SECOND)
    start = floor(shown.start, size)
    steps = (shown.end - start) // size + 1
    return Scale(TimeSpan(start, start + steps * size), steps)


def counts_of(
    rounds: pa.Table, scale: Scale, groups: Sequence[str], column: str | None = None
) -> _Counts:
    """Return rebalances by group, step and family, or sums of a column; totals without groups."""
    found = np.zeros((max(len(groups), 1), scale.of, len(NAMES)), dtype=np.int64)
    rows = np.zeros(len(rounds), dtype=np.int64)
    if groups:
        places = pc.index_in(rounds["group"], pa.array(groups))
        rounds, rows = rounds.filter(pc.is_valid(places)), places.drop_null().to_numpy()
    at = (rounds["at"].to_numpy() - scale.shown.start) * scale.of // scale.shown.ms
    amounts = rounds[column].fill_null(0).to_numpy() if column else 1
    np.add.at(found, (rows, at, rounds["family"].to_numpy()), amounts)
    return found


def marks(counts: _Counts) -> tuple[list[str], tuple[int, int]]:
    """Return a letter for each step of each row, which encodes the most frequent cause and the
    height; and the upper limits of "few" and "some".
    """
    sums = counts.sum(axis=2)
    few, some = (max(least, round(sums.max() ** (least / 3))) for least in (1, 2))
    codes = counts.argmax(axis=2) + len(NAMES) * ((sums > few).astype(int) + (sums > some))
    letters = np.where(sums > 0, ord("a") + codes, ord(".")).astype(np.uint8)
    return [row.tobytes().decode("ascii") for row in letters], (few, some)


def rate(data: Data, findings: Sequence[PageRow]) -> Figure:
    """Draw rebalances per step, by cause, with loads of coordinators, and findings."""
    scale = binned(data.shown)
    [counts] = counts_of(data.rounds, scale, ())
    tops = counts.cumsum(axis=1)
    most, causes = int(tops[:, -1].max()), counts.sum(axis=0)
    columns = [
        (at, at + 0.9, f"p{cause}", int(tops[at, cause] - counts[at, cause]), int(tops[at, cause]))
        for at, cause in np.argwhere(counts).tolist()
    ]
    per = step_name(scale.size)
    highest = f"at most {count(most)} in {per if per[0].isdigit() else f'one {per}'}"
    lane = {"columns": columns, **up_to(most, count, 200)}
    rows: list[LaneRow] = [(f"rebalances per {per}", highest, lane)]
    loads = {row["loaded"] for row in data.rows("epochs", ["loaded"])}
    places = sorted({int(scale(at)) for at in loads if data.shown.has(at)})
    if places:
        bars = [(at, at, "loaded", "▽") for at in places]
        rows.append(("coordinator loaded", count(len(bars), "time"), {"bars": bars}))
    told = ", ".join(
        f"{NAMES[at][2:]} {count(int(causes[at]))}" for at in np.argsort(-causes) if causes[at]
    )
    return Figure(
        "rate",
        f"Rebalances per {per}, by cause",
        "Look for towers: many rebalances at once have one cause, such as a deployment or a "
        "coordinator that restarted; a low steady band is one group that never settles.",
        f"{count(len(data.rounds), 'rebalance')} of {count(len(data.groups), 'group')}; {highest}. "
        f"By cause: {told}. Time: UTC.",
        rows + _flags(data, findings, scale),
        {**scale.axis, "legend": legend(data.rounds["family"].to_pylist())},
    )


def _flags(data: Data, findings: Sequence[PageRow], scale: Scale) -> list[LaneRow]:
    """Return rows that mark the times of findings."""
    rows: list[LaneRow] = []
    for number, row in enumerate(findings[:CARDS], 1):
        part = within(row, data.shown)
        if part.ms <= LONGEST * data.shown.ms and len(rows) < FLAGS:
            bar = scale(part.start), scale(part.end), f"flag {row['severity']}"
            place = linked(f"finding {number}", f"#finding-{number}")
            rows.append((place, name(row["group"] or "several groups"), {"bars": [bar]}))
    return rows


def timeline(data: Data, link: PageLink) -> Figure:
    """Draw one line per group."""
    shown, scale = data.groups.slice(0, WORST).to_pylist(), binned(data.shown)
    counts = counts_of(data.rounds, scale, [each["group"] for each in shown])
    lines, (few, some) = marks(counts)
    rest = len(data.groups) - len(shown)
    more = f" {count(rest, 'other group')}: see the table of groups." if rest else ""
    return Figure(
        "timeline",
        f"When groups rebalanced{': those that did so most, or longest' if rest else ''}",
        "Look for columns, which are moments that hit many groups, and for rows without gaps, "
        "which are groups that never rest.",
        f"One mark per {step_name(scale.size)} with rebalances, in the colour of their usual "
        f"cause: low for 1{f' to {few}' if few > 1 else ''}, middle up to {some}, full for more. "
        f"At the right: rebalances, and their usual cause. Time: UTC.{more}",
        [
            (
                linked(each["group"], link(each["group"])),
                f"{count(each['rebalances'])}, {each['usual_cause']}",
                {"marks": line},
            )
            for each, line in zip(shown, lines, strict=True)
        ],
        {**scale.axis, "legend": legend(np.flatnonzero(counts.sum(axis=(0, 1))).tolist())},
    )


ROWS: Final = 15


def not_stable(data: Data, link: PageLink) -> Figure | None:
    """Draw the groups that were not stable for the longest, by cause."""
    worst = [each for each in data.groups.slice(0, ROWS).to_pylist() if each["not_stable_ms"]]
    if not worst:
        return None
    names, whole = [each["group"] for each in worst], TimeSpan(data.shown.start, data.shown.end + 1)
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


def _words(template: str, row: PageRow) -> str:
    """Fill columns named in braces into the template."""
    columns = re.findall(r"\{(\w+)\}", template)
    return template.format(**{each: told(each, row[each]) for each in columns})


def _bars(*parts: tuple[str, float]) -> Lane:
    """Return styles with amounts as adjacent bars."""
    ends = [sum(amount for _, amount in parts[:at]) for at in range(len(parts) + 1)]
    return {
        "bars": [(ends[at], ends[at + 1], look) for at, (look, part) in enumerate(parts) if part]
    }
