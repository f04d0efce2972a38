"""Feeds the fold of `groupkeeper.history` with one partition, and writes its rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.history.rows import table_of
from groupkeeper.analytics.pipeline.chunks import Piece
from groupkeeper.analytics.pipeline.ends import PROBLEMS, Ends
from groupkeeper.analytics.pipeline.feed import SPANS, group_records, in_order, runs, spans
from groupkeeper.analytics.pipeline.output import Part, Passed, read_all, slices
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS, SCHEMA
from groupkeeper.analytics.reading.parse import parse_split
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, known_of
from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.rows import Rows, Told
from groupkeeper.history.state import restore
from groupkeeper.protocol.group_events import TOPIC, decode

_ROWS: Final = 20_000
"""So many records are Python objects at a time."""
_HISTORY: Final = "history"
_EVENT_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in EVENT_COLUMNS])

Row = dict[str, Any]  # of a table
State = Mapping[str, Any]
"""A JSON object: what the fold goes on from."""
NEW: Final[State] = {}


class History:
    """Events, group records and commits of one partition: all events first."""

    def __init__(
        self,
        partition: int,
        part: Part,
        names: Mapping[bytes, str],
        pieces: Sequence[Piece],
        state: State = NEW,
    ) -> None:
        more = spans(read_all(_of_kind(pieces, "spans"), SPANS))
        lost = [offset for piece in pieces for offset in piece.lost]
        before = state.get(_HISTORY)
        if before:
            read = restore(Coverage(OFFSETS_LOG, partition), before["records"])
            known = known_of(more, [*before["known"][1], *lost], read)
            self._fold = PartitionHistory.restore(before, known, names, part.left_out)
        else:
            known = known_of(more, lost)
            self._fold = PartitionHistory(partition, known, names, part.left_out)
        self._part = part
        self.ends = Ends()

    def read(self, splits: Sequence[Split], groups: frozenset[str]) -> Iterator[pa.Table]:
        """Reads and folds the events of all splits, and writes finished rows; yields rows of
        PROBLEMS. Of `groups`, if there are any.
        """
        for rows in _in_order(splits, self.ends):
            for few in slices(rows, _ROWS):
                found = (self._event(row, groups) for row in few.to_pylist())
                problems = [row for row in found if row is not None]
                yield pa.Table.from_pylist(problems, schema=PROBLEMS)
                _write(self._part, self._fold.take())
        for each in self.ends.problems.values():
            each[:] = [_problem(row, row["problem"]) for row in each]

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """The next piece: tables of `chunks.KINDS`, records by offset."""
        records = (
            record for few in slices(tables["records"], _ROWS) for record in group_records(few)
        )
        for fed in in_order(records, runs(tables["runs"]), spans(tables["spans"])):
            self._fold.add(fed)
        _write(self._part, self._fold.take())

    def finish(self, part: Part) -> State:
        """Write what is not over at the end of the log. Returns what `state` may be later."""
        _write(part, self._fold.open())
        return {_HISTORY: self._fold.state()}

    def _event(self, row: Row, groups: frozenset[str]) -> Row | None:
        """The row of PROBLEMS, if it is no event."""
        if row["offset"] is None or row["problem"]:
            return _problem(row, row["problem"])
        if groups and row["group"] is not None and row["group"] not in groups:
            return None
        if row["tombstone"]:
            self._fold.skip(row["offset"], row["timestamp_ms"])
            return None
        try:
            event = decode(None, row["value"])
        except ValueError as error:
            self._fold.skip(row["offset"], row["timestamp_ms"])
            return _problem(row, f"{Problem.BAD_VALUE.text}: {error}")
        self._fold.add(Told(row["offset"], event))
        return None


def _write(part: Part, rows: Rows) -> None:
    for name, each in rows.items():
        if each and name not in part.left_out:
            part.write(name, table_of(name, each))


def _problem(row: Row, text: str) -> Row:
    return {**row, "problem": f"{text}{', ' if ':' in text else ': '}in {TOPIC}"}


def _in_order(splits: Sequence[Split], ends: Ends) -> Iterator[pa.Table]:
    """Rows by log offset, those about damage before them. Splits with overlapping offsets, as in a
    copy that caught a compaction half-way, come as one.
    """
    together: list[Split] = []
    for split in splits:
        if together and split.first >= max(each.until for each in together):
            yield _parsed(together, ends)
            together = []
        together.append(split)
    if together:
        yield _parsed(together, ends)


def _parsed(splits: Sequence[Split], ends: Ends) -> pa.Table:
    parsed = ((split, parse_split(split, EVENT_COLUMNS)) for split in splits)
    batches = [batch for split, each in parsed for batch in ends.watched(split, each)]
    return pa.Table.from_batches(batches, _EVENT_SCHEMA).sort_by("offset")


def _of_kind(pieces: Sequence[Piece], kind: str) -> list[Passed]:
    return [piece.passed[kind] for piece in pieces if kind in piece.passed]
