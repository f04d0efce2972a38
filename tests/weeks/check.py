"""Compares what an analysis answers with what really happened: precision and recall per question.

    python -m tests.weeks.check DIR

DIR is what `python -m tests.weeks --out DIR` made. Rows of an answer and rows that are expected are
matched by the columns of `RULES`; numbers have to agree within the tolerance that is said there.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from tests.weeks import expected, truth
from tests.weeks.analysed import asked_of
from tests.weeks.expected import Row, Truth

SECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """Two rows are the same if `same` columns are equal, and numbers of `near`, unless the truth
    has none, differ by at most so much, or by that share if it is below 1. `names` are columns of
    the answer that the truth names differently.
    """

    same: tuple[str, ...]
    near: Mapping[str, float]
    names: Mapping[str, str]
    expected: Callable[[Truth], list[Row]]
    overlaps: bool = False
    """Times from `from` to `until` have to overlap instead."""
    sums: tuple[str, ...] = ()
    """Columns that are added up over rows of the answer that are else the same."""


def _rule(
    same: str, near: dict[str, float], expected: Callable[[Truth], list[Row]], **how: Any
) -> Rule:
    names = how.pop("names", {})
    return Rule(tuple(same.split()), near, names, expected, **how)


RULES: Final[Mapping[str, Rule]] = {
    "rounds": _rule(
        "group cause client_id outcome members",
        {"from": SECOND, "duration_ms": SECOND, "generation": 0},
        expected.rounds,
        names={"from": "started", "client_id": "by_client_id"},
    ),
    "rebalance_rate": _rule(
        "group rounds completed",
        {"from": SECOND, "until": SECOND, "per_day": 0.001},
        expected.rebalance_rate,
    ),
    "not_stable": _rule(
        "group", {"unowned_s": 0.01, "not_stable_ms": 0.01, "share": 0.01}, expected.not_stable
    ),
    "timeline": _rule("group from cause rounds", {}, expected.timeline, names={"from": "hour"}),
    "causes": _rule("group cause rounds", {}, expected.causes, sums=("rounds",)),
    "causes_by_software": _rule(
        "software cause rounds", {}, expected.causes_by_software, sums=("rounds",)
    ),
    "causes_by_host": _rule("host cause rounds", {}, expected.causes_by_host, sums=("rounds",)),
    "storms": _rule("group count", {"from": SECOND}, expected.storms, names={"count": "rounds"}),
    "cooperative_or_eager": _rule(
        "group protocol rounds changes", {}, expected.cooperative_or_eager
    ),
    "barrier": _rule("group client_id held", {"held_ms": 0.02}, expected.barrier),
    "flapping": _rule(
        "group client_id count", {"from": SECOND}, expected.flapping, names={"count": "changes"}
    ),
    "restarts": _rule("group member", {"away_ms": SECOND}, expected.restarts),
    "restart_gaps": _rule(
        "group restarts outages static session_timeout_ms",
        {"median_ms": SECOND, "p95_ms": SECOND, "longest_ms": SECOND},
        expected.restart_gaps,
    ),
    "zombies": _rule("group member refused refused_commits", {}, expected.zombies),
    "refused_commits": _rule(
        "group member refused", {}, expected.refused_commits, sums=("refused",)
    ),
    "duels": _rule("group instance replacements", {"from": SECOND}, expected.duels),
    "idle_members": _rule("group member", {"idle_ms": 0.05}, expected.idle_members),
    "skew": _rule("group member", {"ratio": 0.02}, expected.skew),
    "commit_rhythm": _rule(
        "group partition commits",
        {},
        expected.commit_rhythm,
        names={"partition": "topic_partition"},
    ),
    "commit_silence": _rule("group client_id", {}, expected.commit_silence, overlaps=True),
    "rhythm_steps": _rule(
        "group partition",
        {"from": 2 * 3600 * SECOND},
        expected.rhythm_steps,
        names={"partition": "topic_partition", "from": "at"},
    ),
    "split_brain": _rule("log", {}, expected.split_brain),
}
"""Question, or table -> how its rows are compared with the truth."""

_ENDED: Final = {"until": "ended"}
INFERRED: Final[Mapping[str, Rule]] = {
    "rounds": _rule("group generation", {"until": SECOND}, expected.completed, names=_ENDED),
    "causes": _rule("group generation cause", {"until": SECOND}, expected.completed, names=_ENDED),
    "restarts": _rule("group member", {}, expected.inferred_restarts),
    "storms": _rule("group", {}, expected.storms, overlaps=True),
    "flapping": _rule("group client_id", {}, expected.flapping, overlaps=True),
    "commit_rhythm": RULES["commit_rhythm"],
    "commit_silence": RULES["commit_silence"],
    "rhythm_steps": RULES["rhythm_steps"],
    "idle_members": _rule("group member", {"idle_ms": 0.1}, expected.idle_members),
}
"""The same without events, where it can be known at all."""


@dataclass(frozen=True, slots=True)
class Score:
    """How many rows were expected and found; `missed` and `wrong` are those without a partner."""

    expected: int
    found: int
    missed: list[Row]
    wrong: list[Row]

    @property
    def precision(self) -> float:
        return 1 - len(self.wrong) / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return 1 - len(self.missed) / self.expected if self.expected else 1.0


def check(tables: Mapping[str, pa.Table], what: Truth) -> dict[str, Score]:
    """Question -> its score. `tables` are those of an analysis with events, and its answers."""
    returned = tables["sessions"].filter(pc.is_valid(tables["sessions"]["away_ms"]))
    found = {**tables, "restarts": returned}
    return {
        name: score(rule, rule.expected(what), _rows(rule, found[name]))
        for name, rule in RULES.items()
    }


def check_inferred(tables: Mapping[str, pa.Table], what: Truth) -> dict[str, Score]:
    """The same for an analysis of the offsets log alone. A cause that it calls unknown is missed,
    and not wrong.
    """
    rounds, sessions = tables["rounds"], tables["sessions"]
    done = rounds.filter(pc.equal(rounds["outcome"], "completed"))
    found = {
        **tables,
        "rounds": done,
        "causes": done.filter(pc.not_equal(done["cause"], "unknown")),
        "restarts": sessions.filter(pc.is_valid(sessions["away_ms"])),
    }
    return {
        name: score(rule, rule.expected(what), _rows(rule, found[name]))
        for name, rule in INFERRED.items()
    }


def score(rule: Rule, wanted: list[Row], found: list[Row]) -> Score:
    """Match each found row with one that is expected and not taken yet."""
    left: dict[Any, list[Row]] = {}
    for row in wanted:
        left.setdefault(tuple(row[each] for each in rule.same), []).append(row)
    wrong, told = [], set()
    for row in found:
        some = left.get(tuple(row[each] for each in rule.same), [])
        partner = next(
            (each for each in some if _thing(each) not in told and _is_near(rule, each, row)), None
        )
        if partner is None:
            wrong.append(row)
        else:
            told.add(_thing(partner))
    needed = {_thing(row): row for row in wanted if not row.get(expected.MAYBE)}
    missed = [row for thing, row in needed.items() if thing not in told]
    return Score(len(needed), len(found), missed, wrong)


def _thing(row: Row) -> Any:
    """What a row is about: itself, or else one of several rows has to be answered."""
    return row.get(expected.ONE_OF, id(row))


def _is_near(rule: Rule, one: Row, other: Row) -> bool:
    if rule.overlaps:
        return bool(one["from"] <= other["until"] and other["from"] <= one["until"])
    return all(_are_near(one[name], other[name], most) for name, most in rule.near.items())


def _are_near(one: float | None, other: float | None, most: float) -> bool:
    if one is None or other is None:
        return one is None
    return abs(one - other) <= (most if most >= 1 else most * max(abs(one), abs(other)))


def _rows(rule: Rule, answer: pa.Table) -> list[Row]:
    """The columns that are compared, with times as Unix milliseconds."""
    wanted = [*rule.same, *rule.near, *(("from", "until") if rule.overlaps else ())]
    columns = {}
    for name in dict.fromkeys(wanted):
        column = answer[rule.names.get(name, name)]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        columns[name] = column.to_pylist()
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return _summed(rows, rule.sums) if rule.sums else rows


def _summed(rows: list[Row], sums: tuple[str, ...]) -> list[Row]:
    found: dict[Any, Row] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name not in sums)
        whole = found.setdefault(key, row | dict.fromkeys(sums, 0))
        for name in sums:
            whole[name] += row[name]
    return list(found.values())


def main(arguments: list[str]) -> int:
    """0 if every question is answered exactly, or well enough from the offsets log alone."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.weeks.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="what `python -m tests.weeks` made")
    parser.add_argument("--plain", action="store_true", help="from the offsets log alone")
    options = parser.parse_args(arguments)
    what = truth.read(options.folder)
    tables = asked_of(options.folder / "data", events=not options.plain)
    scores = check_inferred(tables, what) if options.plain else check(tables, what)
    _show(scores)
    least = 0.9 if options.plain else 1.0
    return 0 if all(min(each.precision, each.recall) >= least for each in scores.values()) else 1


def _show(scores: Mapping[str, Score]) -> None:
    table = Table("question", "expected", "found", "precision", "recall")
    for name, each in scores.items():
        figures = f"{each.expected}", f"{each.found}", f"{each.precision:.3f}", f"{each.recall:.3f}"
        table.add_row(name, *figures)
    console = Console(width=120)
    console.print(table)
    for name, each in scores.items():
        for kind, rows in (("missed", each.missed), ("wrong", each.wrong)):
            for row in rows[:5]:
                console.print(f"{name} {kind}: {row}", highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
