"""What `benchmarks.analysis` measures. Each case runs in a process of its own, in a session of its
own, and prints a line of JSON: name of a figure -> (seconds, CPU seconds) of each time.

    python -m benchmarks.analysis_cases alone /tmp/logs/50-mixed-300/data
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from benchmarks.analysis_logs import GROUP
from benchmarks.processes import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIVE: Final = ("group", "topic", "topic_partition", "committed_offset", "commit_timestamp_ms")
ONE: Final = ("committed_offset",)
COLUMNS: Final = {"all": None, "five": FIVE, "one": ONE}
ROOT: Final = Path(__file__).parent.parent
STARTED: Final = "BENCHMARK_STARTED"
"""When the process was started, in seconds since the epoch: the interpreter's start counts, too."""

LOOK_S: Final = 0.05
"""How often processes are looked at that may end soon."""

Took = tuple[float, float]
"""Seconds, and CPU seconds of all processes."""


class Figures:
    """What was measured so far, by name."""

    def __init__(self) -> None:
        self.found: defaultdict[str, list[Took]] = defaultdict(list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """CPU seconds are those of all processes of the session."""
        cpu_s, began = _cpu_s(), time.monotonic()
        yield
        self.found[name].append((time.monotonic() - began, _cpu_s() - cpu_s))


_watch: Final = Watch(os.getsid(0))


def _cpu_s() -> float:
    _watch.look()
    return _watch.cpu_s


# -- the parser, without Spark ---------------------------------------------------------------------


def alone(data: Path, repeats: int) -> Figures:
    """All chunks, one after the other; the rows are thrown away. Kernels are loaded before."""
    from groupkeeper.analytics.reading.plan import plan

    figures = Figures()
    chunks = plan([data]).chunks
    _count((chunks[0], None))
    for _ in range(repeats):
        for name, names in COLUMNS.items():
            with figures.timed(name):
                for chunk in chunks:
                    _count((chunk, names))
    return figures


def alone_on_two(data: Path, repeats: int) -> Figures:
    """The same in two processes, which are there before."""
    from groupkeeper.analytics.pipeline.engine import Engine
    from groupkeeper.analytics.reading.plan import plan

    figures = Figures()
    work = [(chunk, None) for chunk in plan([data]).chunks]
    with Engine(2) as engine:
        list(engine.map(_count, work[:2]))
        for _ in range(repeats):
            with figures.timed("all"):
                list(engine.map(_count, work))
    return figures


def _count(work: tuple[Any, Sequence[str] | None]) -> int:
    from groupkeeper.analytics.reading import parse_split
    from groupkeeper.analytics.reading.columns import SCHEMA

    chunk, names = work
    names = SCHEMA.names if names is None else names
    return sum(len(rows) for split in chunk for rows in parse_split(split, names=names))


# -- Spark -----------------------------------------------------------------------------------------


def spark(data: Path, repeats: int) -> Figures:
    """Through `spark.read` into a sink that keeps nothing: the first time, and warm."""
    figures = Figures()
    with _session(figures) as session:
        with figures.timed("first"):
            _scan(session, data)
        for _ in range(repeats):
            for name, names in COLUMNS.items():
                with figures.timed(name):
                    _scan(session, data, names)
            with figures.timed("group"):
                _scan(session, data, group=GROUP)
    return figures


@contextmanager
def _session(figures: Figures) -> "Iterator[SparkSession]":
    from groupkeeper.analytics import register
    from groupkeeper.analytics.session import builder

    with figures.timed("start"):
        session = builder("benchmarks").getOrCreate()
        register(session)
    yield session
    session.stop()


def _scan(
    session: "SparkSession", data: Path, names: Sequence[str] | None = None, **options: str
) -> None:
    """A schema says which columns are made at all."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    from groupkeeper.analytics.reading.columns import SCHEMA

    source = session.read.format("consumer_offsets").options(**options)
    if names is not None:
        known = from_arrow_schema(SCHEMA)
        source = source.schema(StructType([known[name] for name in names]))
    source.load(str(data)).write.format("noop").mode("overwrite").save()


def rows(data: Path, repeats: int) -> Figures:
    """A data source as it is written first: a tuple for each record, in Python."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    from benchmarks.analysis_rows import COLUMNS, tuples

    class Reader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(str(each)) for each in sorted(data.glob("__consumer*/*.log"))]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            return tuples(Path(partition.value))

    class Rows(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "rows"

        def schema(self) -> str:
            return COLUMNS

        def reader(self, schema: object) -> Reader:  # named by Spark
            return Reader()

    figures = Figures()
    with _session(figures) as session:
        session.dataSource.register(Rows)
        for _ in range(repeats + 1):
            with figures.timed("all"):
                frame = session.read.format("rows").load()
                frame.write.format("noop").mode("overwrite").save()
    del figures.found["all"][0]  # the first one starts workers
    return figures


def commits(data: Path, repeats: int) -> Figures:
    """The table `commits` of `--out`, read by Spark beside a scan of the same columns."""
    figures = Figures()
    with tempfile.TemporaryDirectory(dir=data.parent) as folder:
        out = Path(folder, "out")
        _analyze(data, "--out", str(out))
        with _session(figures) as session:
            for number in range(repeats + 1):
                name = "warm" if number else "first"
                with figures.timed(f"{name} table"):
                    table = session.read.parquet(str(out / "commits"))
                    table.write.format("noop").mode("overwrite").save()
                with figures.timed(f"{name} scan"):
                    _scan(session, data)
    return figures


# -- groupkeeper analyze ---------------------------------------------------------------------------


def _analyze(data: Path, *options: str) -> None:
    _run([sys.executable, "-m", "groupkeeper", "analyze", str(data), *options])


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """What its processes did is unknown once they have ended: so they are looked at."""
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            _watch.look()
            time.sleep(LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")


def analyze(*options: str) -> Callable[[Path, int], Figures]:
    """The command; `{}` in an option is a folder that is new each time."""

    def measure(data: Path, _repeats: int) -> Figures:
        figures = Figures()
        with tempfile.TemporaryDirectory(dir=data.parent) as folder, figures.timed("all"):
            _analyze(data, *(each.format(folder) for each in options))
        return figures

    return measure


def stages(data: Path, _repeats: int) -> Figures:
    """Where the time of `analyze --report` goes, and of things that it may have to do once."""
    figures = Figures()
    reached: list[tuple[str, float, float]] = []

    def told(stage: str, _done: int = 0, _of: int = 0) -> None:
        _watch.look()
        if not reached or reached[-1][0] != stage:
            reached.append((stage, time.time(), _cpu_s()))

    @contextmanager
    def progress() -> Iterator[Callable[[str, int, int], None]]:
        yield told
        told("page and printing")

    reached.append(("interpreter", float(os.environ.get(STARTED, time.time())), 0.0))
    told("imports")
    from groupkeeper.analytics.command import report
    from groupkeeper.analytics.command.request import Request
    from groupkeeper.analytics.pipeline import preload

    assert preload
    told("planning")
    with tempfile.TemporaryDirectory(dir=data.parent) as folder:
        request = Request(report=Path(folder, "report.html"))
        with patch.object(report, "_progress", progress), redirect_stdout(io.StringIO()):
            code = report.analyze([data], request)
    if code:
        raise RuntimeError(f"analyze ended with {code}")
    told("end")
    for (stage, began, cpu_s), (_, ended, cpu_then) in pairwise(reached):
        figures.found[stage].append((ended - began, cpu_then - cpu_s))
    return figures


_LOAD: Final = "import groupkeeper.analytics.reading.parser"
_BARE: Final = "import numba, pyarrow"


def compiling(_data: Path, _repeats: int) -> Figures:
    """Loading the kernels from the cache, and compiling them for it."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        fresh = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for name, code in (("libraries", _BARE), ("compile", _LOAD), ("load", _LOAD)):
            with figures.timed(name):
                _run([sys.executable, "-c", code], fresh)
    return figures


CASES: Final[dict[str, Callable[[Path, int], Figures]]] = {
    "alone": alone,
    "alone-2": alone_on_two,
    "spark": spark,
    "rows": rows,
    "commits": commits,
    "analyze": analyze(),
    "analyze-group": analyze("--group", GROUP),
    "analyze-out": analyze("--out", "{}/out"),
    "analyze-report": analyze("--report", "{}/report.html"),
    "stages": stages,
    "compile": compiling,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis_cases")
    parser.add_argument("case", choices=[*CASES])
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=1, help="times in the process (1)")
    options = parser.parse_args(arguments)
    print(json.dumps(CASES[options.case](options.data, options.repeats).found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
