"""All questions, by name, and how they are asked: one of them, or all at once.

ask("storms", {"rounds": table})             # a pyarrow.Table -> a pyarrow.Table, by DuckDB
ask("storms", {"rounds": frame}, least=10)   # a DataFrame of Spark -> a DataFrame, by Spark SQL
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.libraries import QUERIES, check_libraries
from groupkeeper.analytics.questions.findings import WORTH, findings_of
from groupkeeper.analytics.questions.question import Frame, Question, Tables, question
from groupkeeper.analytics.schemas import TABLES

if TYPE_CHECKING:
    from groupkeeper.analytics.questions.local import Local
    from groupkeeper.analytics.questions.spark import OnSpark

_NAMES: Final = (
    *("rebalance_rate", "timeline", "not_stable"),
    *("causes", "causes_by_software", "causes_by_host"),
    *("storms", "barrier", "cooperative_or_eager", "flapping", "zombies", "duels"),
    *("refused_commits", "idle_members", "skew", "restart_gaps"),
    *("commit_silence", "rhythm_steps", "commit_rhythm", "lag_seconds", "split_brain"),
)
QUESTIONS: Final[Mapping[str, Question]] = {name: question(name) for name in _NAMES}
FINDINGS: Final = "findings"
"""The answer that tells what to look at first."""


def ask(name: str, tables: Tables, **parameters: float) -> Frame:
    """The answer to one question: a DataFrame if a table is one, else a pyarrow.Table. Tables that
    are left out are empty. AnalyticsError if a table lacks a column, or a parameter is unknown.
    """
    asked = QUESTIONS[name]
    unknown = sorted(parameters.keys() - asked.parameters.keys())
    if unknown:
        known = ", ".join(asked.parameters) or "none"
        raise AnalyticsError(f"{name} has no parameter {unknown[0]} (it has: {known})")
    given = {each: tables[each] for each in (*asked.reads, "coverage") if each in tables}
    for each in asked.reads:
        has = _columns(given[each]) if each in given else TABLES[each].schema.names
        missing = [column for column in TABLES[each].schema.names if column not in has]
        if missing:
            raise AnalyticsError(
                f"{name} needs the column {missing[0]} of the table {each}"
                " (docs/analytics-tables.md)"
            )
    with _engine(given) as engine:
        for each in asked.sources & QUESTIONS.keys():
            engine.ask(QUESTIONS[each], parameters)
        return engine.ask(asked, parameters)


def _columns(frame: Frame) -> list[str]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def answers(tables: Tables) -> dict[str, Frame]:
    """The `findings`, and the answers to all questions by name: DataFrames if a table is one, else
    Arrow tables. `tables` are those of an analysis, with all columns; one that is left out is
    empty. On Spark only answers that findings are made of are computed, and they are cached;
    findings are made on the driver, of the few rows that they may need.
    """
    with _engine(tables) as engine:
        return answers_of(engine)


def answers_of(
    engine: "Local | OnSpark", told: Callable[[int], None] = lambda done: None
) -> dict[str, Frame]:
    """See `answers`. `told` is called with the number of answers that are there."""
    found = {}
    for done, (name, asked) in enumerate(QUESTIONS.items(), 1):
        found[name] = engine.ask(asked)
        told(done)
    few = {name: engine.few(QUESTIONS[name], condition) for name, condition in WORTH.items()}
    return {FINDINGS: engine.frame(findings_of(few)), **found}


@contextmanager
def _engine(tables: Tables) -> "Iterator[Local | OnSpark]":
    frames = [each for each in tables.values() if not isinstance(each, pa.Table)]
    if frames:
        from groupkeeper.analytics.questions.spark import OnSpark

        yield OnSpark(frames[0].sparkSession, tables)
        return
    check_libraries(QUERIES)
    from groupkeeper.analytics.questions.local import Local

    with Local(tables) as local:
        yield local
