"""Which records of a log are wanted, and which of its partitions can have them.

All records of a group are in one partition, by Kafka's rule of placement, so that only one folder
has to be read for it: if it is known how many partitions there are. A data directory of Groupkeeper
says so in its file `format`; a copy of a broker's folders does not.
"""

import json
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from groupkeeper.analytics.reading.files import Place
from groupkeeper.protocol.placement import partition_of as partition_of_group

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Selection:
    """Wanted groups, partitions of the log, key types, times of records, [since, until) in epoch
    milliseconds, and log offsets, [first, end) in each partition. None: all.

    A row that has no value to compare is wanted: markers of transactions have no group, and rows
    about damage have nothing.
    """

    groups: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    key_types: frozenset[int] | None = None
    since: int | None = None
    until: int | None = None
    count: int | None = None
    """How many partitions the log has, if the caller knows."""
    first: int | None = None
    end: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `mask` looks at; none if all rows of a partition are wanted."""
        has_times = self.since is not None or self.until is not None
        asked = (
            ("group", self.groups is not None),
            ("key_type", self.key_types is not None),
            ("timestamp_ms", has_times),
            ("offset", self.first is not None or self.end is not None),
        )
        return tuple(name for name, is_asked in asked if is_asked)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows of a batch that has `columns` are wanted."""
        wanted = pa.repeat(True, batch.num_rows)  # a value of the array
        for name in self.columns:
            column = batch.column(name)
            for check in self._checks(name, column):
                wanted = pc.and_(wanted, pc.or_(check.fill_null(False), pc.is_null(column)))
        return wanted

    def _checks(self, name: str, column: pa.Array) -> list[pa.Array]:
        if name in ("timestamp_ms", "offset"):
            is_time = name == "timestamp_ms"
            low, high = (self.since, self.until) if is_time else (self.first, self.end)
            late = [] if low is None else [pc.greater_equal(column, low)]
            return late if high is None else [*late, pc.less(column, high)]
        values = self.groups if name == "group" else self.key_types
        return [pc.is_in(column, pa.array(sorted(values or ()), column.type))]

    def may_have(self, partition: int, count: int | None) -> bool:
        """Whether a partition of the log can have wanted records. `count` is the number of
        partitions that its folder tells; None: it does not.
        """
        if self.partitions is not None and partition not in self.partitions:
            return False
        count = self.count or count
        if self.groups is None or count is None or not 0 <= partition < count:
            return True
        return any(partition_of_group(group, count) == partition for group in self.groups)

    def overlaps(self, first: int, end: int) -> bool:
        """Whether records with offsets [first, end) can be wanted."""
        return (self.first is None or self.first < end) and (self.end is None or first < self.end)

    def within(self, other: "Selection") -> "Selection":
        """What both want."""
        since, until, first, end = (
            [each for each in pair if each is not None]
            for pair in (
                (self.since, other.since),
                (self.until, other.until),
                (self.first, other.first),
                (self.end, other.end),
            )
        )
        return Selection(
            _both(self.groups, other.groups),
            _both(self.partitions, other.partitions),
            _both(self.key_types, other.key_types),
            max(since, default=None),
            min(until, default=None),
            self.count or other.count,
            max(first, default=None),
            min(end, default=None),
        )


def _both(one: frozenset[Value] | None, other: frozenset[Value] | None) -> frozenset[Value] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


EVERYTHING: Final = Selection()


def partition_count(data: Place) -> int | None:
    """The number of partitions that the file `format` of a data directory tells, a line of JSON and
    its checksum; None without it.
    """
    try:
        line, _, said = (data / "format").read_bytes().partition(b"\n")
        shards = json.loads(line)["shards"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_sound = said.strip() == b"%08x" % crc32c(line)
    return shards if is_sound and isinstance(shards, int) and shards > 0 else None
