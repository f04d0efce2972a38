"""From the tables in a folder to answers: all questions, and what other settings would have done to
the groups that rebalance most.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.questions.question import VIEWS
from groupkeeper.analytics.questions.registry import QUESTIONS, Local, answers_of, text
from groupkeeper.analytics.reading.files import Place
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.store.tables import dataset_of, read_inside
from groupkeeper.analytics.what_if.scenarios import WHAT_IF, what_if

Tables = dict[str, pa.Table]
Progress = Callable[[str, int, int], None]

WHAT_IF_MOST: Final = 100
"""Groups that are replayed under other settings: those with the most rebalances."""
SHOWN_MOST: Final = 60
"""Groups whose owners, commits and lag a report is given: it draws ten."""
NOT_READ: Final = frozenset(TABLES) - {*VIEWS}
"""Tables that no question reads."""
LARGE: Final[tuple[str, ...]] = ("ownership", "commit_minutes", "lag")
"""Tables that may not fit into memory: they are read from their files."""
_LASTS_UNTIL: Final = {"ownership": "until", "sessions": "until"}

DESCRIBED: Final = {**QUESTIONS, WHAT_IF.name: WHAT_IF}
"""All questions, by name."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows of the tables count: those of `groups`, unless that is None, and those about no
    group, but for what was over before `since_ms` (epoch milliseconds). What was read then begins
    there, too.
    """

    groups: Sequence[str] | None = None
    since_ms: int | None = None

    def of(self, name: str, rows: str) -> str:
        """The query that gives these rows of a table; `rows` is a relation."""
        conditions, replaced = ["true"], ""
        if self.since_ms is not None:
            replaced = self._replaced(name)
            time = "until" if name == "coverage" else _LASTS_UNTIL.get(name, TABLES[name].day_of)
            if name != "coverage":
                conditions.append(f'coalesce(epoch_ms("{time}") >= {self.since_ms}, true)')
        if self.groups is not None and "group" in TABLES[name].schema.names:
            names = ", ".join(map(text, self.groups)) or "null"
            conditions.append(f'"group" in ({names})')
        columns = ", ".join(f'"{each}"' for each in TABLES[name].schema.names)
        chosen = f"select {columns} from {rows} where {' and '.join(conditions)}"
        return f"select * {replaced} from ({chosen})"

    def _replaced(self, name: str) -> str:
        """As if nothing from before had been read: rates are those of the time that was chosen, and
        whose client came back before that was not away since then.
        """
        is_before = f'coalesce(epoch_ms("from") < {self.since_ms}, {name == "coverage"})'
        if name == "sessions":
            return f"replace (case when not {is_before} then away_ms end as away_ms)"
        if name != "coverage":
            return ""
        since = f"to_timestamp({(self.since_ms or 0) / 1000})"
        begin = f"case when {is_before} then least({since}, until) else"
        return (
            f'replace ({begin} "from" end as "from", {begin} known_from end as known_from, '
            f"case when not {is_before} then known_from_offset end as known_from_offset)"
        )


@dataclass(frozen=True, slots=True)
class History:
    """What was asked: the small tables as they are chosen, and queries that give the large ones."""

    small: Tables
    large: Mapping[str, str]
    found: Mapping[str, dataset.Dataset]

    def shown(self, found: Tables) -> Tables:
        """What a report is given with the answers: the large tables only of groups that have
        findings or rebalance most.
        """
        names = dict.fromkeys(found["findings"].column("group").drop_null().to_pylist())
        names |= dict.fromkeys(_busiest(self.small, SHOWN_MOST))
        wanted = Chosen([*names][:SHOWN_MOST])
        with Local(self.large, None, self.found) as local:
            large = {name: local.rows(name, wanted.of(name, f"given_{name}")) for name in LARGE}
        return self.small | large | found

    def not_known(self) -> list[str]:
        """What the tables say nothing about, and why: one sentence each."""
        with Local(self.large, None, self.found) as local:
            first = local.rows("commit_minutes", "select * from given_commit_minutes limit 1")
            if not len(first) or len(local.rows("lag", "select * from given_lag limit 1")):
                return []
        folder = f"{first['topic'][0]}-{first['topic_partition'][0]}"
        sentence = (
            f"Lag is not known: the folders of the topics' partitions, such as {folder}, are not "
            "beside those of the log (over the wire they are not read), or do not tell when their "
            "records were written."
        )
        return [sentence]


def ask(
    folder: Place, chosen: Chosen, engine: Engine, threads: int | None, progress: Progress
) -> tuple[History, Tables]:
    """The tables in a folder as far as they are chosen, and the answers to all questions. Raises
    AnalyticsError.
    """
    progress("tables", 0, 1)
    found = {name: dataset_of(folder, name, chosen.since_ms) for name in VIEWS}
    queries = {name: chosen.of(name, _relation(name, rows)) for name, rows in found.items()}
    with _readable(found):
        with Local(queries, threads, found) as local:
            small = {
                name: local.rows(name, f"select * from given_{name}")
                for name in VIEWS
                if name not in LARGE
            }
        large = {name: queries[name] for name in LARGE}
        progress("tables", 1, 1)
        with Local({**small, **large}, threads, found) as local:
            answers = answers_of(local, lambda done: progress("questions", done, len(QUESTIONS)))
            replays = replays_of(local, _busiest(small, WHAT_IF_MOST))
    replayed = []
    progress(WHAT_IF.title, 0, len(replays))
    for done, each in enumerate(engine.map(replay, replays), 1):
        replayed.append(each)
        progress(WHAT_IF.title, done, len(replays))
    told = pa.concat_tables([WHAT_IF.schema.empty_table(), *replayed])
    return History(small, large, found), {**answers, WHAT_IF.name: told}


def _relation(name: str, rows: dataset.Dataset) -> str:
    """What a query reads: DuckDB reads local Parquet by itself, in half of the time."""
    paths = getattr(rows, "files", [])
    if paths and paths[0].endswith(".parquet") and isinstance(rows.filesystem, LocalFileSystem):
        return f"read_parquet([{', '.join(map(text, paths))}])"
    return f"files_{name}"


@contextmanager
def _readable(found: Mapping[str, dataset.Dataset]) -> Iterator[None]:
    """Raises AnalyticsError, which names the file, if one that is read inside is broken."""
    with read_inside(found.values()):
        try:
            yield
        except duckdb.Error as error:
            raise ValueError(str(error).partition("\n")[0]) from error


def replays_of(local: Local, groups: Sequence[str]) -> list[tuple[str, Any]]:
    """Groups with their rows, in the order of groups: work items of `replay`."""
    rows = local.rows_of(WHAT_IF.reads, groups)
    return [(group, rows[group]) for group in sorted(rows)]


def replay(item: tuple[str, Any]) -> pa.Table:
    """In a worker: the results of one group."""
    rows = [*what_if(*item)]
    columns = {each.name: [row[each.name] for row in rows] for each in WHAT_IF.columns}
    return WHAT_IF.table(pa.table(columns))


def _busiest(tables: Mapping[str, pa.Table], most: int) -> list[str]:
    counts = pc.value_counts(tables["rounds"].column("group")).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    return [each["values"] for each in counts[:most]]
