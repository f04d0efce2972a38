"""Feeds the folds of `groupkeeper.analytics.history` with one partition, and writes their rows.

Rounds, ownership and sessions of a group are those of its events, from its first event on; what was
before is inferred from group records and commits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.history.events import EventFold
from groupkeeper.analytics.history.feed import group_records, in_order
from groupkeeper.analytics.history.rows import table_of
from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.history.snapshots import SnapshotFold
from groupkeeper.analytics.history.spans import Spans, known_of
from groupkeeper.analytics.pipeline.chunks import Piece
from groupkeeper.analytics.pipeline.ends import PROBLEMS, Ends
from groupkeeper.analytics.pipeline.output import Part, Passed, read_all, slices
from groupkeeper.analytics.pipeline.told import SPANS, runs, spans
from groupkeeper.analytics.reading.events import EVENT_SCHEMA, parse_events
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import PROBLEM_TEXTS, Problem
from groupkeeper.protocol.group_events import TOPIC, decode

_ROWS: Final = 20_000
"""So many records are Python objects at a time."""
_BY_BOTH: Final = ("rounds", "ownership", "sessions")
"""Tables that both folds make."""

_EVENTS: Final = "events"
_TOLD: Final = "told"
_HISTORY: Final = "history"

Row = dict[str, Any]  # of a table
State = Mapping[str, Any]
"""A JSON object: what the folds go on from."""
NEW: Final[State] = {}


def _write(part: Part, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for name, each in rows.items():
        if each and name not in part.left_out:
            part.write(name, table_of(name, each))


class Events:
    """Events of one partition."""

    def __init__(
        self, partition: int, part: Part, groups: frozenset[str], state: State = NEW
    ) -> None:
        before = state.get(_EVENTS)
        self._fold = (
            EventFold.restore(before, part.left_out)
            if before
            else EventFold(partition, part.left_out)
        )
        self._part = part
        self._groups = groups
        self.told: dict[str, int] = {**state.get(_TOLD, {})}
        """When the first event of each group was, in epoch milliseconds."""
        self.ends = Ends()

    def read(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """Reads and folds all splits, and writes finished rows; yields rows of PROBLEMS."""
        for rows in _in_order(splits, self.ends):
            for few in slices(rows, _ROWS):
                problems = [*filter(None, map(self._add, few.to_pylist()))]
                yield pa.Table.from_pylist(problems, schema=PROBLEMS)
                _write(self._part, self._fold.take())
        for each in self.ends.problems.values():
            each[:] = [_problem(row, row["problem"]) for row in each]

    def finish(self, part: Part) -> State:
        """Write what is not over at the end of the log. Returns what `state` may be later."""
        _write(part, self._fold.open())
        return {_EVENTS: self._fold.state(), _TOLD: self.told}

    def _add(self, row: Row) -> Row | None:
        """The row of PROBLEMS, if it is no event."""
        if row["offset"] is None or row["problem"]:
            return _problem(row, row["problem"])
        group = row["group"]
        if self._groups and group is not None and group not in self._groups:
            return None
        if not row["tombstone"]:
            try:
                event = decode(None, row["value"])
            except ValueError as error:
                self._fold.skip(row["offset"], row["timestamp_ms"])
                return _problem(row, f"{PROBLEM_TEXTS[Problem.BAD_VALUE]}: {error}")
            if group is not None:
                self.told.setdefault(group, event.at_ms)
            self._fold.add(row["offset"], event)
        else:
            self._fold.skip(row["offset"], row["timestamp_ms"])
        return None


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
    batches = [batch for split in splits for batch in ends.watched(split, parse_events(split))]
    return pa.Table.from_batches(batches, EVENT_SCHEMA).sort_by("offset")


class History:
    """Group records and commits of one partition."""

    def __init__(
        self,
        partition: int,
        part: Part,
        told: Mapping[str, int],
        names: Mapping[bytes, str],
        pieces: Sequence[Piece],
        state: State = NEW,
    ) -> None:
        passed = _of_kind(pieces, "spans")
        lost = [offset for piece in pieces for offset in piece.lost]
        more = spans(read_all(passed, SPANS))
        before = state.get(_HISTORY)
        if before:
            known = known_of(more, [*before["known"][1], *lost], Spans.restore(before["spans"]))
            self._fold = SnapshotFold.restore(before, known, names, part.left_out)
        else:
            known = known_of(more, lost)
            self._fold = SnapshotFold(partition, known, names, part.left_out)
        self._part = part
        self._told = told

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """The next piece: tables of `chunks.KINDS`, records by offset."""
        records = (
            record for few in slices(tables["records"], _ROWS) for record in group_records(few)
        )
        for fed in in_order(records, runs(tables["runs"]), spans(tables["spans"])):
            self._fold.add(fed)
        self._write(self._part, self._fold.take())

    def finish(self, part: Part) -> State:
        """Write what is not over at the end of the log. Returns what `state` may be later."""
        self._write(part, self._fold.open())
        return {_HISTORY: self._fold.state()}

    def _write(self, part: Part, rows: Mapping[str, Sequence[Row]]) -> None:
        inferred = {
            name: [row for row in each if not self._is_told(name, row)]
            for name, each in rows.items()
            if name in _BY_BOTH
        }
        _write(part, {**rows, **inferred})

    def _is_told(self, name: str, row: Row) -> bool:
        """Whether events tell it."""
        first, time = self._told.get(row["group"]), row[TABLES[name].day_of]
        return first is not None and (time is None or time >= first)


def _of_kind(pieces: Sequence[Piece], kind: str) -> list[Passed]:
    return [piece.passed[kind] for piece in pieces if kind in piece.passed]
