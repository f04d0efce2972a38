"""Logs on an S3 server have the rows that they have on the disk, and tables that are written there
have the rows of those on the disk.
"""

import contextlib
import io
import os
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import dataset, fs

from groupkeeper.analytics.command.report import analyze
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.files import place
from groupkeeper.analytics.reading.placement import of_groups
from groupkeeper.analytics.reading.plan import Plan, plan
from groupkeeper.analytics.reading.segments import OFFSETS, TOPICS, expand
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.store import folder as tables
from groupkeeper.analytics.store.durable import DurableFiles
from tests.analytics.churn import churn
from tests.analytics.logs import write_segment
from tests.suites import versions
from tests.suites.checks import checked, wait_for
from tests.suites.process import Background, Lines, install
from tests.suites.suite import Results, Suite, SuiteError, Target
from tests.support.populated import PAIR, populated
from tests.support.process import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"
_KEYS = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_READY_S = 60.0
BUCKET = "logs"

Row = dict[str, Any]  # of a parser


class S3(Suite):
    """moto plays S3, in a Python environment of its own."""

    name = "s3"
    about = "logs and tables on an S3 server have the rows of those on the disk, through Spark, too"
    versions: ClassVar = {"moto": versions.S3_PACKAGES[0]}

    def prepare(self, folder: Path) -> None:
        install(folder, versions.S3_PACKAGES)

    def run(self, target: Target, folder: Path) -> Results:
        if target.data_dir is None:
            raise SuiteError("needs a server of ours: its data directory goes to S3")
        with populated(target.bootstrap, int(time.time() * 1000)):
            pass
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(target.data_dir, copy)
        with keys(), served(folder) as address:
            store = Store(address)
            store.put(FIXTURE, "kafka")
            store.put(copy, "ours")
            checks: dict[str, Callable[[], None]] = {
                "a copy of a broker": partial(store.is_same, FIXTURE, "kafka"),
                "small splits": partial(store.is_same, FIXTURE, "kafka", chunk_bytes=2000),
                "by Hadoop's name": partial(store.is_same, FIXTURE, "kafka", scheme="s3a"),
                "both logs of a server": partial(store.is_same, copy, "ours"),
                "one group": store.reads_less,
                "replaced after planning": partial(store.survives, FIXTURE),
                "nothing there": store.refuses,
                "Spark": store.is_same_in_spark,
                "tables of two runs": partial(store.keeps_tables, folder / "tables"),
                "two runs at once": partial(store.refuses_another_run, folder / "tables"),
                "a run that was killed": partial(store.finishes, folder / "tables"),
            }
            for name, check in checks.items():
                yield checked(name, check)


class Store:
    """A bucket on the S3 server, and what is checked there."""

    def __init__(self, address: str) -> None:
        self._settings = f"?endpoint_override={address}&scheme=http&region=us-east-1"
        self.system, _ = fs.FileSystem.from_uri(
            f"s3://{BUCKET}/{self._settings}&allow_bucket_creation=true"
        )
        self.system.create_dir(BUCKET)

    def url(self, name: str, scheme: str = "s3") -> str:
        return f"{scheme}://{BUCKET}/{name}{self._settings}"

    def put(self, folder: Path, name: str) -> None:
        fs.copy_files(str(folder), f"{BUCKET}/{name}", destination_filesystem=self.system)

    def is_same(
        self, folder: Path, name: str, scheme: str = "s3", chunk_bytes: int | None = None
    ) -> None:
        topics = [topic for topic in TOPICS if any(folder.glob(f"{topic}-*"))]
        for topic in topics:
            local = plan([folder], chunk_bytes, topic=topic)
            there = plan(expand([self.url(name, scheme)]), chunk_bytes, topic=topic)
            assert len(there.chunks) == len(local.chunks)
            assert _rows(there) == _rows(local), topic
            assert any(row["offset"] is not None for row in _rows(there)), topic

    def reads_less(self) -> None:
        path = expand([self.url("ours")])
        work = of_groups(plan(path), [PAIR])
        everything = _rows(plan(path))
        assert work.size < plan(path).size
        found = [row for row in _rows(work) if row["group"] == PAIR]
        assert found == [row for row in everything if row["group"] == PAIR] != []

    def survives(self, folder: Path) -> None:
        """Objects that are written again are others: they are read by offsets."""
        self.put(folder, "again")
        work = plan(expand([self.url("again")]), 2000)
        self.put(folder, "again")
        assert _rows(work) == _rows(plan([folder], 2000))

    def refuses(self) -> None:
        for name, said in {"nowhere": "no such file or folder", "again/x": "no such"}.items():
            why = _refusal(self.url(name))
            assert said in why
            assert "\n" not in why

    def keeps_tables(self, folder: Path) -> None:
        """Of a log that grows."""
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.redirect_stderr(io.StringIO()):
            data, _ = churn()
        for size in (len(data) // 2, len(data)):
            write_segment(folder / "log" / "__consumer_offsets-0", 0, data[:size])
            assert _analyze(folder, self._tables())[0] == 0
        assert _analyze(folder, folder / "local")[0] == 0
        self.has_tables_of(folder / "local")

    def has_tables_of(self, local: Path) -> None:
        """As any reader sees them."""
        for name in TABLES:
            there = dataset.dataset(
                f"{BUCKET}/tables/{name}", filesystem=self.system, partitioning="hive"
            )
            here = dataset.dataset(local / name, partitioning="hive")
            assert there.schema == here.schema, name
            assert _counted(there.to_table()) == _counted(here.to_table()), name
        names = {each.path for each in self._files()}
        assert not any("staged" in name or "lock" in name for name in names)

    def refuses_another_run(self, folder: Path) -> None:
        with tables.TableStore(place(self._tables())):
            code, said = _analyze(folder, self._tables())
            assert (code, "another analysis writes to" in said) == (2, True), said
        assert _analyze(folder, self._tables())[0] == 0

    def finishes(self, folder: Path) -> None:
        """What a run has left that was ended while its files were moved."""
        left = 9
        move = DurableFiles.move

        def killed(files: DurableFiles, path: str, target: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError("killed")
            move(files, path, target)

        DurableFiles.move = killed  # type: ignore[method-assign]  # a fault
        try:
            assert _analyze(folder, self._tables(), rebuild=True)[0] == 1
        finally:
            DurableFiles.move = move  # type: ignore[method-assign]
        assert left < 0
        assert _analyze(folder, self._tables())[0] == 0
        self.has_tables_of(folder / "local")

    def _tables(self) -> str:
        return self.url("tables")

    def _files(self) -> list[fs.FileInfo]:
        found = self.system.get_file_info(fs.FileSelector(f"{BUCKET}/tables", recursive=True))
        return [each for each in found if each.is_file]

    def is_same_in_spark(self) -> None:
        from tests.support.spark import open_session

        spark = open_session("s3")
        try:
            read = spark.read.format("consumer_offsets").load(self.url("kafka", "s3a"))
            found = [row.asDict() for row in read.collect()]
        finally:
            spark.stop()
        expected = _rows(plan([FIXTURE], topic=OFFSETS))
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def _rows(work: Plan) -> list[Row]:
    return [
        row
        for chunk in work.chunks
        for split in chunk
        for batch in parse_split(split)
        for row in batch.to_pylist()
    ]


def _analyze(folder: Path, out: str | Path, *, rebuild: bool = False) -> tuple[int, str]:
    """Exit code, and what was said beside the report."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        return analyze([folder / "log"], Request(out, rebuild=rebuild)), said.getvalue()


def _counted(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def _refusal(url: str) -> str:
    try:
        plan(expand([url]))
    except AnalyticsError as error:
        return str(error)
    return "it was read"


@contextlib.contextmanager
def keys() -> Iterator[None]:
    """What the client of S3 looks for in the environment, Spark's workers' among them."""
    before = {name: os.environ.get(name) for name in _KEYS}
    os.environ.update(_KEYS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """moto on a free port; yields HOST:PORT."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: Sequence[str] = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {"PYTHONPATH": str(folder / "python")}
    with Background(Lines([sys.executable, *command], folder, limit_s=S3.limit_s, env=env)):
        wait_for(lambda: _listens(port), "the S3 server listens", _READY_S)
        yield f"127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
