"""Implements `groupkeeper analyze`: plans, runs the pipeline, prints and writes.

The tables are made in `groupkeeper.analytics.pipeline`.
"""

from groupkeeper.analytics.libraries import LOCAL, check_libraries

check_libraries(LOCAL)  # before the imports that need them

import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text

import groupkeeper
from groupkeeper.analytics.command.export import PrintedTables, chosen, print_json, write_csv
from groupkeeper.analytics.command.printing import AnalysisResult, console, print_findings
from groupkeeper.analytics.command.request import Choice, Request
from groupkeeper.analytics.errors import AnalyticsError, make_folder
from groupkeeper.analytics.pipeline.engine import Engine, engine_for, failures_as_one_line
from groupkeeper.analytics.pipeline.lag import ends_of
from groupkeeper.analytics.pipeline.output import Output
from groupkeeper.analytics.pipeline.run import StageProgress, Trunk
from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.placement import of_groups
from groupkeeper.analytics.reading.plan import Plan, data_folders, plan_topics
from groupkeeper.analytics.reading.problems import is_damage
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS, expand, newest_segments
from groupkeeper.analytics.store.folder import TableStore, write_answers
from groupkeeper.why.texts import count, printable

if TYPE_CHECKING:
    from groupkeeper.analytics.page import ReportHeader

_Plans = Mapping[str, Plan]
"""By topic."""
COMPILING: Final = "compiling what reads logs: once after an installation, about 20 s"
DAMAGED: Final = 1
_SCHEME: Final = re.compile(r"\w{2,}:/")
"""A URL, even if `Path` has collapsed its double slash."""
TABLES: Final = ("groups", "members", "generations", "offsets")


def analyze(paths: Sequence[str | Path], request: Request | None = None) -> int:
    """Print groups, members, generations and committed offsets of the logs under `paths`, and write
    requested files.

    Returns an exit code: 0, or 1 if a log is damaged. After one line on standard error: 2 if there
    is nothing to read or a folder to write to is in use, and 1 if the engine fails or a file could
    not be written at the end.
    """
    try:
        with failures_as_one_line():
            return _analyze(paths, request or Request())
    except AnalyticsError as error:
        _say(str(error))
        return error.exit_code


def _analyze(paths: Sequence[str | Path], request: Request) -> int:
    check_request(request)
    places = expand(map(str, paths))
    plans = plan_topics(places)
    if not any(work.chunks for work in plans.values()):
        where = request.origin or ", ".join(map(str, paths))
        raise AnalyticsError(f"nothing to read in {where}: all segments are empty")
    if not plans[OFFSETS].chunks:
        request = replace(request, events_alone=True)
    if request.csv:
        make_folder(request.csv)
    return _run(places, plans, request)


def check_request(request: Request) -> None:
    """Check a request before any log is read. Raises AnalyticsError."""
    if request.rebuild and request.out is None:
        raise AnalyticsError("--rebuild makes the tables of a folder anew: name it with --out")
    for option, place in ("out", request.out), ("csv", request.csv), ("report", request.report):
        if place == Path("-"):
            raise AnalyticsError(
                f"--{option} - does not mean standard output (only --json prints there): name a "
                f"{'file' if option == 'report' else 'folder'}"
            )
        if isinstance(files.place(str(place)), Path) and _SCHEME.match(str(place)):
            raise AnalyticsError(
                f"--{option} {place} is not a local path: only --out writes to other file systems, "
                f"to URLs of {', '.join(files.SCHEMES)}"
            )
    if request.csv:
        _check_free(request.csv)


def _say(line: str) -> None:
    said = f"groupkeeper: {printable(line)}"
    print(said, file=sys.stderr)  # noqa: T201  # standard output is the report


def _tell_missing(wanted: Collection[str], found: Iterable[str]) -> None:
    """Report requested groups that were not found: the name may be mistyped."""
    for group in sorted(set(wanted) - set(found)):
        _say(f"no group record and no commit of '{group}' in what was read")


def _tell_late(choice: Choice, found: PrintedTables, left: int) -> None:
    """Report a `--since` later than all records. `left`: number of groups after the choice."""
    if choice.since_ms is None or left:
        return
    columns = found["groups"].column("last_change"), found["offsets"].column("commit_time")
    times = [last for last in (pc.max(each).as_py() for each in columns) if last is not None]
    if times:
        since = datetime.fromtimestamp(choice.since_ms / 1000, UTC)
        _say(
            f"no group changed or committed since {since:%Y-%m-%dT%H:%MZ}: the last time in what "
            f"was read is {max(times):%Y-%m-%dT%H:%MZ}"
        )


def _check_free(out: Path) -> None:
    """Refuse to write over or among existing files."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AnalyticsError(f"{out} exists: name a new or an empty folder")


def _run(paths: Sequence[AnyPath], plans: _Plans, request: Request) -> int:
    if request.report:
        from groupkeeper.analytics.page import check_report

        check_report(request.report, request.out if isinstance(request.out, Path) else None)
    with ExitStack() as stack:
        findings, history = _find(paths, plans, request, stack)
    failed = _write(plans, request, findings, history)
    csv = None if "csv" in failed else request.csv
    page = None if "report" in failed else request.report
    _show(findings, replace(request, csv=csv, report=page))
    for error in failed.values():
        _say(str(error))
    if failed:
        return max(error.exit_code for error in failed.values())
    problems = findings.problems.column("problem").unique().to_pylist()
    return DAMAGED if any(map(is_damage, problems)) else 0


def _write(
    plans: _Plans, request: Request, findings: AnalysisResult, history: PrintedTables
) -> dict[str, AnalyticsError]:
    """Write the requested files. Returns errors by option; one failure does not prevent the other
    files, as the analysis may have taken hours.
    """
    writes: dict[str, Callable[[], None]] = {}
    if request.csv:
        writes["csv"] = partial(write_csv, findings.written(), request.csv)
    if request.report:
        from groupkeeper.analytics.page import write_report

        about = _about(plans, request, findings)
        drawn = history | findings.answers
        writes["report"] = partial(write_report, request.report, drawn, about)
    failed = {}
    for option, write in writes.items():
        try:
            with failures_as_one_line():
                write()
        except AnalyticsError as error:
            failed[option] = error
    return failed


def _find(
    paths: Sequence[AnyPath], plans: _Plans, request: Request, stack: ExitStack
) -> tuple[AnalysisResult, PrintedTables]:
    """Run the analysis. Returns its result, and the tables for a report if requested."""
    groups = request.choice.groups
    tell = stack.enter_context(_progress())
    store, output = _opened(paths, plans, request, stack)
    _load_kernels(tell)
    if store:
        scratch = store.scratch
    else:
        place = tempfile.TemporaryDirectory(prefix="groupkeeper-analyze-")
        scratch = stack.enter_context(place)
        if request.asks:
            from groupkeeper.analytics.answering import NOT_READ

            left_out = NOT_READ | {"records"}
            output = Output(Path(scratch, "tables"), left_out=left_out, goes_on=False)
    names, data = topic_names(plans[OFFSETS]), data_folders(plans[OFFSETS])
    if groups:
        plans = {
            # Events are only read if tables are made.
            topic: of_groups(work, groups) if output or topic == OFFSETS else work
            for topic, work in plans.items()
        }
    new = store.news(plans) if store else plans
    size = sum(work.size for work in new.values()) + (store.size() if store else 0)
    engine = stack.enter_context(engine_for(size, request.workers))
    found = Trunk(engine, scratch, output, tell).run(new[OFFSETS], groups, new[EVENTS], names, data)
    counts = store.counts(found) if store else found.counts
    if store:
        store.commit(new, found)
    problems = found.tables.pop("problems")
    if not request.events_alone:
        _tell_missing(groups, found.tables["groups"].column("group").to_pylist())
    events = plans[EVENTS].size if output else 0
    tables = chosen(request.choice, found.tables)
    _tell_late(request.choice, found.tables, len(tables["groups"]))
    findings = AnalysisResult(plans[OFFSETS], counts, tables, problems, events)
    if output is None:
        return findings, {}
    folder = store.folder if store else output.folder
    ends = ends_of(found.tables["offsets"], data)
    return _asked(findings, (folder, ends), request, engine, tell)


def _load_kernels(tell: StageProgress) -> None:
    """Load the compiled parser, so that worker processes find it in the cache. Compiling is
    reported as a stage on a terminal, and as a line elsewhere.
    """
    from groupkeeper.analytics.reading import compiled

    def told() -> None:
        if sys.stderr.isatty():
            tell(COMPILING, 0, 1)
        else:
            _say(COMPILING)

    with compiled.told_of_compiling(told):
        from groupkeeper.analytics.reading import parser  # noqa: F401  # its kernels


def _opened(
    paths: Sequence[AnyPath], plans: _Plans, request: Request, stack: ExitStack
) -> tuple[TableStore | None, Output | None]:
    """Open the folder for tables, if one is named."""
    if request.out is None:
        return None, None
    folder = files.place(str(request.out))
    store = stack.enter_context(TableStore(folder, rebuild=request.rebuild))
    store.check(plans, newest_segments(paths))
    return store, store.begin(request.choice.groups)


def _asked(
    findings: AnalysisResult,
    made: tuple[AnyPath, pa.Table],
    request: Request,
    engine: Engine,
    tell: StageProgress,
) -> tuple[AnalysisResult, PrintedTables]:
    """Answer the questions from a folder of tables and `log_ends`. The answers are stored beside
    the tables.
    """
    from groupkeeper.analytics.answering import WHAT_IF_DRAWN, WHAT_IF_MOST, Chosen, ask

    is_top = request.choice.top and not request.events_alone  # by the records of groups
    top = findings.tables["groups"].column("group").to_pylist() if is_top else None
    folder, ends = made
    chosen = Chosen(top, request.choice.since_ms, ends)
    is_drawn_only = not (request.out or request.csv or request.as_json)
    most = WHAT_IF_DRAWN if is_drawn_only else WHAT_IF_MOST
    history, answers = ask(folder, chosen, engine, request.workers, tell, most)
    if request.out:
        write_answers(folder, answers)
    drawn = history.shown(answers) if request.report else {}
    return replace(findings, answers=answers, not_known=history.not_known()), drawn


def _show(findings: AnalysisResult, request: Request) -> None:
    if request.as_json:
        print_json(findings.written())
        return
    to = console()
    print_findings(to, findings, events_alone=request.events_alone)
    if request.out:
        to.print(Text(printable(f"Written to {request.out}")))
    if request.csv:
        names = ", ".join(f"{name}.csv" for name in findings.written())
        to.print(Text(printable(f"Written to {request.csv}: {names}")))
    if request.report:
        told = count(len(findings.answers["findings"]), "finding")
        to.print(Text(printable(f"Written to {request.report}: {told}, and pictures")))


def _damage(problems: pa.Table) -> list[str]:
    """Return one line per damaged place."""
    return [
        f"partition {row['partition']}, position {row['batch_position']}: {row['problem']}"
        for row in problems.to_pylist()
        if is_damage(row["problem"])
    ]


def _about(plans: _Plans, request: Request, findings: AnalysisResult) -> "ReportHeader":
    from groupkeeper.analytics.answering import DESCRIBED
    from groupkeeper.analytics.page import ReportHeader

    choice = request.choice
    options = [f"--group {each}" for each in sorted(choice.groups)]
    if choice.since_ms is not None:
        since = datetime.fromtimestamp(choice.since_ms / 1000, UTC)
        options.append(f"--since {since:%Y-%m-%dT%H:%M}")
    options += [f"--top {choice.top}"] if choice.top is not None else []
    paths = {split.path for work in plans.values() for chunk in work.chunks for split in chunk}
    folders = sorted({str(Path(each).parent.parent) for each in paths})
    return ReportHeader(
        [request.origin] if request.origin else folders,
        datetime.now(UTC),
        groupkeeper.__version__,
        findings.records,
        sum(work.size for work in plans.values()),
        " ".join(options),
        _damage(findings.problems),
        [*findings.not_known, *(f"The log has {each}." for each in findings.newer)],
        DESCRIBED,
    )


@contextmanager
def _progress() -> Iterator[StageProgress]:
    """Yield a progress callback: name of the stage ("" keeps the last), items done, and total. It
    draws a bar on standard error, only on a terminal: standard output is the report.
    """
    to = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=to, transient=True, disable=not to.is_terminal) as bar:
        task = bar.add_task("starting", total=1)
        yield lambda stage, done, of: bar.update(
            task, description=stage or None, completed=done, total=of
        )
