"""What the same time would have been with other settings: a curve or a pair of bars a group."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.bars import Bar, bars
from groupkeeper.analytics.page.data import Data, Row
from groupkeeper.analytics.page.markup import Html, cut, joined, tag
from groupkeeper.analytics.page.svg import Figure, Scale, box, curve, label, line, picture, short
from groupkeeper.analytics.page.times import amounts, brief, count, durations, length

SCENARIOS: Final = 8
GROUPS: Final = 6
"""In a picture: those with the most rebalances today."""
COLUMNS: Final = (
    *("scenario", "group", "setting", "value", "rounds", "rounds_avoided", "not_stable_ms"),
    *("detection_ms", "is_today", "assumption", "recorded_rounds", "replayed_rounds"),
)
FAR_OFF: Final = 0.25
"""A replay that is off by a larger share of the recorded rebalances, and by more than one, says
little about its group.
"""
_TOP: Final = 30
_TALL: Final = 210
Lines = dict[str, list[Row]]


def what_if(data: Data) -> list[Figure]:
    """One figure a scenario: curves where a setting varies, else bars beside those as it was."""
    before: dict[str, Row] = {}
    scenarios: dict[tuple[str, str | None], Lines] = defaultdict(lambda: defaultdict(list))
    for row in data.rows("what_if", COLUMNS):
        group = row["group"] or "all groups"
        if row["rounds"] is None:
            continue
        if row["value"] is None and row["is_today"]:
            before[group] = row
        elif row["value"] is not None or row["setting"] is None:
            scenarios[row["scenario"] or "", row["setting"]][group].append(row)
    figures = []
    for number, ((scenario, setting), lines) in enumerate(scenarios.items(), 1):
        name, shown = f"what-if-{number}", _worst(lines)
        if setting is not None:
            figures.append(_curves(name, scenario, setting, shown))
        elif pairs := [
            (group, before[group], shown[group][0]) for group in shown if group in before
        ]:
            figures.append(_pairs(name, scenario, pairs))
    return figures[:SCENARIOS]


def _worst(lines: Lines) -> Lines:
    """Of the groups with the most rebalances, by value."""
    worst = sorted(lines, key=lambda group: -max(row["rounds"] for row in lines[group]))
    return {
        group: sorted(lines[group], key=lambda row: row["value"] or 0) for group in worst[:GROUPS]
    }


def today(rows: Sequence[Row]) -> Row | None:
    """The row with the setting of today: it says so."""
    return next((row for row in rows if row["is_today"]), None)


def _assumed(rows: Iterable[Row]) -> str:
    told = dict.fromkeys(row["assumption"] for row in rows if row["assumption"])
    return f" Assumed: {' '.join(told)}" if told else ""


def _far_off(lines: Lines) -> str:
    """Of groups whose replay as it was is not what was recorded."""
    told = []
    for group, rows in lines.items():
        recorded, replayed = rows[0]["recorded_rounds"], rows[0]["replayed_rounds"]
        if recorded is None or replayed is None:
            continue
        if abs(replayed - recorded) > max(1, FAR_OFF * recorded):
            told.append(
                f" The replay of {cut(group, 40)} as it was gives {count(replayed, 'rebalance')} "
                f"where {count(recorded)} {'was' if recorded == 1 else 'were'} recorded: what is "
                "shown says little about it."
            )
    return "".join(told)


def _pairs(name: str, scenario: str, pairs: Sequence[tuple[str, Row, Row]]) -> Figure:
    """As it was and otherwise, as two bars a group."""
    rows: list[Bar] = []
    for group, was, row in pairs:
        rows.append(Bar(f"{group}, as it was", [("p7", was["rounds"])], _words(was)))
        rows.append(Bar(f"with {scenario}", [("k-new", row["rounds"])], _words(row)))
    drawn, height = bars(rows)
    says = "; ".join(f"{each.label}: {each.words}" for each in rows)
    return Figure(
        name,
        f"What if: {scenario}",
        "Look for a second bar that is much shorter than the first.",
        f"Unit: rebalances of the same time, replayed.{_assumed(row for _, _, row in pairs)}"
        f"{_far_off({group: [row] for group, _, row in pairs})}",
        picture(name, height, says, drawn),
    )


def _words(row: Row) -> str:
    return f"{count(row['rounds'], 'rebalance')}, not stable {length(row['not_stable_ms'])}"


@dataclass(frozen=True, slots=True)
class _Plot:
    """One of the two plots: values of a setting across, at even distances, and a column up."""

    start: float
    end: float
    title: str
    column: str
    axis: Sequence[float]
    show: Callable[[float], str]

    def up(self, amount: float) -> float:
        return Scale(0, self.axis[-1], _TOP + _TALL, _TOP)(amount)

    def across(self, place: int, places: int) -> float:
        return Scale(0, max(places - 1, 1), self.start, self.end)(place)

    def axes(self, values: Sequence[str]) -> Html:
        every = max(1, len(values) // 8)
        return joined(
            [
                label(self.start, 14, self.title, "small strong"),
                [
                    [
                        line(self.start, self.up(each), self.end, self.up(each), "grid"),
                        label(self.start - 6, self.up(each) + 4, self.show(each), "end small"),
                    ]
                    for each in self.axis
                ],
                [
                    label(self.across(at, len(values)), _TOP + _TALL + 16, words, "middle small")
                    for at, words in enumerate(values)
                    if at % every == 0
                ],
            ]
        )

    def lines(self, lines: Lines, values: Sequence[float]) -> Html:
        places = {value: at for at, value in enumerate(values)}
        return joined(self._line(rows, places, f"o{at}") for at, rows in enumerate(lines.values()))

    def _line(self, rows: Sequence[Row], places: dict[float, int], look: str) -> Html:
        points = [
            (self.across(places[row["value"]], len(places)), self.up(row[self.column]), row)
            for row in rows
            if row[self.column] is not None
        ]
        now = today(rows)
        rings = [
            tag("circle", cx=short(x), cy=short(y), r=6, class_="frame")
            for x, y, row in points
            if row is now
        ]
        return joined([curve([(x, y) for x, y, _ in points], f"line {look}"), rings])


def _curves(name: str, scenario: str, setting: str, lines: Lines) -> Figure:
    every = [row for rows in lines.values() for row in rows]
    values = sorted({row["value"] for row in every})
    most = max(row["rounds"] for row in every)
    slowest = max((row["detection_ms"] or 0 for row in every), default=0)
    rounds = _Plot(60, 480, "Rebalances", "rounds", amounts(most), brief)
    plots = [rounds]
    if slowest:
        words = "Time until a lost member is noticed"
        plots.append(_Plot(730, 1080, words, "detection_ms", durations(slowest), length))
    shown = [length(each) if setting.endswith(".ms") else brief(each) for each in values]
    told = [
        f"{group}: {count(max(row['rounds'] for row in rows))} to "
        f"{count(min(row['rounds'] for row in rows), 'rebalance')}"
        for group, rows in lines.items()
    ]
    drawn = [[each.axes(shown), each.lines(lines, values)] for each in plots]
    height = _TOP + _TALL + 26
    return Figure(
        name,
        f"What if: {scenario} ({setting})",
        "Look for the place where a curve becomes flat: a value beyond it only costs time until a "
        "lost member is noticed.",
        f"Across: {setting}. A ring is the setting of today. The same time, replayed."
        f"{_assumed(every)}{_far_off(lines)}",
        picture(name, height, "; ".join(told), drawn, _names(lines, rounds)),
    )


def _names(lines: Lines, plot: _Plot) -> list[Html]:
    """Of the curves, at their ends, one below the other."""
    found: list[Html] = []
    ends = [
        (plot.up(rows[-1]["rounds"]), at, group) for at, (group, rows) in enumerate(lines.items())
    ]
    last = 0.0
    for y, at, group in sorted(ends):
        last = max(y + 4, last + 15)
        found.append(box(plot.end + 10, last - 9, 10, 10, f"fill{at}"))
        found.append(label(plot.end + 26, last, cut(group, 22), "small"))
    return found
