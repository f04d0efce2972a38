"""From the tables of an analysis to answers: all questions, and what other settings would have done
to the groups that rebalance most.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.export import rows_of
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.questions.registry import QUESTIONS, answers
from groupkeeper.analytics.request import Choice
from groupkeeper.analytics.store.tables import read_days
from groupkeeper.analytics.what_if.scenarios import what_if

Tables = dict[str, pa.Table]
Progress = Callable[[str, int, int], None]

WHAT_IF_MOST: Final = 100
"""Groups that are replayed under other settings: those with the most rebalances."""
SHOWN_MOST: Final = 60
"""Groups whose owners, commits and lag a report is given: it draws ten."""
NOT_READ: Final = frozenset({"events", "commits", "assignments", "snapshots"})
"""Tables that no question reads."""
_LARGE: Final = ("ownership", "commit_minutes", "lag")
_LASTS_UNTIL: Final = {"ownership": "until", "sessions": "until"}

DESCRIBED: Final = {**QUESTIONS, what_if.name: what_if}
"""All questions, by name."""


def since(tables: Tables, since_ms: int | None) -> Tables:
    """Without rows that were over before (epoch milliseconds)."""
    if since_ms is None:
        return tables
    found = {"coverage": tables["coverage"]}
    for name in tables.keys() - found.keys():
        time = tables[name].column(_LASTS_UNTIL.get(name, TABLES[name].day_of))
        is_later = pc.greater_equal(time, pa.scalar(since_ms, time.type))
        found[name] = tables[name].filter(pc.or_(is_later.fill_null(True), time.is_null()))
    return found


def of_groups(tables: Tables, groups: Sequence[str] | None) -> Tables:
    """Only rows of these groups, and those about no group; None: all."""
    if groups is None:
        return tables
    wanted = pa.array(groups, pa.string())
    return {
        name: rows_of(table, wanted) if "group" in table.column_names else table
        for name, table in tables.items()
    }


def ask(
    folder: Path, choice: Choice, top: Sequence[str] | None, engine: Engine, progress: Progress
) -> tuple[Tables, Tables]:
    """The tables in a folder as far as they are chosen, and the answers to all questions. `top`:
    only these groups, if it is not None.
    """
    progress("questions", 0, 1)
    names = [name for name in TABLES if name not in NOT_READ]
    read = read_days(folder, choice.since_ms, names)
    tables = of_groups(since(read, choice.since_ms), top)
    found = answers(tables)
    progress("questions", 1, 1)
    found[what_if.name] = _replayed(tables, engine, progress)
    return tables, found


def shown(tables: Tables, found: Tables) -> Tables:
    """What a report is given: the large tables only of groups that have findings or rebalance
    most.
    """
    names = dict.fromkeys(found["findings"].column("group").drop_null().to_pylist())
    names |= dict.fromkeys(_busiest(tables, SHOWN_MOST))
    few = of_groups({name: tables[name] for name in _LARGE}, [*names][:SHOWN_MOST])
    return tables | few | found


def not_known(tables: Tables) -> list[str]:
    """What these tables say nothing about, and why: one sentence each."""
    minutes, lag = tables.get("commit_minutes"), tables.get("lag")
    if not minutes or lag:
        return []
    [first] = minutes.slice(0, 1).to_pylist()
    folder = f"{first['topic']}-{first['topic_partition']}"
    sentence = (
        f"Lag is not known: the folders of the topics' partitions, such as {folder}, are not "
        "beside those of the log, or do not tell when their records were written."
    )
    return [sentence]


def _busiest(tables: Tables, most: int) -> list[str]:
    counts = pc.value_counts(tables["rounds"].column("group")).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    return [each["values"] for each in counts[:most]]


def _replayed(tables: Tables, engine: Engine, progress: Progress) -> pa.Table:
    """In the order of groups; each group is a work item."""
    groups = sorted(_busiest(tables, WHAT_IF_MOST))
    items = [*_of_each(tables, groups)]
    progress(what_if.title, 0, len(items))
    parts = []
    for done, rows in enumerate(engine.map(_replay, items), 1):
        parts.append(rows)
        progress(what_if.title, done, len(items))
    return pa.concat_tables([what_if.schema.empty_table(), *parts])


def _of_each(tables: Tables, groups: Sequence[str]) -> Iterator[dict[str, Any]]:
    read = {name: tables[name] for name in (*what_if.reads, "coverage")}
    for group in groups:
        yield of_groups(read, [group])


def _replay(tables: Tables) -> pa.Table:
    found: pa.Table = what_if(tables)
    return found
