"""Rows of tables as folds return them: dicts with all columns, times as Unix milliseconds."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from groupkeeper.analytics.history.schemas import TABLES

Row: TypeAlias = dict[str, object]
Rows: TypeAlias = dict[str, list[Row]]
"""Table -> rows."""

_EMPTY: Final[Mapping[str, Row]] = {
    name: dict.fromkeys(each.name for each in table.columns) for name, table in TABLES.items()
}


class Known(NamedTuple):
    """How far a log is known: from `from_offset` on nothing was compacted or lost, and before each
    of `lost_until`, in rising order, records are missing for another reason than compaction.
    """

    from_offset: int = 0
    lost_until: tuple[int, ...] = ()


ALL: Final = Known()
"""Nothing is missing."""


def row(table: str, **values: object) -> Row:
    """A row with these columns, the others null."""
    return {**_EMPTY[table], **values}


class Writer:
    """Collects the rows of one partition of the log, but those of the tables `left_out`: they may
    be most of the work, and nobody may want them.
    """

    def __init__(self, partition: int, known: Known, left_out: Collection[str] = ()) -> None:
        self.partition = partition
        self.known = known
        self.left_out = left_out
        self._rows: Rows = {}

    def add(self, table: str, **values: object) -> None:
        """A row with these columns and the partition."""
        if table in self.left_out:
            return
        whole = {**_EMPTY[table], "partition": self.partition, **values}
        self._rows.setdefault(table, []).append(whole)

    def table(self, name: str) -> list[Row]:
        """Where whole rows of a table are appended: adding one by its columns takes twice as long,
        which matters where each record has many.
        """
        return self._rows.setdefault(name, [])

    def take(self) -> Rows:
        """What was added since the last call."""
        rows, self._rows = self._rows, {}
        return rows
