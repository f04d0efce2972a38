"""From the tables of an analysis to answers: all questions, and what other settings would have done
to the groups that rebalance most.

The tables are cut by groups into slices, which are the work items of an engine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.export import rows_of
from groupkeeper.analytics.history.schemas import TABLES, TIME
from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.questions.registry import (
    OF_GROUPS,
    QUESTIONS,
    answers_to,
    with_findings,
)
from groupkeeper.analytics.reading.files import Place
from groupkeeper.analytics.store.slices import SLICE_ROWS, Slices, cut, read_slice
from groupkeeper.analytics.store.tables import dataset_of, read_inside
from groupkeeper.analytics.what_if.scenarios import what_if

Result = TypeVar("Result")
Tables = dict[str, pa.Table]
Progress = Callable[[str, int, int], None]

WHAT_IF_MOST: Final = 100
"""Groups that are replayed under other settings: those with the most rebalances."""
SHOWN_MOST: Final = 60
"""Groups whose owners, commits and lag a report is given: it draws ten."""
NOT_READ: Final = frozenset({"events", "commits", "assignments", "snapshots"})
"""Tables that no question reads."""
LARGE: Final = ("ownership", "commit_minutes", "lag")
"""Tables that may not fit into memory: only slices of them are read."""
_OF_GROUPS: Final = tuple(
    name for name, each in TABLES.items() if "group" in each.schema.names and name not in NOT_READ
)
_SMALL: Final = tuple(name for name in TABLES if name not in NOT_READ and name not in LARGE)
_LASTS_UNTIL: Final = {"ownership": "until", "sessions": "until"}

DESCRIBED: Final = {**QUESTIONS, what_if.name: what_if}
"""All questions, by name."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows of the tables count: those of `groups`, unless that is None, and those about no
    group, but for what was over before `since_ms` (epoch milliseconds). What was read then begins
    there, too.
    """

    groups: Sequence[str] | None = None
    since_ms: int | None = None

    def __call__(self, name: str, rows: pa.Table) -> pa.Table:
        """These of some rows of a table."""
        if self.since_ms is not None and name == "coverage":
            rows = _known_since(rows, self.since_ms)
        elif self.since_ms is not None:
            time = rows.column(_LASTS_UNTIL.get(name, TABLES[name].day_of))
            is_later = pc.greater_equal(time, pa.scalar(self.since_ms, time.type))
            rows = rows.filter(pc.or_(is_later.fill_null(True), time.is_null()))
            rows = _not_back_before(rows, self.since_ms) if name == "sessions" else rows
        if self.groups is None or "group" not in rows.column_names:
            return rows
        return rows_of(rows, pa.array(self.groups, pa.string()))


def _known_since(coverage: pa.Table, since_ms: int) -> pa.Table:
    """As if nothing from before had been read: rates are those of the time that was chosen."""
    is_cut = pc.less(coverage["from"], pa.scalar(since_ms, TIME)).fill_null(True)
    begin = pc.min_element_wise(since_ms, coverage["until"].cast(pa.int64())).cast(TIME)
    for name, now in (("from", begin), ("known_from", begin), ("known_from_offset", None)):
        at = coverage.column_names.index(name)
        values = coverage[name]
        found = pc.if_else(is_cut, pa.scalar(None, values.type) if now is None else now, values)
        coverage = coverage.set_column(at, name, found)
    return coverage


def _not_back_before(sessions: pa.Table, since_ms: int) -> pa.Table:
    """Whose client came back before that was not away since then."""
    is_later = pc.greater_equal(sessions["from"], pa.scalar(since_ms, TIME)).fill_null(True)
    away = pc.if_else(is_later, sessions["away_ms"], pa.scalar(None, pa.int64()))
    return sessions.set_column(sessions.column_names.index("away_ms"), "away_ms", away)


@dataclass(frozen=True, slots=True)
class History:
    """What was asked: the small tables as they are chosen, and all that have groups in slices,
    which are files.
    """

    small: Tables
    slices: Slices

    def shown(self, found: Tables) -> Tables:
        """What a report is given with the answers: the large tables only of groups that have
        findings or rebalance most.
        """
        names = dict.fromkeys(found["findings"].column("group").drop_null().to_pylist())
        names |= dict.fromkeys(_busiest(self.small, SHOWN_MOST))
        wanted = Chosen([*names][:SHOWN_MOST])
        parts = {name: [TABLES[name].schema.empty_table()] for name in LARGE}
        for folder in self.slices.of_groups(wanted.groups or ()):
            for name in LARGE:  # one at a time: all of them may not fit into memory
                parts[name].append(wanted(name, read_slice(folder, [name])[name]))
        return self.small | {name: pa.concat_tables(parts[name]) for name in LARGE} | found

    def not_known(self) -> list[str]:
        """What the tables say nothing about, and why: one sentence each."""
        if not self.slices.rows["commit_minutes"] or self.slices.rows["lag"]:
            return []
        [first] = self.slices.first("commit_minutes").to_pylist()
        folder = f"{first['topic']}-{first['topic_partition']}"
        sentence = (
            f"Lag is not known: the folders of the topics' partitions, such as {folder}, are not "
            "beside those of the log, or do not tell when their records were written."
        )
        return [sentence]


def ask(
    folder: Place,
    chosen: Chosen,
    engine: Engine,
    scratch: Path,
    progress: Progress,
    most_rows: int = SLICE_ROWS,
) -> tuple[History, Tables]:
    """The tables in a folder as far as they are chosen, and the answers to all questions. `scratch`
    is a folder that all workers can reach; the history is in there, in slices of about `most_rows`
    rows. Raises AnalyticsError.
    """
    progress("tables", 0, 1)
    found = {name: dataset_of(folder, name, chosen.since_ms) for name in (*_SMALL, *LARGE)}
    with read_inside(found.values()):
        small = {name: chosen(name, found[name].to_table()) for name in _SMALL}
        replays = _replays(small)
        replaying = engine.map(_replay, replays)  # while this process cuts
        slices = cut({name: found[name] for name in _OF_GROUPS}, chosen, scratch, most_rows)
    answered = answers_to([name for name in QUESTIONS if name not in OF_GROUPS], small)
    progress("tables", 1, 1)
    replayed = _watched(what_if.title, replaying, len(replays), progress)
    parts = _of_slices(slices, small["coverage"], engine, progress)
    answered |= {name: _in_order(part[name] for part in parts) for name in OF_GROUPS}
    told = pa.concat_tables([what_if.schema.empty_table(), *replayed])
    return History(small, slices), {**with_findings(answered), what_if.name: told}


def _watched(
    stage: str, results: Iterator[Result], number: int, progress: Progress
) -> list[Result]:
    """All results, with progress."""
    found = []
    progress(stage, 0, number)
    for done, each in enumerate(results, 1):
        found.append(each)
        progress(stage, done, number)
    return found


def _of_slices(
    slices: Slices, coverage: pa.Table, engine: Engine, progress: Progress
) -> list[Tables]:
    items = [(folder, coverage) for folder in slices.folders]
    return _watched("questions", engine.map(_asked, items), len(items), progress)


def _asked(item: tuple[str, pa.Table]) -> Tables:
    """In a worker: the answers of a slice."""
    folder, coverage = item
    tables = read_slice(folder, _OF_GROUPS)
    return answers_to(OF_GROUPS, {**tables, "coverage": coverage})


def _in_order(parts: Iterable[pa.Table]) -> pa.Table:
    """By group; each group is in one part."""
    table = pa.concat_tables(parts)
    return table.take(pc.sort_indices(table["group"].fill_null("")))  # stable


def _replays(small: Tables) -> list[Tables]:
    """In the order of groups; each group is a work item."""
    read = {name: small[name] for name in (*what_if.reads, "coverage")}
    return [
        {name: only(name, rows) for name, rows in read.items()}
        for only in (Chosen([group]) for group in sorted(_busiest(small, WHAT_IF_MOST)))
    ]


def _replay(tables: Tables) -> pa.Table:
    """In a worker: the results of one group."""
    found: pa.Table = what_if(tables)
    return found


def _busiest(tables: Mapping[str, pa.Table], most: int) -> list[str]:
    counts = pc.value_counts(tables["rounds"].column("group")).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    return [each["values"] for each in counts[:most]]
