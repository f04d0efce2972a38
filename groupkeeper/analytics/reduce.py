"""Reads a log once and keeps the records that the tables need: those that a compaction of each
piece would leave, and everything but commits.

It is done in the workers, where the records were parsed, so that few rows reach Java: the newest
commit of each group, topic and partition in a run of a log, with transactions decided as far as
their marker is in the same run. `groupkeeper.analytics.tables` makes the same of the rows that are
kept as of all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from groupkeeper.analytics.columns import CONTROL, OFFSET_KEY_TYPES, SCHEMA, TRANSACTIONAL
from groupkeeper.analytics.parse import parse_split
from groupkeeper.analytics.plan import Chunk, Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT: Final = "records"
KEPT: Final = SCHEMA.append(pa.field(COUNT, pa.int64()))
"""Records, and rows that count: they have only `key_type`, `tombstone` and `records`."""
MOST_KEYS: Final = 200_000
"""So many commits are held back at most, until they are passed on with fewer of them dropped."""

_KEY: Final = ["group", "topic", "topic_partition"]
_COMMIT_MARKER: Final = b"\0\0\0\1"
_ROWS: Final = 100_000

Mask = npt.NDArray[np.bool_]


def reduced(
    spark: "SparkSession", plan: Plan, parquet_files: Path | None, groups: frozenset[str]
) -> "DataFrame":
    """Rows of KEPT from the chunks of `plan`, or from the files that `bulk.write_records` has made
    of them. With `groups`, those of other groups are dropped, but counted.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    count = len(plan.chunks)
    # One number per partition makes one task per chunk.
    numbers = spark.range(0, count, 1, numPartitions=count)
    folder = None if parquet_files is None else str(parquet_files.resolve())
    read = partial(_read_chunks, plan.chunks, folder, groups)
    return numbers.mapInArrow(read, from_arrow_schema(KEPT))


def _read_chunks(
    chunks: tuple[Chunk, ...],
    folder: str | None,
    groups: frozenset[str],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: takes chunk numbers."""
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from reduce_records(_records(chunks[number], folder, number), groups)


def _records(chunk: Chunk, folder: str | None, number: int) -> Iterator[pa.RecordBatch]:
    if folder is None:
        for split in chunk:
            yield from parse_split(split)
        return
    with parquet.ParquetFile(Path(folder, f"part-{number:05d}.parquet")) as file:
        yield from file.iter_batches(_ROWS)


def reduce_records(
    batches: Iterable[pa.RecordBatch], groups: frozenset[str] = frozenset()
) -> Iterator[pa.RecordBatch]:
    """Rows of SCHEMA, in the order of the log -> rows of KEPT."""
    counts: Counter[tuple[int | None, bool]] = Counter()
    wanted = pa.array(sorted(groups), pa.string()) if groups else None
    run = _Run()
    for batch in batches:
        _count(batch, counts)
        for part in _by_partition(batch if wanted is None else _of_groups(batch, wanted)):
            if (number := part.column("partition")[0].as_py()) != run.partition:
                yield from _finished(run.rest())
                run = _Run(number)
            yield from _finished(run.add(part))
    yield from _finished(run.rest())
    rows = [
        {"key_type": key_type, "tombstone": tombstone, COUNT: count}
        for (key_type, tombstone), count in counts.items()
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=KEPT)


def _count(batch: pa.RecordBatch, counts: Counter[tuple[int | None, bool]]) -> None:
    table = pa.Table.from_batches([batch]).select(["key_type", "tombstone", "offset"])
    for line in (
        table.group_by(["key_type", "tombstone"]).aggregate([("offset", "count")]).to_pylist()
    ):
        if line["offset_count"]:
            counts[line["key_type"], line["tombstone"]] += line["offset_count"]


def _of_groups(batch: pa.RecordBatch, wanted: pa.Array) -> pa.RecordBatch:
    """Without the records of other groups; markers and problems belong to all."""
    of_all = pc.or_(pc.is_null(batch.column("group")), pc.is_valid(batch.column("problem")))
    return batch.filter(pc.or_(of_all, pc.is_in(batch.column("group"), wanted)))


def _by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    numbers = batch.column("partition").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        if end > start:
            yield batch.slice(start, end - start)


def _finished(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        if len(table):
            counted = table.append_column(COUNT, pa.nulls(len(table), pa.int64()))
            yield from counted.cast(KEPT).to_batches(_ROWS)


@dataclass(slots=True)
class _Run:
    """Neighbouring records of one log partition."""

    partition: int | None = None
    newest: pa.Table = field(default_factory=SCHEMA.empty_table)
    pending: pa.Table = field(default_factory=SCHEMA.empty_table)
    """Commits whose transaction has no marker so far."""
    ended: set[int] = field(default_factory=set)
    """Producers with a marker in this run: later ones decide nothing in the runs before."""

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Take records in; what cannot be dropped any more, or must not wait, is given out."""
        table = pa.Table.from_batches([batch])
        attributes = _filled(batch, "attributes", 0)
        is_commit = np.isin(_filled(batch, "key_type", -1), OFFSET_KEY_TYPES)
        is_commit &= batch.column("problem").is_null().to_numpy(zero_copy_only=False)
        transactional, control = attributes & TRANSACTIONAL != 0, attributes & CONTROL != 0
        is_commit &= ~control
        commits = _where(table, is_commit & ~transactional)
        decides = transactional & (is_commit | control)
        if len(self.pending) or decides.any():
            decided, markers = self._decide(_where(table, decides))
            yield markers
            commits = pa.concat_tables([commits, decided])
        yield _where(table, ~is_commit & ~decides)
        self.newest = _newest(pa.concat_tables([self.newest, _newest(commits)]))
        if len(self.newest) > MOST_KEYS:
            yield self.newest
            self.newest = SCHEMA.empty_table()

    def rest(self) -> Iterator[pa.Table]:
        """What was held back."""
        yield self.pending
        yield self.newest

    def _decide(self, more: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Commits of transactions that were committed, and markers that may decide earlier runs.

        A commit is decided by the next marker of its producer.
        """
        table = pa.concat_tables([self.pending, more]).combine_chunks()
        producers = table.column("producer_id").to_numpy()
        is_marker = table.column("attributes").to_numpy() & CONTROL != 0
        commits = pc.equal(table.column("key"), _COMMIT_MARKER).fill_null(False).to_numpy()
        order = np.argsort(producers, kind="stable")
        count = len(order)
        places = np.where(is_marker[order], np.arange(count), count)
        following = np.minimum.accumulate(places[::-1])[::-1]
        # Behind the last one: a place whose producer is its own, and which is no marker.
        at = np.where(following < count, following, np.arange(count))
        next_marker = np.empty(count, np.int64)
        next_marker[order] = order[at]
        is_decided = is_marker[next_marker] & (producers[next_marker] == producers)
        committed = is_decided & commits[next_marker] & ~is_marker
        self.pending = _where(table, ~is_decided)
        return _plain(_where(table, committed)), _where(
            table, self._are_first(producers, is_marker)
        )

    def _are_first(self, producers: npt.NDArray[np.int64], is_marker: Mask) -> Mask:
        """Which rows are the first marker of their producer in this run."""
        first = np.zeros(len(producers), np.bool_)
        places = np.flatnonzero(is_marker)
        found, at = np.unique(producers[places], return_index=True)
        for producer, place in zip(found.tolist(), places[at].tolist(), strict=True):
            if producer not in self.ended:
                self.ended.add(producer)
                first[place] = True
        return first


def _filled(batch: pa.RecordBatch, name: str, missing: int) -> npt.NDArray[np.int16]:
    return batch.column(name).fill_null(missing).to_numpy()  # type: ignore[no-any-return]  # not typed


def _where(table: pa.Table, mask: Mask) -> pa.Table:
    return table.filter(pa.array(mask))


def _plain(table: pa.Table) -> pa.Table:
    """The commits without the mark of their transaction, which is decided."""
    at = SCHEMA.get_field_index("attributes")
    cleared = table.column(at).to_numpy() & ~np.int16(TRANSACTIONAL)
    return table.set_column(at, SCHEMA.field(at), pa.array(cleared, pa.int16()))


def _newest(commits: pa.Table) -> pa.Table:
    """The commit with the highest log offset of each group, topic and partition."""
    found = commits.select([*_KEY, "offset"]).group_by(_KEY).aggregate([("offset", "max")])
    # A log partition has each offset once; where a copy has it twice, the records are the same.
    return commits.filter(pc.is_in(commits.column("offset"), found.column("offset_max")))
