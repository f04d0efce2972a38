"""The first stage: what one chunk of the plan leaves. It is parsed once.

Of commits, the newest of each key is passed on, and those of transactions that are not decided yet;
everything else is passed on whole. With a folder for tables, all records and commits are written
there, and minutes of commits are passed on.
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
"""Records by key type (None: a control record, or an unreadable key), and whether tombstones."""
_NO_TYPE: Final = -1


@dataclass(frozen=True, slots=True)
class ReadJob:
    """What is the same for all chunks: where files for the next stage go, where tables go if they
    are wanted, and the groups to read (none: all).
    """

    scratch: str
    output: Output | None = None
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChunkPiece:
    """What a chunk leaves of one log partition, by kind: rows of `reading.parse` ("records"), and
    with tables those of `commit_minutes` ("minutes"), RUNS and SPANS.

    `first` and `last` are the log offsets of the records. `lost` are offsets from which on records
    are there again after some were lost.
    """

    partition: int
    first: int
    last: int
    passed: dict[str, Passed]
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """What a chunk leaves: pieces in the order of the log, and where it ended."""

    pieces: tuple[ChunkPiece, ...]
    counts: Counts
    ends: Ends


KINDS: Final = {"records": SCHEMA, "minutes": MINUTES, "runs": RUNS, "spans": SPANS}
"""What is passed on to the second stage."""


def read_chunk(job: ReadJob, item: tuple[int, Chunk]) -> _Found:
    """The first stage, for one numbered chunk."""
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
    """Rows about damage, which have no offset, are no records."""
    kinds = filled(batch, "key_type", _NO_TYPE).astype(np.int64)
    tombstones = batch.column("tombstone").to_numpy(zero_copy_only=False)
    records = batch.column("offset").is_valid().to_numpy(zero_copy_only=False)
    numbers, found = np.unique((kinds * 2 + tombstones)[records], return_counts=True)
    for number, count in zip(numbers.tolist(), found.tolist(), strict=True):
        kind = number // 2
        counts[None if kind == _NO_TYPE else kind, bool(number % 2)] += count


def of_groups(batch: pa.RecordBatch, wanted: pa.Array) -> pa.RecordBatch:
    """Without the records of other groups; markers and problems belong to all."""
    of_all = pc.or_(pc.is_null(batch.column("group")), pc.is_valid(batch.column("problem")))
    return batch.filter(pc.or_(of_all, pc.is_in(batch.column("group"), wanted)))


def by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Neighbouring rows of one log partition."""
    numbers = batch.column("partition").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        if end > start:
            yield batch.slice(start, end - start)


def filled(rows: pa.RecordBatch | pa.Table, name: str, missing: int) -> npt.NDArray[np.int16]:
    """A column with a number for null."""
    return rows.column(name).fill_null(missing).to_numpy()  # type: ignore[no-any-return]  # not typed


class _Run:
    """Rows of a chunk; those of one log partition are neighbours."""

    def __init__(self, spools: Mapping[str, Spool], part: PartWriter | None) -> None:
        self._spools = spools
        self._part = part
        self.ranges: dict[int, tuple[int, int]] = {}
        """First and last log offset of what was passed on, by log partition."""
        self._partition: int | None = None
        self._begin(None)

    def _begin(self, partition: int | None) -> None:
        self._partition = partition
        self._newest = Newest()
        self._minutes = Minutes()
        self._transactions = Transactions()

    def add(self, rows: pa.Table, whole: pa.Table) -> None:
        """Take rows of one log partition in. `whole`: with those of groups that are not wanted,
        which are no holes of the log.
        """
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
        """Pass on what was held back."""
        if self._partition is None:
            return
        self._pass_on(self._transactions.hand_out())
        self._pass_on(self._newest.take())
        if self._part:
            self._pass_minutes()


def kinds_of(rows: pa.Table) -> tuple[_Mask, _Mask]:
    """Which rows are commits without a problem; which are commits of transactions, or markers."""
    attributes = filled(rows, "attributes", 0)
    is_control = attributes & CONTROL != 0
    is_commit = np.isin(filled(rows, "key_type", _NO_TYPE), OFFSET_KEY_TYPES)
    is_commit &= rows.column("problem").is_null().to_numpy() & ~is_control
    return is_commit, (attributes & TRANSACTIONAL != 0) & (is_commit | is_control)
