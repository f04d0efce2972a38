"""Figures of the same period replayed with other settings: a line for each group."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from groupkeeper.analytics.page.data import Data, PageRow
from groupkeeper.analytics.page.markup import Figure, LaneRow, cut, name, up_to
from groupkeeper.analytics.page.times import count, length
from groupkeeper.analytics.what_if.scenarios import AS_IT_WAS

SCENARIOS: Final = 16
GROUPS: Final = 6
"""Maximum number of groups in a picture: those with the most rebalances."""
COLUMNS: Final = (
    *("scenario", "group", "setting", "value", "rounds", "not_stable_ms", "detection_ms"),
    *("is_today", "assumption", "unread_ms", "matches", "recorded_rounds", "replayed_rounds"),
    *("recorded_not_stable_ms", "recorded_unread_ms", "reserved_ms", "moved"),
)
_Lines = dict[str, list[tuple[str, PageRow]]]
"""Group -> settings in words, with rows."""


def what_if(data: Data) -> list[Figure]:
    """Return a figure per scenario. If no setting varies, lines begin with recorded settings. A
    group whose replay does not match the log is in none of them, but named.
    """
    every = data.rows("what_if", COLUMNS)
    near = [row for row in every if row["matches"] is not False and row["rounds"] is not None]
    off = [row for row in every if row["matches"] is False and row["scenario"] == AS_IT_WAS]
    before, scenarios = _scenarios(sorted(near, key=lambda row: row["value"] or 0))
    figures = []
    for number, ((scenario, setting), some) in enumerate([*scenarios.items()][:SCENARIOS], 1):
        worst = sorted(some, key=lambda group: -max(row["rounds"] for _, row in some[group]))
        lines = {each: some[each] for each in worst[:GROUPS]}
        if setting is None:
            lines = {each: before[each] + rows[:1] for each, rows in lines.items()}
        title = f"{scenario} ({setting})" if setting else scenario
        figures.append(_figure(f"what-if-{number}", title, lines))
    told = "".join(map(_off, off[:GROUPS]))
    if not off:
        return figures
    if not figures:
        return [Figure("what-if-1", "What if", "No replay is near enough to the log.", told, [])]
    return [replace(each, told=each.told + told) for each in figures]


def _scenarios(rows: Iterable[PageRow]) -> tuple[_Lines, dict[tuple[str, str | None], _Lines]]:
    """Return the lines as it was, and those of each scenario and setting."""
    before: _Lines = defaultdict(list)
    scenarios: dict[tuple[str, str | None], _Lines] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        group, value, setting = row["group"] or "all groups", row["value"], row["setting"]
        if value is None and row["is_today"]:
            before[group] = [("as it was", row)]
        elif value is not None or setting is None:
            told = row["scenario"] if value is None else count(value)
            told = length(value) if (setting or "").endswith(".ms") else told
            scenarios[row["scenario"] or "", setting][group].append((told, row))
    return before, scenarios


def _off(row: PageRow) -> str:
    """Return how the replay of a group deviates from the log."""
    recorded = row["recorded_rounds"] or 0
    told = (
        f" {cut(row['group'] or '', 40)} is left out: replayed as it was, it has "
        f"{count(row['rounds'], 'rebalance')} where {count(recorded)} "
        f"{'was' if recorded == 1 else 'were'} recorded"
    )
    for column, words in (("not_stable_ms", "not stable"), ("unread_ms", "of partitions unread")):
        replayed, recorded = row[column], row[f"recorded_{column}"]
        if replayed is not None and recorded is not None:
            told += f", {length(replayed)} {words} where it was {length(recorded)}"
    return f"{told}."


def _figure(identity: str, title: str, lines: _Lines) -> Figure:
    every = sorted((each for rows in lines.values() for each in rows), key=_value)
    places = {told: at + 0.5 for at, told in enumerate(dict.fromkeys(told for told, _ in every))}
    rows: list[LaneRow] = []
    for group, some in lines.items():
        line = [(places[told], row["rounds"]) for told, row in some]
        today = [(places[told], row["rounds"]) for told, row in some if row["is_today"]]
        axis = up_to(max(rounds for _, rounds in line), count, 64)
        rows.append((name(group), _words(some), {"line": line, "rings": today, **axis}))
    slowest = {places[told]: row["detection_ms"] for told, row in every if row["detection_ms"]}
    if len({*slowest.values()}) > 1:
        least, most = (edge(slowest.values()) for edge in (min, max))
        lane = {"line": [*slowest.items()], **up_to(most, length, 64)}
        rows.append(("until a lost member is noticed", f"{length(least)} to {length(most)}", lane))
    return Figure(
        identity,
        f"What if: {title}",
        "Look for fewer rebalances that do not cost more partition-seconds unread: a value beyond "
        "the place where a line becomes flat only costs time until a lost member is noticed.",
        "Rebalances of the same time, replayed. Each line has a scale of its own; a ring is the "
        f"setting of today.{_assumed(lines)}",
        rows,
        {"of": len(places), "ticks": [(at, told) for told, at in places.items()]},
        "bars",
    )


def _value(each: tuple[str, PageRow]) -> int:
    return int(each[1]["value"] or not each[1]["is_today"])


def _words(some: list[tuple[str, PageRow]]) -> str:
    """Describe the fewest rebalances, and the present setting."""
    least = min(some, key=lambda each: each[1]["rounds"])
    shown = [each for each in some if each[1]["is_today"] or each is least]
    return "; ".join(
        f"{'today' if row['is_today'] else 'least'} ({told}): {count(row['rounds'], 'rebalance')}, "
        f"not stable {length(row['not_stable_ms'])}{_unread(row)}"
        for told, row in shown
    )


def _unread(row: PageRow) -> str:
    unread, reserved, moved = row["unread_ms"], row["reserved_ms"], row["moved"]
    told = "" if unread is None else f", {count(round(unread / 1000))} partition-seconds unread"
    told += f" ({count(round(reserved / 1000))} in kept places)" if reserved else ""
    return told if moved is None else f"{told}, {count(moved, 'partition')} moved"


def _assumed(lines: _Lines) -> str:
    """Return the assumptions."""
    assumed = dict.fromkeys(row["assumption"] for rows in lines.values() for _, row in rows)
    return f" Assumed: {' '.join(filter(None, assumed))}" if any(assumed) else ""
