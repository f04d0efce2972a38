"""Figures of the same period replayed with other settings: a line for each group."""

from collections import defaultdict
from typing import Final

from groupkeeper.analytics.page.data import Data, PageRow
from groupkeeper.analytics.page.markup import Figure, LaneRow, cut, name, up_to
from groupkeeper.analytics.page.times import count, length

SCENARIOS: Final = 8
GROUPS: Final = 6
"""Maximum number of groups in a picture: those with the most rebalances."""
COLUMNS: Final = (
    *("scenario", "group", "setting", "value", "rounds", "not_stable_ms", "detection_ms"),
    *("is_today", "assumption", "recorded_rounds", "replayed_rounds"),
)
FAR_OFF: Final = 0.25
"""If a replay deviates from the recorded rebalances by more than this share, and by more than one,
it is not reliable for its group."""
_Lines = dict[str, list[tuple[str, PageRow]]]
"""Group -> settings in words, with rows."""


def what_if(data: Data) -> list[Figure]:
    """Return a figure per scenario. If no setting varies, lines begin with recorded settings."""
    before: _Lines = defaultdict(list)
    scenarios: dict[tuple[str, str | None], _Lines] = defaultdict(lambda: defaultdict(list))
    for row in sorted(data.rows("what_if", COLUMNS), key=lambda row: row["value"] or 0):
        group, value, setting = row["group"] or "all groups", row["value"], row["setting"]
        if row["rounds"] is None:
            continue
        if value is None and row["is_today"]:
            before[group] = [("as it was", row)]
        elif value is not None or setting is None:
            told = row["scenario"] if value is None else count(value)
            told = length(value) if (setting or "").endswith(".ms") else told
            scenarios[row["scenario"] or "", setting][group].append((told, row))
    figures = []
    for number, ((scenario, setting), every) in enumerate([*scenarios.items()][:SCENARIOS], 1):
        worst = sorted(every, key=lambda group: -max(row["rounds"] for _, row in every[group]))
        lines = {each: every[each] for each in worst[:GROUPS]}
        if setting is None:
            lines = {each: before[each] + rows[:1] for each, rows in lines.items()}
        title = f"{scenario} ({setting})" if setting else scenario
        figures.append(_figure(f"what-if-{number}", title, lines))
    return figures


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
        "Look for the place where a line becomes flat: a value beyond it only costs time until a "
        "lost member is noticed.",
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
        f"not stable {length(row['not_stable_ms'])}"
        for told, row in shown
    )


def _assumed(lines: _Lines) -> str:
    """Return the assumptions, and the groups for which the replay deviates from the recording."""
    assumed = dict.fromkeys(row["assumption"] for rows in lines.values() for _, row in rows)
    told = f" Assumed: {' '.join(filter(None, assumed))}" if any(assumed) else ""
    for group, [(_, row), *_] in lines.items():
        recorded, replayed = row["recorded_rounds"], row["replayed_rounds"]
        if recorded is None or replayed is None:
            continue
        if abs(replayed - recorded) > max(1, FAR_OFF * recorded):
            told += (
                f" The replay of {cut(group, 40)} as it was gives {count(replayed, 'rebalance')} "
                f"where {count(recorded)} {'was' if recorded == 1 else 'were'} recorded: the "
                "picture is not reliable for it."
            )
    return told
