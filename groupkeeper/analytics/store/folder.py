"""One run on a folder of tables.

What workers leave is on this machine. At its end a run makes files of tables of that, in a folder
that readers skip. Replacing `state.zip` makes the run count; then its files are moved to their
places, and those that they replace are removed. A run that was ended before that has changed
nothing; what was ended after that is finished by the next one. Each of these steps is on the disk
before the next one begins, so a power cut is no other end.
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
"""Topic -> partition -> first offset of its last segment."""
ANSWERS: Final = "answers"
_REPORT: Final = "report"
_GOES_ON: Final = ("state/*/*", f"*/{OPEN}-*")
"""What the next run goes on from: states of partitions, and rows that are not finished."""
_PARTITION: Final = re.compile(rf"(?:state/|\w+/{OPEN}-)(-?\d+)")
"""In the names of these files."""


class TableStore:
    """A context manager: nobody else writes to the folder meanwhile. With `rebuild`, what it holds
    is replaced at the end of the run. Raises AnalyticsError if it is not such a folder.
    """

    def __init__(self, folder: AnyPath, *, rebuild: bool = False) -> None:
        self.folder = folder.resolve()
        self.progress = ResumePoint()
        self.scratch = ""
        """A folder of this machine for files between the stages."""
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
        """Raises AnalyticsError unless what cannot be read is to be replaced."""
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

    # -- before ----------------------------------------------------------------------------------

    def size(self) -> int:
        """Bytes of all tables that are there."""
        return sum(self._tables().values())

    def _tables(self) -> dict[str, int]:
        return {path: size for path, size in self._files.sizes().items() if f"/{DAY}=" in path}

    def begin(self, groups: frozenset[str]) -> Output:
        """What the run is told. Raises AnalyticsError if the folder holds other groups."""
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
        """Raises AnalyticsError unless these are the logs that the folder was made from."""
        for topic, places in self.progress.places.items():
            resume.check(plans[topic], places, newest[topic], topic)

    def news(self, plans: _Plans) -> dict[str, Plan]:
        """What was not read yet."""
        places = self.progress.places
        return {topic: resume.news(plan, places.get(topic, {})) for topic, plan in plans.items()}

    # -- after -----------------------------------------------------------------------------------

    def counts(self, analysis: "Analysis") -> Counter[tuple[int | None, bool]]:
        """Records of all runs by type."""
        before = {(kind, is_tombstone): n for kind, is_tombstone, n in self.progress.counts}
        return analysis.counts + Counter(before)

    def commit(self, plans: _Plans, analysis: "Analysis") -> None:
        """The run counts from now on. `plans`: what was read."""
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
        """Write all files of the run to where no reader looks."""
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

    # -- what counts, and what does not ------------------------------------------------------------

    def _settle(self, now: ResumePoint) -> None:
        """Move the files of the last run to their places, and remove what they replace; this may be
        repeated. Then remove what runs have left that were ended.
        """
        files, prefix = self._files, f"{now.staged}/"
        targets = {path.removeprefix(prefix) for path in files.sizes(now.staged)}
        # While one of these is left, the rest is known to be unfinished.
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
    """Those of the last analysis as it was chosen, in `answers/`: a file each."""
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
    """Those in which these paths are, at any depth."""
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents}


def _check(files: DurableFiles) -> None:
    """Never write over or among the files of others."""
    try:
        is_ours = {*files.sizes(recursive=False)} <= {PRIVATE} or bool(files.read(resume.NAME))
    except NotADirectoryError:
        is_ours = False
    if not is_ours:
        raise AnalyticsError(
            f"{files.place} exists: name a new or an empty folder, or one that analyze has written"
        )
