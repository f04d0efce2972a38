"""Who wrote a partition of the log, and from where on nothing is missing in it: the tables `epochs`
and `coverage`, as far as `__group_events` tells.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

from groupkeeper.analytics.history.rows import Row
from groupkeeper.protocol.group_events import TOPIC, Event


class Coverage:
    """What was read of a partition, and since when without a gap."""

    def __init__(self, partition: int) -> None:
        self._row: Row = {
            "log": TOPIC,
            "partition": partition,
            **dict.fromkeys(("first_offset", "last_offset", "from", "until")),
            **dict.fromkeys(("known_from_offset", "known_from")),
            "records": 0,
        }
        self._place: tuple[int, int] | None = None
        """Epoch and seq of the last event."""

    @property
    def last_offset(self) -> int:
        """Of the last record; -1 if there was none."""
        last: int | None = self._row["last_offset"]
        return -1 if last is None else last

    def read(self, offset: int, at_ms: int | None) -> None:
        """A record, of whatever kind; without a time if that is none."""
        row = self._row
        if row["first_offset"] is None:
            row["first_offset"] = offset
        if row["first_offset"] == offset or offset != row["last_offset"] + 1:
            self._known_from(offset, at_ms)
        if at_ms is not None:
            row["from"], row["until"] = at_ms if row["from"] is None else row["from"], at_ms
        row["last_offset"] = offset
        row["records"] += 1

    def told(self, event: Event, offset: int) -> None:
        """The record is an event: were events left out before it?"""
        epoch, seq = self._place or (event.epoch, event.seq - 1)
        if event.seq != (seq + 1 if event.epoch == epoch else 0):
            self._known_from(offset, event.at_ms)
        if event.type == "events_dropped":
            self._known_from(offset + 1, event.at_ms)
        self._place = event.epoch, event.seq

    def _known_from(self, offset: int, at_ms: int | None) -> None:
        self._row["known_from_offset"], self._row["known_from"] = offset, at_ms

    def rows(self) -> list[Row]:
        """One, if anything was read."""
        return [{**self._row}] if self._row["records"] else []

    def state(self) -> dict[str, Any]:
        """All that is remembered, for `restore`: a JSON object."""
        return {"row": {**self._row}, "place": self._place}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """One that goes on where another one was when it returned this `state`."""
        found = cls(state["row"]["partition"])
        found._row = dict(state["row"])
        found._place = None if state["place"] is None else (*state["place"],)
        return found


_LOAD: Final = {"load_ms": "duration_ms", "groups": "groups"}
"""Column -> field of `coordinator_loaded`."""


class Epochs:
    """The writers of a partition, one after the other. `rows` gets those that are over."""

    def __init__(self, partition: int, rows: list[Row]) -> None:
        self._partition = partition
        self._rows = rows
        self._row: Row | None = None

    @property
    def epoch(self) -> int | None:
        """Of the writer; None before the first."""
        return None if self._row is None else self._row["epoch"]

    def told(self, event: Event, offset: int) -> None:
        """The next event, with checked fields."""
        row, kind, fields = self._row, event.type, event.fields
        if row is None or (row["epoch"], row["node"]) != (event.epoch, event.node):
            if row is not None:
                is_late = kind == "coordinator_closed" and row["node"] == event.node
                if is_late and row["closed"] is None:  # the next claim has stored it
                    row["closed"], row["why_closed"] = event.at_ms, fields.get("why")
                self._rows.append(row)
                kind = "" if is_late else kind
            row = self._row = self._begun(event, offset)
        row["until"], row["last_offset"] = event.at_ms, offset
        if kind == "coordinator_loaded":
            row["loaded"] = event.at_ms
            row |= {column: fields.get(name) for column, name in _LOAD.items()}
        elif kind == "coordinator_closed":
            row["closed"], row["why_closed"] = event.at_ms, fields.get("why")
        elif kind == "not_back":
            row["not_back"] = (row["not_back"] or 0) + len(fields.get("absent") or ())

    def _begun(self, event: Event, offset: int) -> Row:
        return {
            "log": TOPIC,
            "partition": self._partition,
            "epoch": event.epoch,
            "node": event.node,
            "from": event.at_ms,
            "until": event.at_ms,
            "first_offset": offset,
            "last_offset": offset,
            **dict.fromkeys(("loaded", "load_ms", "groups", "closed", "why_closed")),
            "not_back": None,
        }

    def open(self) -> list[Row]:
        """The last writer."""
        return [] if self._row is None else [{**self._row}]

    def state(self) -> Row | None:
        """All that is remembered, for `restore`: a JSON object, or None."""
        return self._row and {**self._row}

    @classmethod
    def restore(cls, partition: int, rows: list[Row], state: Row | None) -> Self:
        """One that goes on where another one was when it returned this `state`."""
        found = cls(partition, rows)
        found._row = state and {**state}
        return found
