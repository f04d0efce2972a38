"""Prints the result of an analysis as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from groupkeeper.analytics.export import Tables
from groupkeeper.analytics.pipeline.chunks import Counts
from groupkeeper.analytics.questions.registry import FINDINGS
from groupkeeper.analytics.reading.plan import Plan
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.render import (
    Column,
    instant,
    most_rows,
    print_sentences,
    print_table,
    text,
)
from groupkeeper.protocol.records.modern_groups import KNOWN_TYPES
from groupkeeper.why.texts import count, printable, ranges, size

FINDINGS_SHOWN: Final = 10
"""The first ones: a terminal is no report."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of one analysis: the tables that are printed, what was read (`counts`: records by
    key type; `events`: how many bytes of the event log), the answers to questions by name, if they
    were asked, and what is not known, in sentences.
    """

    plan: Plan
    counts: Counts
    tables: Tables
    problems: pa.Table
    events: int = 0
    answers: Tables = field(default_factory=dict)
    not_known: Sequence[str] = ()

    @property
    def records(self) -> int:
        return self.counts.total()

    @property
    def unknown(self) -> str:
        """Records of types that only a later Kafka has, which are no damage; empty if there are
        none.
        """
        found: Counter[int] = Counter()
        for (kind, _), amount in self.counts.items():
            if kind is not None and kind not in KNOWN_TYPES:
                found[kind] += amount
        types = ", ".join(map(str, sorted(found)))
        many = "types" if len(found) > 1 else "type"
        number = count(found.total(), "record")
        return f"{number} of {many} {types}, which this version does not know" if found else ""

    def written(self) -> Tables:
        """The tables that leave as CSV or JSON."""
        problems = self.problems
        if self.unknown:
            told = f"{Problem.UNKNOWN_TYPE.text}: {self.unknown}"
            row = pa.Table.from_pylist([{"problem": told}], problems.schema)
            problems = pa.concat_tables([problems, row])
        return self.tables | self.answers | {"problems": problems}


_GROUPS: Final = {
    "group": Column("group", text),
    "state": Column("state", text),
    "type": Column("type", text),
    "protocol_type": Column("protocol type", text),
    "protocol": Column("protocol", text),
    "generation": Column("generation", text, number=True),
    "member_count": Column("members", text, number=True),
    "offsets": Column("offsets", text, number=True),
    "last_change": Column("last change", instant),
}
_GENERATIONS: Final = {
    "group": Column("group", text),
    "offset": Column("log offset", text, number=True),
    "time": Column("time", instant),
    "kind": Column("kind", text),
    "generation": Column("generation", text, number=True),
    "member_count": Column("members", text, number=True),
    "protocol": Column("protocol", text),
    "leader": Column("leader", text),
}
_OFFSETS: Final = {
    "group": Column("group", text),
    "topic": Column("topic", text),
    "topic_partition": Column("partition", text, number=True),
    "committed_offset": Column("offset", text, number=True),
    "commit_time": Column("committed", instant),
    "metadata": Column("metadata", text),
}
_PROBLEMS: Final = {
    "partition": Column("log partition", text, number=True),
    "batch_position": Column("position", text, number=True),
    "offset": Column("log offset", text, number=True),
    "problem_bytes": Column("bytes", text, number=True),
    "problem": Column("problem", text),
}


def _assignment(value: object) -> str:
    """orders: 0-2, payments: 1. "?" for assignments that are not of the consumer protocol."""
    if not isinstance(value, list):
        return "?"
    return ", ".join(f"{each['topic']}: {ranges(each['partitions'])}" for each in value) or "-"


_MEMBERS: Final = {
    "group": Column("group", text),
    "client_id": Column("client id", text),
    "group_instance_id": Column("instance id", text),
    "member_id": Column("member id", text),
    "client_host": Column("host", text),
    "assigned_partitions": Column("partitions", text, number=True),
    "assignment": Column("assignment", _assignment),
}


def print_findings(to: Console, findings: Findings) -> None:
    """Print the tables, then a summary of what was read."""
    for title, table, columns in (
        ("Groups", findings.tables["groups"], _GROUPS),
        ("Members", findings.tables["members"], _MEMBERS),
        ("Generations", findings.tables["generations"], _GENERATIONS),
        ("Committed offsets", findings.tables["offsets"], _OFFSETS),
    ):
        _print(to, title, table, columns)
    if len(findings.problems):
        _print(to, "Problems", findings.problems, _PROBLEMS)
    if FINDINGS in findings.answers:
        _print_first(to, findings.answers[FINDINGS])
    work = findings.plan
    events = f", and {size(findings.events)} of events" if findings.events else ""
    whole = _left_over(findings.problems) if len(findings.problems) else "all of it sound"
    whole += f"; {findings.unknown}" if findings.unknown else ""
    records = f"{findings.records:,} record" + ("" if findings.records == 1 else "s")
    to.print(
        f"Read {records} from {size(work.size)} in "
        f"{count(work.segments, 'segment')} of {count(work.partitions, 'partition')}"
        f"{events}, {whole}."
    )
    for sentence in findings.not_known:
        to.print(Text(printable(sentence)))


def _print_first(to: Console, found: pa.Table) -> None:
    """The findings that matter most, as sentences."""
    rows = found.select(["severity", "sentence"]).slice(0, FINDINGS_SHOWN).to_pylist()
    print_sentences(
        to, "Findings", len(found), [(row["severity"], row["sentence"]) for row in rows]
    )
    if len(found) > len(rows):
        to.print(f"{len(rows)} of them shown; more with --report, all with --csv or --json")
    to.print()


def _left_over(problems: pa.Table) -> str:
    left = sum(filter(None, problems.column("problem_bytes").to_pylist()))
    return f"{size(left)} left over in {count(len(problems), 'place')}"


def _print(to: Console, title: str, table: pa.Table, columns: dict[str, Column]) -> None:
    few = table.select([*columns]).slice(0, most_rows(to) + 1)
    cells = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in few.itercolumns()
    ]
    print_table(to, title, list(columns.values()), zip(*cells, strict=True))
