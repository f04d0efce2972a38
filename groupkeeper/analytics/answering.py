"""Answers all questions from the tables, replays the busiest groups under other settings, and
derives findings: sentences about what to look at first, with the setting to change.

A finding is made of one or more rows of an answer. Every number in its sentence is from these rows,
or from the advice that `groupkeeper why` gives about them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.questions.finders import FINDERS
from groupkeeper.analytics.questions.finding import (
    SEVERITIES,
    AnswerRow,
    Finding,
    agreed,
    as_one,
    asked_of,
)
from groupkeeper.analytics.questions.member_finders import HOLDS, RESTARTS
from groupkeeper.analytics.questions.question import EVIDENCE, SURE, VIEWS, Frame
from groupkeeper.analytics.questions.rebalance_finders import UNSTABLE
from groupkeeper.analytics.questions.registry import QUESTIONS, Local, OnSpark, engine_of, text
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.schemas import ENDS, INT, LONG, REAL, TABLES, TEXT, TIME, Column
from groupkeeper.analytics.store.tables import dataset_of, read_inside
from groupkeeper.analytics.what_if.question import WHAT_IF, what_if
from groupkeeper.why.texts import settings_in

_Tables = dict[str, pa.Table]
_Progress = Callable[[str, int, int], None]

WHAT_IF_MOST: Final = 100
"""Maximum number of groups replayed under other settings: those with the most rebalances."""
WHAT_IF_DRAWN: Final = 8
"""The same for a report alone, which draws six of them in each picture."""
SHOWN_MOST: Final = 60
"""Maximum number of groups whose owners, commits and lag a report receives; it draws ten."""
NOT_READ: Final = frozenset(TABLES) - {*VIEWS}
"""Tables that no question reads."""
LARGE: Final[tuple[str, ...]] = ("ownership", "commit_minutes", "lag")
"""Tables that may exceed memory; they are read from their files."""
_LASTS_UNTIL: Final = {"ownership": "until", "sessions": "until"}

DESCRIBED: Final = {**QUESTIONS, WHAT_IF.name: WHAT_IF}
"""All questions by name, including `what_if`."""

FINDINGS: Final = "findings"
"""Name of the answer with the findings."""
OFTEN: Final = 10.0
"""Rebalances per day from which a group is a finding, unless a storm has most of them."""
SKEWED: Final = 2.0
"""A member with this many times its fair share is a finding."""
BEHIND_MS: Final = 300_000
"""A lag of this age in ms at the end of the log is a finding."""
EAGER_MS: Final = 60_000
"""An eager group is a finding if rebalances left partitions unowned for this long, in ms."""
_USED: Final = (*FINDERS, "causes")
"""The answers that findings are derived from."""
_OFTEN: Final = f"per_day >= {OFTEN} and rounds >= {OFTEN}"
_IDLE: Final = "share > 0.5"
WORTH: Final[Mapping[str, str]] = {
    **dict.fromkeys(_USED, "true"),
    "barrier": f"held >= {HOLDS}",
    "returns": "kind = 'scaling'",
    "restart_gaps": f"restarts >= {RESTARTS}",
    "not_stable": f"share >= {UNSTABLE} or "
    f'"group" in (select "group" from idle_members where {_IDLE})',
    "rebalance_rate": _OFTEN,
    "causes": f'rank = 1 and "group" in (select "group" from rebalance_rate where {_OFTEN})',
    "idle_members": _IDLE,
    "skew": f"ratio >= {SKEWED} and partitions - fair > 1",
    "cooperative_or_eager": f"not is_cooperative and changes > 0 and unowned_ms >= {EAGER_MS}",
    "lag_seconds": f"now_ms >= {BEHIND_MS} and coalesce(is_subscribed, true)",
}
"""Question -> SQL condition for rows that can become findings; most rows are of normal
operation."""
COLUMNS: Final = (
    Column("id", TEXT, "Stable id: the same whenever the same problem is found again."),
    Column("severity", TEXT, "`critical`, `high`, `medium`, `low` or `info`."),
    Column("group", TEXT, "Group id; null if it concerns several groups."),
    Column("from", TIME, "Start of the occurrence in the sentence; null if unknown."),
    Column("to", TIME, "End of that occurrence; null if unknown."),
    Column("times", LONG, "Number of occurrences: rows of the answer that were merged into it."),
    Column("sentence", TEXT, "What was found and what to change, for a person."),
    Column("config_key", TEXT, "The setting to change; null if no setting helps."),
    Column("now", TEXT, "Its present value; null if unknown."),
    Column("proposed", TEXT, "The value to set."),
    Column("evidence", pa.list_(LONG), f"Log offsets of the evidence, the first {EVIDENCE}."),
    Column("partition", INT, "Partition of the log that holds the evidence."),
    Column("question", TEXT, "The question that it answers (docs/analytics-questions.md)."),
    Column("cost_s", REAL, "Total cost in partition-seconds; null if unknown."),
    *SURE,
)
SCHEMA: Final = pa.schema([(each.name, each.type) for each in COLUMNS])


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection of rows: rows of `groups` (None: all) and rows without a group, except those that
    ended before `since_ms` (epoch milliseconds). Coverage is cut to begin no earlier.
    """

    groups: Sequence[str] | None = None
    since_ms: int | None = None
    ends: pa.Table = field(default_factory=ENDS.schema.empty_table, compare=False)
    """Table `log_ends`, which is in no folder."""

    def of(self, name: str, rows: str) -> str:
        """Return a query for the selected rows of table `name`, read from the relation `rows`."""
        conditions, replaced = ["true"], ""
        if self.since_ms is not None:
            replaced = self._replaced(name)
            time = "until" if name == "coverage" else _LASTS_UNTIL.get(name, VIEWS[name].day_of)
            if name not in ("coverage", ENDS.name):
                conditions.append(f'coalesce(epoch_ms("{time}") >= {self.since_ms}, true)')
        if self.groups is not None and "group" in VIEWS[name].schema.names:
            names = ", ".join(map(text, self.groups)) or "null"
            conditions.append(f'"group" in ({names})')
        columns = ", ".join(f'"{each}"' for each in VIEWS[name].schema.names)
        chosen = f"select {columns} from {rows} where {' and '.join(conditions)}"
        return f"select * {replaced} from ({chosen})"

    def _replaced(self, name: str) -> str:
        """Cut rows at `since_ms` as if earlier records had not been read, so that rates refer to
        the selected time, and an absence that began before does not count.
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
class AskedTables:
    """The input of the questions: small tables as selected, and queries for the large ones."""

    small: _Tables
    large: Mapping[str, str]
    found: Mapping[str, dataset.Dataset]

    def shown(self, found: _Tables) -> _Tables:
        """Return the tables for a report, with the answers. Large tables are limited to groups that
        have findings or rebalance most.
        """
        names = dict.fromkeys(found["findings"].column("group").drop_null().to_pylist())
        names |= dict.fromkeys(_busiest(self.small, SHOWN_MOST))
        wanted = Chosen([*names][:SHOWN_MOST])
        with Local(self.large, None, self.found) as local:
            large = {name: local.rows(name, wanted.of(name, f"given_{name}")) for name in LARGE}
        return self.small | large | found

    def not_known(self) -> list[str]:
        """Return one sentence for each matter the tables cannot answer, with the reason."""
        with Local(self.large, None, self.found) as local:
            first = local.rows("commit_minutes", "select * from given_commit_minutes limit 1")
            if not len(first) or len(local.rows("lag", "select * from given_lag limit 1")):
                return []
        folder = f"{first['topic'][0]}-{first['topic_partition'][0]}"
        sentence = (
            f"Lag is unknown: the folders of the topics' partitions, such as {folder}, are not "
            "beside those of the log (over the wire they are not read), or lack the times of their "
            "records."
        )
        return [sentence]


def ask(
    folder: AnyPath,
    chosen: Chosen,
    engine: Engine,
    threads: int | None,
    progress: _Progress,
    replayed_most: int = WHAT_IF_MOST,
) -> tuple[AskedTables, _Tables]:
    """Read the selected tables of a folder and answer all questions. Raises AnalyticsError."""
    progress("tables", 0, 1)
    stored = VIEWS.keys() - {ENDS.name}
    found = {name: dataset_of(folder, name, chosen.since_ms) for name in VIEWS if name in stored}
    found[ENDS.name] = dataset.dataset(chosen.ends)
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
            wanted = proposed_by(answers[FINDINGS])
            replays = replays_of(local, _busiest(small, replayed_most), wanted)
    replayed = []
    progress(WHAT_IF.title, 0, len(replays))
    for done, each in enumerate(engine.map(replay, replays), 1):
        replayed.append(each)
        progress(WHAT_IF.title, done, len(replays))
    told = pa.concat_tables([WHAT_IF.schema.empty_table(), *replayed])
    return AskedTables(small, large, found), {**answers, WHAT_IF.name: told}


def _relation(name: str, rows: dataset.Dataset) -> str:
    """Return the relation of a query: DuckDB's own reader of local Parquet takes half the time."""
    paths = getattr(rows, "files", [])
    if paths and paths[0].endswith(".parquet") and isinstance(rows.filesystem, LocalFileSystem):
        return f"read_parquet([{', '.join(map(text, paths))}])"
    return f"files_{name}"


@contextmanager
def _readable(found: Mapping[str, dataset.Dataset]) -> Iterator[None]:
    """Raise AnalyticsError, naming the file, if a file read in this context is broken."""
    import duckdb  # not needed for answers on Spark

    with read_inside(found.values()):
        try:
            yield
        except duckdb.Error as error:
            raise ValueError(str(error).partition("\n")[0]) from error


_Replay = tuple[str, Any, Mapping[str, Iterable[int]]]
"""Group, its rows, and the values that findings propose."""


def replays_of(
    local: Local, groups: Sequence[str], wanted: Mapping[str, Mapping[str, Iterable[int]]]
) -> list[_Replay]:
    """Return work items of `replay`, sorted by group. The other questions must have been asked."""
    rows = local.rows_of(sorted(WHAT_IF.sources), groups)
    return [(group, rows[group], wanted.get(group, {})) for group in sorted(rows)]


def proposed_by(findings: pa.Table) -> dict[str, dict[str, set[int]]]:
    """Return group -> setting -> the values in ms that findings propose."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in findings.select(["group", "config_key", "proposed", "sentence"]).to_pylist():
        text = f"{row['sentence']} {row['config_key']}={row['proposed']}"
        for key, value in settings_in(text):
            found[row["group"]][key].add(value)
    return {group: dict(settings) for group, settings in found.items()}


def replay(item: _Replay) -> pa.Table:
    """Return the results of one group; runs in a worker."""
    rows = [*what_if(*item)]
    columns = {each.name: [row[each.name] for row in rows] for each in WHAT_IF.columns}
    return WHAT_IF.table(pa.table(columns))


def _busiest(tables: Mapping[str, pa.Table], most: int) -> list[str]:
    counts = pc.value_counts(tables["rounds"].column("group")).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    return [each["values"] for each in counts[:most]]


# -- answers and findings ------------------------------------------------------------------------


def answers(tables: Mapping[str, Frame]) -> dict[str, Frame]:
    """Return the `findings` and the answers to all questions by name: DataFrames if any table is
    one, else Arrow tables.

    `tables` are those of an analysis, with all columns; absent ones count as empty. On Spark, only
    answers that yield findings are computed, and cached; findings are made on the driver from the
    few rows they may need.
    """
    with engine_of(tables) as engine:
        return answers_of(engine)


def answers_of(
    engine: Local | OnSpark, told: Callable[[int], None] = lambda done: None
) -> dict[str, Frame]:
    """See `answers`. `told` is called with the number of answers computed so far."""
    found = engine.ask_all([*QUESTIONS.values()], told)
    few = {name: engine.few(QUESTIONS[name], condition) for name, condition in WORTH.items()}
    return {FINDINGS: engine.frame(findings_of(few)), **found}


def findings_of(answered: Mapping[str, pa.Table]) -> pa.Table:
    """Return the findings of all answers, by severity; within one severity, the most expensive
    finding of each question before all second ones.
    """
    rows = {name: _rows(answered[name]) for name in _USED if name in answered}
    found: dict[_Identity, list[Finding]] = defaultdict(list)
    for name, find in FINDERS.items():
        for each in find(rows) if name in rows else ():
            found[_identity(name, each)].append(each)
    asked = asked_of(chain(*found.values()))
    told = {
        identity: agreed(as_one(alike), asked[identity[1]]) for identity, alike in found.items()
    }
    listed = [_listed(*each) for each in _ordered(told.items())]
    columns = [
        pa.array(
            [row.get(each.name) for row in listed], pa.int64() if each.type == TIME else each.type
        ).cast(each.type)
        for each in COLUMNS
    ]
    return pa.table(columns, SCHEMA)


def _rows(table: pa.Table) -> list[AnswerRow]:
    columns = [
        table[each.name].cast(pa.int64() if each.type == TIME else each.type).to_pylist()
        for each in table.schema
    ]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


_Identity = tuple[str, str | None, str, str | None, str | None]
"""Question, group, source, setting and kind: identical for recurrences of one finding."""
_Told = tuple[_Identity, Finding]


def _identity(question: str, each: Finding) -> _Identity:
    setting = each.setting.get("config_key")
    return question, each.row.get("group"), each.row["source"], setting, each.kind


def _ordered(found: Iterable[_Told]) -> list[_Told]:
    """Sort findings so that the first ones include the worst of each question."""
    ranks: Counter[tuple[str, str]] = Counter()
    placed: list[tuple[int, int, int]] = []
    told = sorted(found, key=lambda item: _place(item[1]))
    for number, ((question, *_), each) in enumerate(told):
        placed.append((SEVERITIES.index(each.severity), ranks[each.severity, question], number))
        ranks[each.severity, question] += 1
    return [told[number] for *_, number in sorted(placed)]


def _place(each: Finding) -> tuple[float, int, int]:
    return -(each.cost_s or 0.0), -each.times, each.row.get("from") or 0


def _listed(identity: _Identity, each: Finding) -> AnswerRow:
    row, question = each.row, identity[0]
    return {
        **{name: row.get(name) for name in ("group", "from", "partition", "evidence")},
        **{column.name: row[column.name] for column in SURE},
        "id": f"{question}-{sha256(repr(identity).encode()).hexdigest()[:10]}",
        "severity": each.severity,
        "to": row.get("until"),
        "times": each.times,
        "sentence": each.sentence,
        "question": question,
        "cost_s": each.cost_s,
        **each.setting,
    }
