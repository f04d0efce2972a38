"""Writes docs/analytics-questions.md from the registry of questions; `--check` only compares."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from generate_tables import NAMES
from generated import run

from groupkeeper.analytics.answering import COLUMNS, DESCRIBED
from groupkeeper.analytics.questions.question import SURE, Question
from groupkeeper.analytics.schemas import Column

SOURCE = "../groupkeeper/analytics/questions"
PAGE = Path(__file__).with_name("analytics-questions.md")

HEAD = """\
# Questions of an analysis

*Generated from `groupkeeper/analytics/questions/` by `make docs`; edit there.*

What `groupkeeper analyze` answers from [its tables](analytics-tables.md), for those who read or
query the answers. Each question is a text of SQL, which DuckDB runs over Arrow tables and Spark
over its DataFrames; the answer is of the same kind:

```python
from groupkeeper.analytics.questions.registry import ask

names = ("rounds", "sessions", "coverage")
tables = {name: spark.read.parquet(f"analysis/{name}") for name in names}
ask("storms", tables).show()
ask("storms", tables, least=10, within_ms=300_000).show()
```

`answers(tables)` of `groupkeeper.analytics.answering` asks all of them, and gives the findings,
too. Tables that are left out are empty; without `coverage` all rows are taken as known.

To change a question, copy its text. Texts read views of the tables, in which times are Unix
milliseconds; `prepare` makes them, and names of parameters (`:least`) are replaced by numbers:

```python
import duckdb
from groupkeeper.analytics.questions.registry import prepare

connection = duckdb.connect()
names = ("rounds", "coverage")
prepare(connection, {name: f"from 'analysis/{name}/*/*.parquet'" for name in names})
connection.sql("select cause, count(*) from rounds where known_from is null group by cause").show()
```

In Spark SQL names in double quotes need `set spark.sql.ansi.doubleQuotedIdentifiers = true`.

Times are UTC; columns that end in `_ms` are milliseconds, those that end in `_s` seconds, and
shares are 0 to 1. Every answer ends with these columns:
"""
KNOWN = """
What was over before `known_from` of its partition of the log (table `coverage`) is left out: what
was compacted away cannot be told from what never happened. Questions that need events have no
answer from a plain `__consumer_offsets`; that says nothing, not that all is well.

"""
FINDINGS = """
## findings

What to look at first, made of the answers below: the worst first, and of those that are as bad
what cost most, of each question in turn. A sentence names the number to change, by the same rules
as `groupkeeper why`. What happens to a group again and again is one finding, which says how often:
it tells the time whose setting is enough for the others.
"""


def page() -> str:
    lines = [HEAD, *_columns(SURE), KNOWN, *_contents(), FINDINGS, *_columns(COLUMNS[: -len(SURE)])]
    for each in DESCRIBED.values():
        lines += _question(each)
    return "".join(lines)


def _contents() -> Iterator[str]:
    yield "| answer | title | reads |\n|---|---|---|\n"
    for each in DESCRIBED.values():
        others = (name for name in DESCRIBED if name in each.sources)
        reads = ", ".join((*each.reads, *others))
        yield f"| [{each.name}](#{each.name}) | {each.title} | {reads} |\n"


def _question(asked: Question) -> Iterator[str]:
    yield f"\n## {asked.name}\n\n*{asked.title}.* {asked.meaning}\n\n{asked.definition}\n"
    if asked.sql:
        yield f"\n[{asked.name}.sql]({SOURCE}/{asked.name}.sql)\n"
    if asked.parameters:
        told = ", ".join(f"`{name}={value}`" for name, value in asked.parameters.items())
        yield f"\nParameters: {told}.\n"
    yield from _columns(asked.columns[: -len(SURE)])


def _columns(columns: Iterable[Column]) -> Iterator[str]:
    yield "\n| column | type | meaning |\n|---|---|---|\n"
    for each in columns:
        yield f"| {each.name} | {_type(each.type)} | {each.about} |\n"


def _type(kind: pa.DataType) -> str:
    return "list of bigint" if kind == pa.list_(pa.int64()) else NAMES[kind]


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
