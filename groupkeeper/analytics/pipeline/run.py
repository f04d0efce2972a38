"""Runs an analysis: the first stage reads the chunks of a plan, the second folds the pieces of each
log partition, and the results become the printed tables.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.pipeline import chunks, partitions
from groupkeeper.analytics.pipeline.chunks import ChunkPiece, Counts
from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.pipeline.output import PROBLEMS, Ends, Output, read_tables
from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import Plan, Split, data_folders
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS

_Found = TypeVar("_Found")
StageProgress = Callable[[str, int, int], None]
"""Called before the first and after each work item, with stage, items done, and total."""

NOTHING: Final = Plan((), 0, 0, 0)
_ORDER: Final = {
    "groups": ("group",),
    "members": ("group", "client_id", "member_id"),
    "generations": ("group", "partition", "offset"),
    "offsets": ("group", "topic", "topic_partition"),
    "problems": ("partition", "batch_position", "offset"),
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of an analysis."""

    tables: dict[str, pa.Table]
    """The printed tables by name, sorted."""
    counts: Counts
    """Numbers of records."""
    ends: Mapping[str, Ends]
    """The ends of reading, by topic."""
    folded: tuple[int, ...]
    """Partitions whose rows and state were written."""
    is_news: bool
    """Whether at least one of them has new records."""

    @property
    def records(self) -> int:
        return self.counts.total()


@dataclass(frozen=True, slots=True)
class Trunk:
    """The engine of an analysis, and the folders of its files."""

    engine: Engine
    scratch: str
    """Folder for files from one stage to the next. All processes of the engine need access."""
    output: Output | None = None
    """Destination of the stored tables; None: only the printed tables are made."""
    progress: StageProgress = lambda stage, done, of: None

    def run(
        self,
        plan: Plan,
        groups: frozenset[str] = frozenset(),
        events: Plan = NOTHING,
        names: Mapping[bytes, str] | None = None,
        data: Sequence[str] | None = None,
    ) -> Analysis:
        """Run both stages. `groups`: read only their records; empty: all. `events`: the plan of the
        event log, used only with an `output`. `names` (topic id -> name) and `data` (data folders)
        default to those of the plan.
        """
        pieces, counts, ends = self._read(plan, groups)
        told: defaultdict[int, list[Split]] = defaultdict(list)
        for chunk in events.chunks if self.output else ():
            for split in chunk:
                told[split.partition].append(split)
        before = self.output.before if self.output else {}
        work = [
            partitions.PartitionWork(each, tuple(pieces[each]), tuple(told[each]), before.get(each))
            for each in sorted({*pieces, *told})
        ]
        names = topic_names(plan) if names is None else names
        data = data_folders(plan) if data is None else data
        job = partitions.FoldJob(self.scratch, self.output, names, groups, tuple(data))
        fold = partial(partitions.fold_partition, job)
        made: defaultdict[str, list[pa.Table]] = defaultdict(list)
        of_events = Ends()
        for found in self._watched("groups", len(work), self.engine.map(fold, work)):
            of_events.merge(found.events)
            for name, passed in found.tables.items():
                made[name].append(passed.read())
        folded = tuple(each.partition for each in work)
        for each in sorted(before.keys() - set(folded)):
            for name, table in read_tables(before[each], partitions.SCHEMAS).items():
                made[name].append(table)
        logs = {OFFSETS: ends, EVENTS: of_events}
        is_news = any(each.is_news or each.partition in of_events.ends for each in work)
        return Analysis(self._printed(made, logs), counts, logs, folded, is_news)

    def _printed(
        self, made: Mapping[str, list[pa.Table]], logs: Mapping[str, Ends]
    ) -> dict[str, pa.Table]:
        tables = {
            name: pa.concat_tables([schema.empty_table(), *made.get(name, [])])
            for name, schema in partitions.SCHEMAS.items()
        }
        behind = {**self.output.unsolved} if self.output else {}
        for topic, ends in logs.items():
            behind |= {(topic, partition): rows for partition, rows in ends.problems.items()}
        rows = [row for each in behind.values() for row in each]
        unsolved = pa.Table.from_pylist(rows, PROBLEMS)
        tables["problems"] = pa.concat_tables(
            [tables["problems"], tables.pop("unsolved"), unsolved]
        )
        return {name: _sorted(table, _ORDER[name]) for name, table in tables.items()}

    def _read(
        self, plan: Plan, groups: frozenset[str]
    ) -> tuple[defaultdict[int, list[ChunkPiece]], Counts, Ends]:
        job = chunks.ReadJob(self.scratch, self.output, groups)
        read = partial(chunks.read_chunk, job)
        pieces: defaultdict[int, list[ChunkPiece]] = defaultdict(list)
        counts: Counts = Counter()
        ends = Ends()
        work = [*enumerate(plan.chunks)]
        for found in self._watched("reading", len(work), self.engine.map(read, work)):
            counts += found.counts
            ends.merge(found.ends)
            for piece in found.pieces:
                pieces[piece.partition].append(piece)
        return pieces, counts, ends

    def _watched(self, stage: str, count: int, results: Iterable[_Found]) -> Iterator[_Found]:
        self.progress(stage, 0, count)
        for done, each in enumerate(results, 1):
            yield each
            self.progress(stage, done, count)


def _sorted(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Sort by these columns, null first."""
    columns = {name: table.column(name) for name in names}
    keys = {
        name: each.fill_null("" if pa.types.is_string(each.type) else -1)
        for name, each in columns.items()
    }
    order = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    return table.take(order)
