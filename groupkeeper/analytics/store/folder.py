"""One run on a folder of tables.

Workers write to this machine. At the end of a run, table files are made from that in a folder that
readers skip. Replacing `state.zip` commits the run; then its files are moved to their places, and
the files they replace are removed. A run that ends before the commit changes nothing; one that ends
after it is finished by the next run. Each step is synced before the next, so a power failure is no
different.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4
from zipfile import ZipFile

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics.errors import AnalyticsError, EngineFailed, make_folder
from groupkeeper.analytics.pipeline.output import OPEN, Output
from groupkeeper.analytics.reading.files import AnyPath, one_line
from groupkeeper.analytics.reading.plan import Plan
from groupkeeper.analytics.store import resume
from groupkeeper.analytics.store.durable import LOCK, PRIVATE, DurableFiles, each, locked
from groupkeeper.analytics.store.resume import ResumePoint
from groupkeeper.analytics.store.tables import DAY, write_tables

if TYPE_CHECKING:
    from groupkeeper.analytics.pipeline.run import Analysis

_Plans = Mapping[str, Plan]
"""By topic."""
_Newest = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> base offset of its last segment."""
ANSWERS: Final = "answers"
_REPORT: Final = "report"
_GOES_ON: Final = ("state/*/*", f"*/{OPEN}-*")
"""Files that the next run continues from: states of partitions, and unfinished rows."""
_PARTITION: Final = re.compile(rf"(?:state/|\w+/{OPEN}-)(-?\d+)")
"""The partition in the names of these files."""


class TableStore:
    """A context manager that locks the folder. With `rebuild`, its content is replaced at the end
    of the run. Raises AnalyticsError if it is not a folder of tables.
    """

    def __init__(self, folder: AnyPath, *, rebuild: bool = False) -> None:
        self.folder = folder.resolve()
        self.progress = ResumePoint()
        self.scratch = ""
        """A local folder for files between the stages."""
        self._files = DurableFiles(self.folder)
        self._rebuild = rebuild
        self._state: ZipFile | None = None

    def __enter__(self) -> Self:
        local = self.folder / PRIVATE if isinstance(self.folder, Path) else None
        with ExitStack() as opened:
            try:
                _check(self._files)
                if local:
                    make_folder(local.parent)
                    local.mkdir(exist_ok=True)
                self._still_ours = opened.enter_context(locked(self._files))
            except OSError as error:
                said = f"{self.folder} cannot be written to: {one_line(error)}"
                raise AnalyticsError(said) from error
            self._read()
            self.scratch = opened.enter_context(TemporaryDirectory("", "groupkeeper-", local))
            self._opened = opened.pop_all()
        return self

    def _read(self) -> None:
        """Read the folder's state. Raises AnalyticsError if it is unreadable, unless rebuilding."""
        try:
            found = resume.read(self._files)
        except AnalyticsError:
            if not self._rebuild:
                raise
            return
        before, state = found or (ResumePoint(), None)
        self._settle(before)
        if not self._rebuild:
            self.progress, self._state = before, state

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    # -- before a run ----------------------------------------------------------------------------

    def size(self) -> int:
        """Return the size of all tables in bytes."""
        return sum(self._tables().values())

    def _tables(self) -> dict[str, int]:
        return {path: size for path, size in self._files.sizes().items() if f"/{DAY}=" in path}

    def begin(self, groups: frozenset[str]) -> Output:
        """Return the run's output. Raises AnalyticsError if the folder holds other groups."""
        before = self.progress
        if before.run and sorted(groups) != before.groups:
            held = f"the groups {', '.join(before.groups)}" if before.groups else "all groups"
            raise AnalyticsError(
                f"{self.folder} holds {held}: ask for the same (--group), name another folder, or "
                "--rebuild"
            )
        before.groups = sorted(groups)
        last = Path(self.scratch, "before")
        if self._state:
            self._state.extractall(last)
        states = {int(path.name): str(path) for path in last.glob("state/*")}
        unsolved = {
            (topic, partition): place.unsolved
            for topic, of in before.places.items()
            for partition, place in of.items()
        }
        return Output(Path(self.scratch, "tables"), states, unsolved)

    def check(self, plans: _Plans, newest: _Newest) -> None:
        """Raise AnalyticsError unless these are the logs that the folder was made from."""
        for topic, places in self.progress.places.items():
            resume.check(plans[topic], places, newest[topic], topic)

    def news(self, plans: _Plans) -> dict[str, Plan]:
        """Return the plans without what was already read."""
        places = self.progress.places
        return {topic: resume.news(plan, places.get(topic, {})) for topic, plan in plans.items()}

    # -- after a run -----------------------------------------------------------------------------

    def counts(self, analysis: "Analysis") -> Counter[tuple[int | None, bool]]:
        """Return the records of all runs by type."""
        before = {(kind, is_tombstone): n for kind, is_tombstone, n in self.progress.counts}
        return analysis.counts + Counter(before)

    def commit(self, plans: _Plans, analysis: "Analysis") -> None:
        """Commit the run, which has read `plans`."""
        now, made = self.progress, Path(self.scratch, "tables")
        if now.run and not analysis.is_news:
            return
        if self._state:
            kept = [
                name
                for name in self._state.namelist()
                if (match := _PARTITION.match(name)) and int(match[1]) not in analysis.folded
            ]
            self._state.extractall(made, kept)
        now.counts = [(*kind, count) for kind, count in self.counts(analysis).items()]
        for topic, plan in plans.items():
            before = now.places.get(topic, {})
            now.places[topic] = resume.places(plan, before, analysis.ends[topic])
        try:
            self._stage(made, analysis.tables)
            self._still_ours()
        except BaseException as error:
            # The disk may be full.
            self._files.remove(now.staged)
            if isinstance(error, OSError):
                said = f"{self.folder} was not written: {one_line(error)}"
                raise EngineFailed(said) from error
            raise
        self._files.move(f"{now.staged}/{resume.NAME}", resume.NAME)
        self._files.sync([PRIVATE])
        shutil.rmtree(made, ignore_errors=True)
        self._settle(now)

    def _stage(self, made: Path, report: Mapping[str, pa.Table]) -> None:
        """Write all files of the run to a folder that readers skip."""
        now, files, old = self.progress, self._files, self._tables()
        goes_on = bool(now.run)
        now.run = f"{int(now.run[:6] or 0) + 1:06d}-{uuid4().hex[:8]}"
        joined = write_tables(made, files, now.staged, now.run, old if goes_on else {})
        for name, table in report.items():
            files.write(f"{now.staged}/{_REPORT}/{name}.parquet", _parquet(table))
        staged = files.sizes(now.staged)
        replaced = [*(joined if goes_on else old), *files.sizes(ANSWERS)]
        now.replaced = [path for path in replaced if f"{now.staged}/{path}" not in staged]
        kept = [path for some in _GOES_ON for path in made.glob(some)]
        files.write(state := f"{now.staged}/{resume.NAME}", now.packed(made, kept))
        files.sync({state, *staged, *_folders([state, *staged])})

    # -- finishing a committed run -----------------------------------------------------------------

    def _settle(self, now: ResumePoint) -> None:
        """Move the files of the last run to their places and remove those they replace; may be
        repeated. Then remove the leftovers of runs that were interrupted.
        """
        files, prefix = self._files, f"{now.staged}/"
        targets = {path.removeprefix(prefix) for path in files.sizes(now.staged)}
        # Moved last: while one of these is staged, the run is known to be unfinished.
        last = {path for path in targets if path.startswith(_REPORT)}
        if targets:
            first = targets - last
            each(lambda path: files.move(prefix + path, path), sorted(first))
            each(files.remove, now.replaced)
            files.sync(_folders([*first, *now.replaced]))
            each(lambda path: files.move(prefix + path, path), sorted(last))
            files.sync(_folders(last))
        kept = {resume.NAME, LOCK, f"{PRIVATE}/{Path(self.scratch).name}"}
        each(files.remove, files.sizes(PRIVATE, recursive=False).keys() - kept)


def write_answers(folder: AnyPath, answers: Mapping[str, pa.Table]) -> None:
    """Write the answers of the last analysis to `answers/`, one file each."""
    files = DurableFiles(folder)

    def write(name: str) -> None:
        path, data = f"{ANSWERS}/{name}.parquet", _parquet(answers[name])
        if files.read(path) != data:
            files.replace(path, data)

    each(write, answers)


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def _folders(paths: Iterable[str]) -> set[str]:
    """Return all folders that contain these paths, at any depth."""
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents}


def _check(files: DurableFiles) -> None:
    """Refuse to write over or among foreign files."""
    try:
        is_ours = {*files.sizes(recursive=False)} <= {PRIVATE} or bool(files.read(resume.NAME))
    except NotADirectoryError:
        is_ours = False
    if not is_ours:
        raise AnalyticsError(
            f"{files.place} exists: name a new or an empty folder, or one that analyze has written"
        )
