"""One run on a folder of tables.

A run writes into a hidden folder of its own: workers of one that was killed may still be writing
into theirs. Replacing `progress.json` makes it count; then its files are moved to their places, and
those that they replace are removed. What a run left that was ended before that is removed by the
next one; what was ended after that is finished by it. Each of these steps is on the disk before the
next one begins, so a power cut is no other end.
"""

import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics.errors import AnalyticsError, make_folder, one_line
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.pipeline.output import Output, finished_name, open_name, state_name
from groupkeeper.analytics.reading.plan import Plan
from groupkeeper.analytics.store import resume
from groupkeeper.analytics.store.days import DAY, NO_DAY
from groupkeeper.analytics.store.durable import sync
from groupkeeper.analytics.store.merge import merge
from groupkeeper.analytics.store.progress import NAME, Progress

if TYPE_CHECKING:
    from groupkeeper.analytics.pipeline.run import Analysis

Plans = Mapping[str, Plan]
"""By topic."""
Newest = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> first offset of its last segment."""
SCRATCH: Final = "scratch"
ANSWERS: Final = "answers"
_RUN: Final = re.compile(r"\.run-\d{6,}-[0-9a-f]{32}")
_FINISHED: Final = re.compile(r"run-(\d{6,})-.*\.parquet")
_OPEN: Final = re.compile(r"open-(\d{6,})-.*\.parquet")


class Store:
    """A context manager: nobody else writes to the folder meanwhile. With `rebuild`, what it holds
    is replaced at the end of the run. Raises AnalyticsError if it is not such a folder.
    """

    def __init__(self, folder: Path, *, rebuild: bool = False) -> None:
        self.folder = folder.resolve()
        self._rebuild = rebuild
        self._lock = -1
        self._staging = self.folder
        self._is_over = False
        self.progress = Progress()

    def __enter__(self) -> Self:
        _check(self.folder)
        make_folder(self.folder)
        self._lock = _locked(self.folder)
        try:
            found = self._read()
            self._recover(found)
        except BaseException:
            os.close(self._lock)
            raise
        self.progress = found or Progress(run=_last_run(self.folder))
        if self._rebuild:
            run = self.progress.run
            self.progress = Progress(run=run, since=run + 1)
        self._staging = self.folder / _staging_name(self.progress.run + 1)
        return self

    def _read(self) -> Progress | None:
        try:
            return Progress.read(self.folder)
        except AnalyticsError:
            if self._rebuild:
                return None
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_over:
            shutil.rmtree(self._staging, ignore_errors=True)
        os.close(self._lock)

    # -- before ----------------------------------------------------------------------------------

    def size(self) -> int:
        """Bytes of all tables that are there."""
        return sum(each.stat().st_size for each in self.folder.glob("*/day=*/*.parquet"))

    def begin(self, groups: frozenset[str]) -> Output:
        """What the run is told. Raises AnalyticsError if the folder holds other groups."""
        progress = self.progress
        if progress.runs and sorted(groups) != progress.groups:
            held = f"the groups {', '.join(progress.groups)}" if progress.groups else "all groups"
            raise AnalyticsError(
                f"{self.folder} holds {held}: ask for the same (--group), name another folder, or "
                "--rebuild"
            )
        progress.groups = sorted(groups)
        before = {
            partition: str(self.folder / state_name(run, partition))
            for partition, run in progress.runs.items()
        }
        unsolved = {
            (topic, partition): place.unsolved
            for topic, of in progress.places.items()
            for partition, place in of.items()
        }
        (self._staging / SCRATCH).mkdir(parents=True)
        return Output(self._staging, progress.run + 1, before, unsolved)

    @property
    def scratch(self) -> str:
        """A folder for files between the stages."""
        return str(self._staging / SCRATCH)

    def check(self, plans: Plans, newest: Newest) -> None:
        """Raises AnalyticsError unless these are the logs that the folder was made from."""
        for topic, places in self.progress.places.items():
            resume.check(plans[topic], places, newest[topic], topic)

    def news(self, plans: Plans) -> dict[str, Plan]:
        """What was not read yet."""
        places = self.progress.places
        return {topic: resume.news(plan, places.get(topic, {})) for topic, plan in plans.items()}

    # -- after -----------------------------------------------------------------------------------

    def counts(self, analysis: "Analysis") -> Counter[tuple[int | None, bool]]:
        """Records of all runs by type."""
        before = {(kind, is_tombstone): n for kind, is_tombstone, n in self.progress.counts}
        return analysis.counts + Counter(before)

    def commit(self, plans: Plans, analysis: "Analysis") -> None:
        """The run counts from now on. `plans`: what was read."""
        is_first = self.progress.run < self.progress.since
        if not analysis.is_news and not is_first:
            return
        report = self._staging / "report"
        report.mkdir()
        for name, table in analysis.tables.items():
            parquet.write_table(table, report / f"{name}.parquet")
        progress = self.progress
        if is_first:
            _write_empty(self._staging, progress.run + 1)
        counts = self.counts(analysis)
        progress.merged = [] if is_first else merge(self.folder, self._staging, progress.run + 1)
        progress.run += 1
        progress.staging = self._staging.name
        progress.counts = [(*kind, count) for kind, count in counts.items()]
        progress.runs |= dict.fromkeys(analysis.folded, progress.run)
        for topic, plan in plans.items():
            before = progress.places.get(topic, {})
            progress.places[topic] = resume.places(plan, before, analysis.ends[topic])
        sync([*_kept(self._staging), self._staging, self.folder])
        self._is_over = True
        progress.write(self.folder)
        self._finish(progress)

    @contextmanager
    def aside(self) -> Iterator[Path]:
        """An empty folder on the same file system, which workers can reach too; it is removed."""
        folder = self.folder / _staging_name(self.progress.run)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # -- what counts, and what does not ------------------------------------------------------------

    def _recover(self, progress: Progress | None) -> None:
        for found in self.folder.iterdir():
            if progress and found.name == progress.staging:
                self._finish(progress)
            elif _RUN.fullmatch(found.name):
                # What a worker still writes there is removed another time.
                shutil.rmtree(found, ignore_errors=True)

    def _finish(self, progress: Progress) -> None:
        """Move the files of the last run, and remove what it replaces; this may be repeated."""
        staging = self.folder / progress.staging
        shutil.rmtree(staging / SCRATCH, ignore_errors=True)
        states = (path for path in staging.glob("state/*") if not path.name.startswith("."))
        changed = {self.folder}
        for path in [*states, *staging.glob("report/*"), *staging.glob("*/*/*.parquet")]:
            place = self.folder / path.relative_to(staging)
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():  # moved before a power cut, which took back only that it left here
                shutil.rmtree(place)
            os.replace(path, place)
            changed |= {place.parent, place.parent.parent}
        sync(changed)
        changed = set()
        for path in [*_stale(self.folder, progress)]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            changed.add(path.parent)
        sync(changed)
        shutil.rmtree(staging)


def write_answers(folder: Path, answers: Mapping[str, pa.Table]) -> None:
    """Those of the last analysis as it was chosen, in `answers/`: a file each."""
    place = folder / ANSWERS
    place.mkdir(exist_ok=True)
    changed: dict[Path, Path] = {}
    for name, table in answers.items():
        path = place / f"{name}.parquet"
        if not _has(path, table):
            attempt = path.with_name(f".{path.name}")
            parquet.write_table(table, attempt)
            changed[attempt] = path
    sync(changed)
    for attempt, path in changed.items():
        os.replace(attempt, path)


def _has(path: Path, table: pa.Table) -> bool:
    """Whether the file has these rows: not if it is broken."""
    try:
        return bool(parquet.read_table(path).equals(table))
    except (ValueError, OSError):
        return False


def _write_empty(staging: Path, run: int) -> None:
    """A file without rows for each table that has none yet: readers find all of them. Its day is
    one that another table has, so that nobody meets a day without rows.
    """
    days = sorted({path.name for path in staging.glob(f"*/{DAY}=*")}) or [f"{DAY}={NO_DAY}"]
    for name, table in TABLES.items():
        if not (staging / name).exists():
            place = staging / name / days[0]
            place.mkdir(parents=True)
            empty = table.schema.empty_table()
            parquet.write_table(empty, place / f"{finished_name(run, 'empty')}.parquet")


def _kept(staging: Path) -> Iterator[Path]:
    """What a run has written that is to stay: files and the folders of their names."""
    for path in staging.rglob("*"):
        parts = path.relative_to(staging).parts
        if parts[0] != SCRATCH and not parts[-1].startswith("."):
            yield path


def _stale(folder: Path, progress: Progress) -> Iterator[Path]:
    """Files whose rows others have now, and answers, until the questions are asked again."""
    states = {Path(state_name(run, each)).name for each, run in progress.runs.items()}
    opened = {f"{open_name(run, each)}.parquet" for each, run in progress.runs.items()}
    yield from filter(Path.exists, (folder / name for name in (ANSWERS, *progress.merged)))
    for path in folder.glob("state/*"):
        if path.name not in states:
            yield path
    for path in folder.glob("*/day=*/*.parquet"):
        finished = _FINISHED.fullmatch(path.name)
        is_old = finished is not None and int(finished[1]) < progress.since
        if is_old or (_OPEN.fullmatch(path.name) and path.name not in opened):
            yield path


def _check(folder: Path) -> None:
    """Never write over or among the files of others."""
    if not folder.exists() or (folder / NAME).is_file():
        return
    if not folder.is_dir() or not all(_is_left_over(path) for path in folder.iterdir()):
        raise AnalyticsError(
            f"{folder} exists: name a new or an empty folder, or one that analyze has written"
        )


def _staging_name(run: int) -> str:
    """A folder that the next run removes if this one was ended. See _RUN."""
    return f".run-{run:06d}-{uuid.uuid4().hex}"


def _is_left_over(path: Path) -> bool:
    """Whether a run that was ended has left it."""
    return path.name == f".{NAME}" or _RUN.fullmatch(path.name) is not None


def _locked(folder: Path) -> int:
    """A lock that ends with the process."""
    if find_spec("fcntl") is None:  # Windows
        raise AnalyticsError(
            "--out needs the file locks (flock) of Linux or macOS, and this system has none: use "
            "--csv or --json instead"
        )
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise AnalyticsError(f"another analysis writes to {folder}: wait until it ends") from None
    except OSError as error:
        os.close(handle)
        raise AnalyticsError(f"{folder} cannot be locked: {one_line(error)}") from None
    return handle


def _last_run(folder: Path) -> int:
    """The highest number in the name of a file."""
    names = (path.name for path in folder.glob("*/day=*/*.parquet"))
    found = (re.match(r"(?:run|open)-(\d{6,})-", name) for name in names)
    return max((int(match[1]) for match in found if match), default=0)
