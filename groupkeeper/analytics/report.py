"""The steps of `groupkeeper analyze`: plan, read, derive, print, write. The tables themselves are
defined in `groupkeeper.analytics.tables`.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.export import Request, Tables, print_json, write_csv
from groupkeeper.analytics.plan import Plan, plan
from groupkeeper.analytics.problems import is_damage
from groupkeeper.analytics.render import (
    Column,
    console,
    instant,
    most_rows,
    plain,
    print_table,
    ranges,
    size,
    text,
)
from groupkeeper.analytics.segments import expand
from groupkeeper.analytics.session import check_libraries, failures_as_one_line, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAMAGED: Final = 3
TABLES: Final = ("groups", "members", "generations", "offsets")
SHORT_BELOW: Final = 64 * 1024 * 1024
_STEPS: Final = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of one analysis: small tables, persisted by Spark, and what was read."""

    plan: Plan
    records: int
    tables: Tables
    problems: "DataFrame"


def analyze(paths: Sequence[str | Path], request: Request | None = None) -> int:
    """Print groups, members, generations and committed offsets of the logs under `paths`; write
    them to files, too, if that is requested.

    Returns an exit code: 0, or 3 if a log is damaged. After one line on standard error 2 when there
    is nothing to read, no Java, or a folder to write to is in use, and 1 when Spark fails.
    """
    request = request or Request()
    try:
        check_libraries()
        work = plan(expand(map(str, paths)), partition=request.partition)
        if not work.chunks:
            raise AnalyticsError(
                f"nothing to read in {', '.join(map(str, paths))}: all segments are empty"
            )
        _check_free(request.out)
        _check_free(request.csv)
        with failures_as_one_line():
            return DAMAGED if _run(work, request) else 0
    except AnalyticsError as error:
        said = f"groupkeeper: {plain(str(error))}"
        print(said, file=sys.stderr)  # noqa: T201  # the command's error line
        return error.exit_code


def _check_free(out: Path | None) -> None:
    """Never write over or among existing files."""
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AnalyticsError(f"{out} exists: name a new or an empty folder")


def _run(work: Plan, request: Request) -> bool:
    """Whether a log is damaged."""
    from pyspark.sql import SparkSession

    borrowed = SparkSession.getActiveSession() is not None
    with _progress() as bar:
        step = _Steps(bar, _STEPS + (1 + len(TABLES) if request.out else 0))
        step.start("starting Spark")
        spark = open_session(short=work.size < SHORT_BELOW, master=request.master)
        try:
            findings = _find(spark, work, request, step)
            if request.out:
                _write(findings, request.out, step)
            if request.csv:
                write_csv(findings.tables, request.csv)
            bar.stop()
            _show(findings, request)
            return _is_damaged(findings)
        finally:
            if not borrowed:
                spark.stop()


def _show(findings: Findings, request: Request) -> None:
    if request.as_json:
        print_json(findings.tables | {"problems": findings.problems})
        return
    to = console()
    print_findings(to, findings)
    if request.out:
        to.print(Text(plain(f"Written to {request.out}: records, {', '.join(TABLES)}")))
    if request.csv:
        files = ", ".join(f"{name}.csv" for name in TABLES)
        to.print(Text(plain(f"Written to {request.csv}: {files}")))


def _is_damaged(findings: Findings) -> bool:
    told = findings.problems.select("problem").distinct().collect()
    return any(is_damage(row["problem"]) for row in told)


class _Steps:
    """A progress bar with one unit per step."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total)
        self._started = False

    def start(self, name: str) -> None:
        """Finish the step before and begin this one."""
        self._bar.update(self._task, description=name, advance=1 if self._started else 0)
        self._started = True


@contextmanager
def _progress() -> Iterator[Progress]:
    """On standard error, and only if that is a terminal: standard output is the report."""
    to = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=to, transient=True, disable=not to.is_terminal) as bar:
        yield bar


def _find(spark: "SparkSession", work: Plan, request: Request, step: _Steps) -> Findings:
    """Read the log once; all tables are made of what is kept of it."""
    from pyspark import StorageLevel

    from groupkeeper.analytics import tables
    from groupkeeper.analytics.modern import modern_groups, topic_names
    from groupkeeper.analytics.reduce import COUNT, reduced

    out = request.out
    if out:
        from groupkeeper.analytics.bulk import write_records

        step.start(f"writing records ({size(work.size)})")
        write_records(spark, work, out / "records")
    step.start("reading")
    rows = reduced(spark, work, out / "records" if out else None, request.choice.groups)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    records = rows.where(rows[COUNT].isNull()).drop(COUNT)
    counts = rows.agg({COUNT: "sum"}).head()
    events = tables.group_events(records).persist(StorageLevel.MEMORY_AND_DISK)
    modern = modern_groups(records, topic_names(work)).persist(StorageLevel.MEMORY_AND_DISK)
    step.start("deriving groups")
    committed = tables.offsets(records).persist(StorageLevel.MEMORY_AND_DISK)
    return Findings(
        work,
        int(counts[0] or 0) if counts else 0,
        request.choice.of(
            {
                "groups": tables.groups(events, modern, committed),
                "members": tables.members(events, modern),
                "generations": tables.generations(events, records),
                "offsets": committed,
            }
        ),
        tables.problems(records, events, modern),
    )


def _write(findings: Findings, out: Path, step: _Steps) -> None:
    for name in TABLES:
        step.start(f"writing {name}")
        findings.tables[name].coalesce(1).write.parquet(str(out / name))


# ---------------------------------------------------------------- printing

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
    problems = findings.problems.count()
    if problems:
        _print(to, "Problems", findings.problems, _PROBLEMS)
    work = findings.plan
    whole = _left_over(findings) if problems else "all of it sound"
    to.print(
        f"Read {findings.records:,} records from {size(work.size)} in {work.segments} segment(s) "
        f"of {work.partitions} partition(s), {whole}."
    )


def _left_over(findings: Findings) -> str:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    counts = findings.problems.agg(F.sum("problem_bytes"), F.count("*")).head()
    left = int(counts[0] or 0) if counts else 0
    return f"{size(left)} left over in {counts[1] if counts else 0} place(s)"


def _print(to: Console, title: str, table: "DataFrame", columns: dict[str, Column]) -> None:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    # As a timestamp, Python would give it the zone of this machine.
    times = {name for name, kind in table.dtypes if kind == "timestamp"}
    shown = [F.unix_millis(name).alias(name) if name in times else F.col(name) for name in columns]
    rows = table.select(*shown).limit(most_rows(to) + 1).collect()
    print_table(to, title, list(columns.values()), rows)
