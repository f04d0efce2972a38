"""The first stage of an analysis: parses one chunk of the plan and passes on what the second needs.

Passed on are the newest commit of each key, undecided transactional commits, and all other records.
With a folder for tables, all records and commits are also written there, and minutes of commits are
passed on.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.pipeline.commits import (
    MINUTES,
    MOST_PENDING,
    Minutes,
    Newest,
    Transactions,
    commit_rows,
)
from groupkeeper.analytics.pipeline.feed import RUNS, SPANS, Gaps, commit_runs, spans_of
from groupkeeper.analytics.pipeline.output import Ends, Output, PartWriter, Passed, Spool
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import CONTROL, OFFSET_KEY_TYPES, SCHEMA, TRANSACTIONAL
from groupkeeper.analytics.reading.plan import Chunk

_Mask = npt.NDArray[np.bool_]
Counts = Counter[tuple[int | None, bool]]
"""(key type, is tombstone) -> records; the type is None for control records and unreadable keys."""
_NO_TYPE: Final = -1


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Input common to all chunks: where files for the next stage go, where tables go if wanted, and
    the groups to read (empty: all).
    """

    scratch: str
    output: Output | None = None
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChunkPiece:
    """The result of a chunk for one log partition, by kind: rows of `reading.parse` ("records")
    and, with tables, rows of `commit_minutes` ("minutes"), RUNS and SPANS.

    `first` and `last` are the log offsets of the records. `lost` are the first offsets after
    losses.
    """

    partition: int
    first: int
    last: int
    passed: dict[str, Passed]
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a chunk: pieces in log order, and where reading ended."""

    pieces: tuple[ChunkPiece, ...]
    counts: Counts
    ends: Ends


KINDS: Final = {"records": SCHEMA, "minutes": MINUTES, "runs": RUNS, "spans": SPANS}
"""Kinds of rows passed on to the second stage."""


def read_chunk(job: ReadJob, item: tuple[int, Chunk]) -> _Found:
    """Run the first stage for one numbered chunk."""
    number, chunk = item
    name = f"part-{number:05d}"
    counts: Counts = Counter()
    ends = Ends()
    lost: defaultdict[int, list[int]] = defaultdict(list)
    wanted = pa.array(sorted(job.groups), pa.string()) if job.groups else None
    with ExitStack() as files:
        part = files.enter_context(job.output.part(name)) if job.output else None
        kinds = KINDS if part else ("records",)
        spools = {kind: files.enter_context(Spool(job.scratch, f"{name}-{kind}")) for kind in kinds}
        run = _Run(spools, part)
        for split in chunk:
            gaps = Gaps()
            for batch in ends.watched(split, parse_split(split)):
                _count(batch, counts)
                if part is not None:
                    part.write("records", batch)
                    gaps.add(batch)
                for whole in by_partition(batch):
                    few = whole if wanted is None else of_groups(whole, wanted)
                    run.add(pa.Table.from_batches([few]), pa.Table.from_batches([whole]))
            lost[split.partition] += gaps.lost_until()
        run.end()
    return _Found(tuple(_pieces(spools, run.ranges, lost)), counts, ends)


def _pieces(
    spools: Mapping[str, Spool],
    ranges: Mapping[int, tuple[int, int]],
    lost: Mapping[int, Sequence[int]],
) -> Iterator[ChunkPiece]:
    found = {kind: spool.passed() for kind, spool in spools.items()}
    for of in sorted(set().union(*found.values())):
        passed = {kind: each[of] for kind, each in found.items() if of in each}
        yield ChunkPiece(of, *ranges.get(of, (0, -1)), passed, tuple(lost[of]))


def _count(batch: pa.RecordBatch, counts: Counts) -> None:
    """Count records; rows about damage, without an offset, do not count."""
    kinds = filled(batch, "key_type", _NO_TYPE).astype(np.int64)
    tombstones = batch.column("tombstone").to_numpy(zero_copy_only=False)
    records = batch.column("offset").is_valid().to_numpy(zero_copy_only=False)
    numbers, found = np.unique((kinds * 2 + tombstones)[records], return_counts=True)
    for number, count in zip(numbers.tolist(), found.tolist(), strict=True):
        kind = number // 2
        counts[None if kind == _NO_TYPE else kind, bool(number % 2)] += count


def of_groups(batch: pa.RecordBatch, wanted: pa.Array) -> pa.RecordBatch:
    """Drop the records of other groups; markers and problems concern all."""
    of_all = pc.or_(pc.is_null(batch.column("group")), pc.is_valid(batch.column("problem")))
    return batch.filter(pc.or_(of_all, pc.is_in(batch.column("group"), wanted)))


def by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield runs of adjacent rows of one log partition."""
    numbers = batch.column("partition").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        if end > start:
            yield batch.slice(start, end - start)


def filled(rows: pa.RecordBatch | pa.Table, name: str, missing: int) -> npt.NDArray[np.int16]:
    """Return a column with a number for null."""
    return rows.column(name).fill_null(missing).to_numpy()  # type: ignore[no-any-return]  # not typed


class _Run:
    """The rows of a chunk; those of one log partition are adjacent."""

    def __init__(self, spools: Mapping[str, Spool], part: PartWriter | None) -> None:
        self._spools = spools
        self._part = part
        self.ranges: dict[int, tuple[int, int]] = {}
        """Log partition -> first and last offset passed on."""
        self._partition: int | None = None
        self._begin(None)

    def _begin(self, partition: int | None) -> None:
        self._partition = partition
        self._newest = Newest()
        self._minutes = Minutes()
        self._transactions = Transactions()

    def add(self, rows: pa.Table, whole: pa.Table) -> None:
        """Add rows of one log partition. `whole` includes unwanted groups, which are not gaps."""
        partition = whole.column("partition")[0].as_py()
        if partition != self._partition:
            self.end()
            self._begin(partition)
        if self._part:
            self._spools["runs"].write(partition, commit_runs(rows))
            self._spools["spans"].write(partition, spans_of(whole))
        is_commit, decides = kinds_of(rows)
        if is_commit.all() and not decides.any():
            self._count_in(rows)
            return
        self._pass_on(rows.filter(pa.array(~is_commit & ~decides)))
        commits = rows.filter(pa.array(is_commit & ~decides))
        if decides.any():
            decided, aborted, markers = self._transactions.decide(rows.filter(pa.array(decides)))
            self._pass_on(markers)
            self._newest.add(aborted)
            commits = pa.concat_tables([commits, decided])
            if len(self._transactions.pending) > MOST_PENDING:
                self._pass_on(self._transactions.hand_out())
        self._count_in(commits)

    def _count_in(self, commits: pa.Table) -> None:
        if not len(commits):
            return
        self._newest.add(commits)
        if self._newest.is_full:
            self._pass_on(self._newest.take())
        if self._part:
            self._part.write("commits", commit_rows(commits))
            self._minutes.add(commits)
            if self._minutes.is_full:
                self._pass_minutes()

    def _pass_on(self, rows: pa.Table) -> None:
        assert self._partition is not None
        self._spools["records"].write(self._partition, rows)
        ends = pc.min_max(rows.column("offset")).as_py()
        if ends["min"] is not None:
            first, last = self.ranges.get(self._partition, (ends["min"], -1))
            self.ranges[self._partition] = min(first, ends["min"]), max(last, ends["max"])

    def _pass_minutes(self) -> None:
        assert self._partition is not None
        self._spools["minutes"].write(self._partition, self._minutes.take())

    def end(self) -> None:
        """Pass on all held rows."""
        if self._partition is None:
            return
        self._pass_on(self._transactions.hand_out())
        self._pass_on(self._newest.take())
        if self._part:
            self._pass_minutes()


def kinds_of(rows: pa.Table) -> tuple[_Mask, _Mask]:
    """Return which rows are sound commits, and which are transactional commits or markers."""
    attributes = filled(rows, "attributes", 0)
    is_control = attributes & CONTROL != 0
    is_commit = np.isin(filled(rows, "key_type", _NO_TYPE), OFFSET_KEY_TYPES)
    is_commit &= rows.column("problem").is_null().to_numpy() & ~is_control
    return is_commit, (attributes & TRANSACTIONAL != 0) & (is_commit | is_control)
