"""All questions, by name, and how all of them are asked at once."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from groupkeeper.analytics.libraries import QUERIES, check_libraries
from groupkeeper.analytics.questions.findings import WORTH, findings_of
from groupkeeper.analytics.questions.of_commits import COMMITS
from groupkeeper.analytics.questions.of_members import MEMBERS
from groupkeeper.analytics.questions.of_rebalances import REBALANCES
from groupkeeper.analytics.questions.question import Frame, Parameters, Question, Tables

if TYPE_CHECKING:
    from groupkeeper.analytics.questions.local import Local
    from groupkeeper.analytics.questions.spark import OnSpark

QUESTIONS: Final[Mapping[str, Question]] = {
    each.name: each for each in (*REBALANCES, *MEMBERS, *COMMITS)
}
FINDINGS: Final = "findings"
"""The answer that tells what to look at first."""


def ask(asked: Question, tables: Tables, parameters: Parameters) -> Frame:
    """One answer; see Question."""
    with _engine(tables) as engine:
        for name in asked.sources & QUESTIONS.keys():
            engine.ask(QUESTIONS[name], parameters)
        return engine.ask(asked, parameters)


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
