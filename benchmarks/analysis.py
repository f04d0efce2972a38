"""`python -m benchmarks.analysis`: what reading and analysing an offsets log costs.

Beside the parser alone, which is the limit, and a Spark source that makes a tuple of each record:
reading through Spark, and `groupkeeper analyze`. Every case runs in a process of its own, case
after case within each round. A run with the default sizes and cases writes ANALYSIS.md.
"""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.analysis_cases import CASES, LOOK_S, ROOT, STARTED
from benchmarks.analysis_logs import Log, cached, log_of
from benchmarks.analysis_report import Figure, Results, markdown
from benchmarks.processes import Watch

SIZES: Final = (50, 500, 2000)
ROUNDS: Final = 3
REPEATS: Final = 3
COMPARED: Final = 100
"""MB of commits that are in transactions or not."""
OF_KINDS: Final = ("alone", "spark", "analyze")
SMALLEST_ONLY: Final = ("rows", "compile")
QUICK: Final = {"sizes": (10,), "rounds": 1, "repeats": 1, "compared": 10}
RESULT: Final = Path(__file__).with_name("ANALYSIS.md")


class CaseFailed(Exception):
    """With the last line that a case said."""


def run(case: str, log: Log, repeats: int, results: Results) -> None:
    """One case in a session of its own, watched from outside. Raises CaseFailed."""
    module = "benchmarks.analysis_cases"
    command = [sys.executable, "-m", module, case, str(log.data), "--repeats", str(repeats)]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, STARTED: repr(time.time())},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        watch = Watch(process.pid)
        try:
            while process.poll() is None:
                watch.look()
                time.sleep(LOOK_S)
        finally:
            process.kill()  # an interrupt of this process does not reach another session
            process.wait()
        said.seek(0)
        complained.seek(0)
        lines, complaints = said.read().splitlines(), complained.read().strip().splitlines()
    if process.returncode or not lines:
        raise CaseFailed(f"{case} with {log.name}: {(complaints or ['it said nothing'])[-1]}")
    measured = results.of(log.name, case)
    measured.python_mib = max(measured.python_mib, watch.peak_mib(is_java=False))
    measured.java_mib = max(measured.java_mib, watch.peak_mib(is_java=True))
    for name, times in json.loads(lines[-1]).items():
        figure = measured.figures.setdefault(name, Figure())
        figure.seconds += [seconds for seconds, _ in times]
        figure.cpu_s += [cpu_s for _, cpu_s in times]


def work_of(logs: Sequence[Log], cases: Sequence[str]) -> list[tuple[str, Log]]:
    """What a round runs, in turn."""
    mixed = [log for log in logs if log.kind == "mixed"]
    found = []
    for log in logs:
        for case in cases:
            if log.kind != "mixed" and case not in OF_KINDS:
                continue
            if case in SMALLEST_ONLY and log is not mixed[0]:
                continue
            found.append((case, log))
    return found


def execute(
    logs: Sequence[Log], cases: Sequence[str], rounds: int, repeats: int, console: Console
) -> Results:
    results = Results({log.name: log for log in logs})
    work = work_of(logs, cases) * rounds
    with _progress(console) as bar:
        task = bar.add_task("", total=len(work))
        for case, log in work:
            bar.update(task, description=f"{case}, {log.name}")
            cached(log.data)
            run(case, log, repeats, results)
            bar.advance(task)
    return results


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextlib.contextmanager
def _folder(made: Path | None) -> Iterator[Path]:
    if made is not None:
        made.mkdir(parents=True, exist_ok=True)
        yield made
        return
    with tempfile.TemporaryDirectory(prefix="groupkeeper-analysis-") as folder:
        yield Path(folder)


def _make(folder: Path, sizes: Sequence[int], compared: int, console: Console) -> list[Log]:
    wanted = [(size, "mixed") for size in sorted(sizes)]
    wanted += [(compared, kind) for kind in ("plain", "transactional")] if compared else []
    logs = []
    with _progress(console) as bar:
        task = bar.add_task("", total=len(wanted))
        for size, kind in wanted:
            bar.update(task, description=f"making a log of {size:,} MB, {kind}")
            logs.append(log_of(folder, size, kind))
            bar.advance(task)
    return logs


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=SIZES, help="MB (50,500,2000)")
    parser.add_argument("--cases", default=",".join(CASES), help="some of %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of all cases (3)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="in each process (3)")
    parser.add_argument("--compared", type=int, default=COMPARED, help="MB, plain or not (100)")
    parser.add_argument("--made", type=Path, help="keep logs here, and use those that are there")
    parser.add_argument("--quick", action="store_true", help="10 MB once, written nowhere")
    options = parser.parse_args(arguments)
    if options.quick:
        vars(options).update(QUICK)
    options.cases = options.cases.split(",")
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    least = min(options.rounds, options.repeats, *options.sizes)
    if least < 1 or options.compared < 0:
        parser.error("sizes, rounds and repeats are at least 1")
    options.is_full = options.cases == [*CASES] and options.sizes == SIZES and options.compared
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def main(arguments: list[str] | None = None) -> int:
    """Exit code 2 after one line if a log cannot be made or a case fails."""
    options = _options(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    console = Console(stderr=True)
    try:
        with _folder(options.made) as folder:
            logs = _make(folder, options.sizes, options.compared, console)
            results = execute(logs, options.cases, options.rounds, options.repeats, console)
    except (CaseFailed, OSError) as error:
        print(f"benchmarks.analysis: {error}", file=sys.stderr)
        return 2
    text = markdown(results, shlex.join(["python", "-m", "benchmarks.analysis", *given]))
    print(text, end="")
    if options.is_full:
        RESULT.write_text(text)
        print(f"Written to {RESULT}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
