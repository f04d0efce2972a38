"""Where the reading of a log partition ended: its last record, and problems behind that, which are
found again, or found solved, when the log is longer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.schemas import INT, LONG, TEXT

PROBLEMS: Final = pa.schema(
    [
        ("partition", INT),
        ("batch_position", LONG),
        ("offset", LONG),
        ("problem_bytes", LONG),
        ("problem", TEXT),
    ]
)
Row = dict[str, Any]  # of PROBLEMS


@dataclass(frozen=True, slots=True)
class End:
    """The last record of a partition: its log offset, and where its batch is."""

    offset: int
    path: str
    position: int


@dataclass(slots=True)
class Ends:
    """By log partition; `problems` are those behind the last record, as rows of PROBLEMS."""

    ends: dict[int, End] = field(default_factory=dict)
    problems: dict[int, list[Row]] = field(default_factory=dict)

    def merge(self, other: "Ends") -> None:
        """Take in what was found behind this."""
        self.ends |= other.ends
        self.problems |= other.problems

    def watched(self, split: Split, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches that the parser has made of the split, without rows about problems behind the
        last record of the log.
        """
        last = -1
        held: list[pa.RecordBatch] = []
        for batch in batches:
            is_record = batch.column("offset").is_valid()
            if is_record.true_count:
                last = max(last, self._seen(split, batch))
            if split.last and is_record.true_count < len(batch):
                held.append(batch.filter(pc.invert(is_record)))
                yield batch.filter(is_record)
            else:
                yield batch
        if split.last:
            self.problems[split.partition] = []
        for batch in held:
            is_behind = pc.greater(batch.column("batch_position"), last)
            behind = batch.filter(is_behind).select(PROBLEMS.names)
            self.problems[split.partition] += behind.to_pylist()
            if len(behind) < len(batch):
                yield batch.filter(pc.invert(is_behind))

    def _seen(self, split: Split, batch: pa.RecordBatch) -> int:
        """The position of the batch with the highest offset."""
        offsets = batch.column("offset")
        highest = pc.max(offsets).as_py()
        position = batch.column("batch_position")[pc.index(offsets, highest).as_py()].as_py()
        known = self.ends.get(split.partition)
        if known is None or highest >= known.offset:
            self.ends[split.partition] = End(highest, split.path, position)
        return int(position)
