"""Prints the result of an analysis as text."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from groupkeeper.analytics.answering import FINDINGS
from groupkeeper.analytics.command.export import PrintedTables
from groupkeeper.analytics.pipeline.chunks import Counts
from groupkeeper.analytics.reading.plan import Plan
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.protocol.records.consumer_offsets import GROUP_CONFIGS_TYPE
from groupkeeper.protocol.records.modern_groups import KNOWN_TYPES
from groupkeeper.why.texts import aligned, count, printable, ranges, size, time_text

CAUSES: Final = "causes"
"""Name of the answer with the causes of each group's rebalances."""
FINDINGS_SHOWN: Final = 10
"""Findings printed on the terminal; the report has more."""
TERMINAL_ROWS: Final = 200
PIPE_ROWS: Final = 100_000
# Wide enough that nothing wraps in the input of another program.
_PIPE_WIDTH: Final = 4096


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """The result of one analysis. `tables` are printed; `counts`: records read, by key type;
    `events`: bytes of the event log; `answers`: by question, if asked; `not_known`: sentences about
    what is unknown.
    """

    plan: Plan
    counts: Counts
    tables: PrintedTables
    problems: pa.Table
    events: int = 0
    answers: PrintedTables = field(default_factory=dict)
    not_known: Sequence[str] = ()

    @property
    def records(self) -> int:
        return self.counts.total()

    @property
    def unknown(self) -> str:
        """Describe records of types only in later Kafka versions; empty if there are none."""
        found: Counter[int] = Counter()
        for (kind, _), amount in self.counts.items():
            if kind is not None and kind not in (*KNOWN_TYPES, GROUP_CONFIGS_TYPE):
                found[kind] += amount
        types = ", ".join(map(str, sorted(found)))
        many = "types" if len(found) > 1 else "type"
        number = count(found.total(), "record")
        return f"{number} of {many} {types}, which this version does not know" if found else ""

    @property
    def newer(self) -> list[str]:
        """Describe records and events of types that this version does not know."""
        texts = self.problems.filter(_is_newer(self.problems)).column("problem").to_pylist()
        told = [self.unknown, *(text.partition(": ")[2] for text in texts)]
        return [each for each in told if each]

    def written(self) -> PrintedTables:
        """Return the tables to export as CSV or JSON."""
        problems = self.problems
        if self.unknown:
            told = f"{Problem.UNKNOWN_TYPE.text}: {self.unknown}"
            row = pa.Table.from_pylist([{"problem": told}], problems.schema)
            problems = pa.concat_tables([problems, row])
        return self.tables | self.answers | {"problems": problems}


def _is_newer(problems: pa.Table) -> pa.ChunkedArray:
    """Return which problems are events of unknown types."""
    return pc.starts_with(problems.column("problem"), Problem.UNKNOWN_TYPE.text)


_TABLES: Final = {
    "Groups": (
        "groups",
        (
            *("group", "state", "type", "protocol_type", "protocol", "generation"),
            *("member_count", "offsets", "last_change"),
        ),
    ),
    "Members": (
        "members",
        (
            *("group", "client_id", "group_instance_id", "member_id", "client_host"),
            *("assigned_partitions", "assignment"),
        ),
    ),
    "Generations": (
        "generations",
        ("group", "offset", "time", "kind", "generation", "member_count", "protocol", "leader"),
    ),
    "Committed offsets": (
        "offsets",
        ("group", "topic", "topic_partition", "committed_offset", "commit_time", "metadata"),
    ),
}
"""Title -> table and its columns."""
_CAUSES: Final = ("group", "cause", "rounds", "until", "source", "confidence")
_PROBLEMS: Final = ("partition", "batch_position", "offset", "problem_bytes", "problem")
_HEADINGS: Final = {
    "assigned_partitions": "partitions",
    "batch_position": "position",
    "client_host": "host",
    "commit_time": "committed",
    "committed_offset": "offset",
    "group_instance_id": "instance id",
    "member_count": "members",
    "offset": "log offset",
    "partition": "log partition",
    "problem_bytes": "bytes",
    "topic_partition": "partition",
    "until": "last",
}
"""Column -> heading, where it differs from the name."""


def console() -> Console:
    """A console for standard output, as wide as its terminal; in a pipe as wide as the text."""
    probe = Console(highlight=False, soft_wrap=False)
    return probe if probe.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def print_findings(to: Console, findings: AnalysisResult, *, events_alone: bool = False) -> None:
    """Print the tables, of events alone the causes; then a summary of what was read."""
    if events_alone:
        print_table(to, "Causes of rebalances", findings.answers[CAUSES], _CAUSES)
    else:
        for title, (name, columns) in _TABLES.items():
            print_table(to, title, findings.tables[name], columns)
    if len(findings.problems):
        print_table(to, "Problems", findings.problems, _PROBLEMS)
    if FINDINGS in findings.answers:
        print_first(to, findings.answers[FINDINGS])
    work = findings.plan
    left = findings.problems.filter(pc.invert(_is_newer(findings.problems)))
    whole = _left_over(left) if len(left) else "all of it sound"
    whole += "".join(f"; {printable(each)}" for each in findings.newer)
    records = f"{findings.records:,} record" + ("" if findings.records == 1 else "s")
    segments = f"{count(work.segments, 'segment')} of {count(work.partitions, 'partition')}"
    read = [] if events_alone else [f"{records} from {size(work.size)} in {segments}"]
    read += [f"{size(findings.events)} of events"] if findings.events else []
    to.print(f"Read {', and '.join(read)}, {whole}.")
    for sentence in findings.not_known:
        to.print(Text(printable(sentence)))


def _left_over(problems: pa.Table) -> str:
    left = sum(filter(None, problems.column("problem_bytes").to_pylist()))
    return f"{size(left)} left over in {count(len(problems), 'place')}"


def print_first(to: Console, found: pa.Table) -> None:
    """Print the most important findings: severity and sentence, wrapped on a terminal."""
    _print_title(to, "Findings", found)
    rows = found.slice(0, FINDINGS_SHOWN).select(["severity", "sentence"]).to_pylist()
    wide = max((len(row["severity"]) for row in rows), default=0)
    for row in rows:
        line = f"{row['severity']:<{wide}}  {printable(row['sentence'])}"
        if to.is_terminal:
            line = textwrap.fill(line, to.width, subsequent_indent=" " * (wide + 2))
        to.file.write(f"{line}\n")
    if len(found) > len(rows):
        to.print(f"{len(rows)} of them shown; more with --report, all with --csv or --json")
    to.print()


def print_table(to: Console, title: str, table: pa.Table, columns: Sequence[str]) -> None:
    """Print columns of a table under its title, or one line if it is empty. A very long table is
    cut, and a line says so.
    """
    _print_title(to, title, table)
    limit = TERMINAL_ROWS if to.is_terminal else PIPE_ROWS
    if len(table):
        few = table.select(columns).slice(0, limit)
        heads = [_HEADINGS.get(each, each.replace("_", " ")).upper() for each in columns]
        numbers = [at for at, each in enumerate(few.schema.types) if pa.types.is_integer(each)]
        lines = [heads, *zip(*map(_cells, few.columns), strict=True)]
        to.file.writelines(f"{line}\n" for line in aligned(lines, numbers))
    if len(table) > limit:
        to.print(f"{limit} of them shown; --out writes all")
    to.print()


def _print_title(to: Console, title: str, table: pa.Table) -> None:
    to.print(Text(f"{title}: {len(table) or 'none'}", style="bold"))


def _cells(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):
        times = column.cast(pa.int64()).to_pylist()
        return ["-" if each is None or each < 0 else time_text(each) for each in times]
    if pa.types.is_list(column.type):
        return [printable(_assignment(each)) for each in column.to_pylist()]
    return ["-" if each in (None, "") else printable(str(each)) for each in column.to_pylist()]


# Any: a value as pyarrow gives it.
def _assignment(value: list[dict[str, Any]] | None) -> str:
    """Format as "orders: 0-2, payments: 1"; "?" if it is not of the consumer protocol."""
    if value is None:
        return "?"
    return ", ".join(f"{each['topic']}: {ranges(each['partitions'])}" for each in value) or "-"
