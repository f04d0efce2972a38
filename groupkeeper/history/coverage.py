"""The writers of a log partition, and from where it is complete: tables `epochs` and `coverage`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from groupkeeper.history.rows import KnownOffsets, Row, instant
from groupkeeper.protocol.group_events import Event

OFFSETS_LOG: Final = "__consumer_offsets"


class Span(NamedTuple):
    """Consecutive records of one leader epoch. No offset is missing from `whole_from` on, a record
    written at `whole_ms`.
    """

    first_offset: int
    last_offset: int
    whole_from: int
    whole_ms: int
    leader_epoch: int | None
    first_ms: int
    last_ms: int
    records: int


_UNREAD: Final[Row] = {"records": 0, "from": None, "until": None}


class Coverage:
    """The records read of one partition, and the offset from which on none is missing."""

    _row: Row
    _place: tuple[int, int] | None
    """Epoch and `seq` of the last event."""

    def __init__(self, log: str, partition: int) -> None:
        self._row = {"log": log, "partition": partition, **_UNREAD}
        self._place = None

    @property
    def last_offset(self) -> int:
        """The offset of the last record read; -1 before the first."""
        last: int = self._row.get("last_offset", -1)
        return last

    @property
    def whole_from(self) -> int:
        """The offset from which on no record is missing."""
        # Offsets begin at 0: a log that begins later has lost its first records.
        whole: int = self._row.get("known_from_offset", 0)
        return whole

    def read(self, span: Span) -> None:
        """Add the next records, of any kind."""
        row = self._row
        first_offset, last_offset, whole_from, whole_ms, _, first_ms, last_ms, records = span
        if not row["records"]:
            row["first_offset"] = first_offset
            self._known_from(whole_from, whole_ms)
        elif not whole_from == first_offset == row["last_offset"] + 1:
            self._known_from(whole_from, whole_ms)
        if row["from"] is None:
            row["from"] = instant(first_ms)
        row["until"] = instant(last_ms) or row["until"]
        row["last_offset"] = last_offset
        row["records"] += records

    def follows(self, offset: int) -> bool:
        """Return whether the offset is that of the next record, without a gap."""
        return self._row.get("last_offset") == offset - 1 and self._row["from"] is not None

    def add(self, event: Event, offset: int) -> None:
        """Do the work of `read` and `told`, for an event that `follows`."""
        row = self._row
        row["last_offset"], row["until"] = offset, event.at_ms
        row["records"] += 1
        self.told(event, offset)

    def told(self, event: Event, offset: int) -> None:
        """Check the last record, an event, for a gap before it: `seq` rises by 1 in an epoch."""
        place = event.epoch, event.seq
        epoch, seq = self._place or (place[0], place[1] - 1)
        if place[1] != (seq + 1 if place[0] == epoch else 0):
            self._known_from(offset, event.at_ms)
        if event.type == "events_dropped":
            self._known_from(offset + 1, event.at_ms)
        self._place = place

    def _known_from(self, offset: int, at_ms: int) -> None:
        self._row["known_from_offset"], self._row["known_from"] = offset, instant(at_ms)

    def rows(self) -> list[Row]:
        """The row of `coverage`; none if no record was read."""
        return [{**self._row}] if self._row["records"] else []


def known_of(
    spans: Iterable[Span], lost_until: Iterable[int] = (), before: Coverage | None = None
) -> KnownOffsets:
    """Return from where on a partition is known, given all its spans after `before` (updated here).

    `lost_until` lists the first offset after each loss of records. Missing offsets that are not
    listed there were compacted.
    """
    whole = before or Coverage(OFFSETS_LOG, -1)
    for each in spans:
        whole.read(each)
    return KnownOffsets(whole.whole_from, tuple(sorted(lost_until)))


class Epochs:
    """The successive writers of one partition. Rows of finished epochs go to `rows`."""

    _row: Row | None

    def __init__(self, log: str, partition: int, rows: list[Row]) -> None:
        self._about = {"log": log, "partition": partition}
        self._rows = rows
        self._row = None

    def wrote(self, span: Span, node: int | None = None) -> Row:
        """Add the next records, written by `node`. Returns the row of their epoch."""
        row = self._row
        if row is None or (row["epoch"], row["node"]) != (span.leader_epoch, node):
            if row is not None:
                self._rows.append(row)
            row = self._row = {**self._about, "epoch": span.leader_epoch, "node": node}
            row |= {"from": instant(span.first_ms), "first_offset": span.first_offset}
        row["until"], row["last_offset"] = instant(span.last_ms), span.last_offset
        return row

    def is_last(self, event: Event) -> bool:
        """Return whether the event is by the last writer."""
        row = self._row
        return row is not None and row["epoch"] == event.epoch and row["node"] == event.node

    def add(self, event: Event, offset: int) -> None:
        """Do the work of `told`, for a `commits` event by the last writer."""
        assert self._row is not None, "`is_last`"
        self._row["until"], self._row["last_offset"] = event.at_ms, offset

    def told(self, event: Event, span: Span) -> None:
        """Add the next event, with checked fields, and the span of its record."""
        before, fields = self._row, event.fields
        row = self.wrote(span, event.node)
        if event.type == "coordinator_loaded":
            row |= {"loaded": event.at_ms, "load_ms": fields.get("duration_ms")}
            row["groups"] = fields.get("groups")
        elif event.type == "coordinator_closed":
            if before is not None and before is not row and before["node"] == event.node:
                row = {} if before.get("closed") else before  # stored by the next coordinator
            row["closed"], row["why_closed"] = event.at_ms, fields.get("why")
        elif event.type == "not_back":
            row["not_back"] = row.get("not_back", 0) + len(fields.get("absent") or ())

    @property
    def last(self) -> list[Row]:
        """The row of the current writer; empty if no record was read."""
        return [{**self._row}] if self._row is not None else []
