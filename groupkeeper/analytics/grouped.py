"""Builds the history of one group from Arrow rows, for engines that group rows, such as Spark.

`feed` turns records into rows of FED; `fold` receives all rows of one group: its records, runs of
its commits, its events with those of its log partition, and the state of an earlier fold.
"""

import json
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.pipeline import feed as feeds
from groupkeeper.analytics.pipeline.chunks import by_partition
from groupkeeper.analytics.pipeline.feed import RUNS, Gaps, commit_runs, group_records, in_order
from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import INT, LONG, TABLES, TEXT
from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, Epochs, Span
from groupkeeper.history.fields import checked
from groupkeeper.history.group import GroupHistory, sound
from groupkeeper.history.newer_topics import Names
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import KnownOffsets, Row, RowWriter
from groupkeeper.history.state import restore, saved
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import TOPIC, Event

BYTES: Final = pa.binary()
FED: Final = pa.schema(
    [
        ("partition", INT),
        ("group", TEXT),
        (
            "record",
            pa.struct(
                [
                    *(("offset", LONG), ("time_ms", LONG), ("leader_epoch", INT), ("batch", LONG)),
                    *(("key_type", INT), ("group", TEXT), ("key", BYTES), ("value", BYTES)),
                ]
            ),
        ),
        ("run", pa.struct([*RUNS])),
        (
            "event",
            pa.struct(
                [
                    *(("offset", LONG), ("seq", LONG), ("epoch", INT), ("node", INT)),
                    *(("at_ms", LONG), ("mono_ms", LONG), ("group", TEXT), ("type", TEXT)),
                    *(("generation", INT), ("state", TEXT), ("round", INT), ("fields", TEXT)),
                ]
            ),
        ),
        ("known_from", LONG),
        ("lost_until", pa.list_(LONG)),
        ("before", TEXT),
    ]
)
"""One of `record`, `run`, `event` and `before` (the state of an earlier fold) is set. `event` is of
the group, or of its log partition and then without a group. `known_from` and `lost_until` state the
completeness of the records (`groupkeeper.history.rows.KnownOffsets`)."""
MADE: Final = (
    *("rounds", "ownership", "sessions", "refusals", "snapshots", "members", "assignments"),
    "configs",
)
"""Tables built per group."""
OPEN: Final = ("rounds", "ownership", "sessions")
"""Tables with rows that a later fold replaces."""
_OF_EVENT: Final = [each.name for each in FED.field("event").type]
_MICRO: Final = pa.timestamp("us", tz="UTC")


def of_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with times in microseconds, the only unit in Spark."""
    return pa.schema(
        [each.with_type(_MICRO) if pa.types.is_timestamp(each.type) else each for each in schema]
    )


def _struct(name: str) -> pa.DataType:
    return pa.struct([*of_spark(TABLES[name].schema)])


SPANS: Final = pa.schema(
    [("partition", INT), *feeds.SPANS, ("lost_until", pa.list_(LONG)), ("before", TEXT)]
)
"""Columns of `history.coverage.Span`; or first offsets after losses; or state of a `cover`."""
SEEN: Final = pa.schema([("partition", INT), *FED.field("event").type, ("before", TEXT)])
"""Events of a log partition, with only `offset` and `at_ms` for other records; or the state of an
earlier `cover_events`."""
COVERED: Final = pa.schema(
    [
        ("partition", INT),
        ("known_from", LONG),
        ("lost_until", pa.list_(LONG)),
        ("epochs", pa.list_(_struct("epochs"))),
        ("last_epoch", pa.list_(_struct("epochs"))),
        ("coverage", pa.list_(_struct("coverage"))),
        ("state", TEXT),
    ]
)
"""Completeness of one partition of a log, its rows of two tables (a later `cover` replaces
`last_epoch` and `coverage`), and the state to continue from."""
FOLDED: Final = pa.schema(
    [
        ("partition", INT),
        ("group", TEXT),
        ("made", TEXT),
        ("is_open", pa.bool_()),
        *((name, _struct(name)) for name in MADE),
        ("state", TEXT),
    ]
)
"""`made` is the table of a row, whose values are in the column of that name, or `state`. `is_open`:
a later fold replaces the row."""


def feed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches of `reading.columns.SCHEMA`, in log order, into rows of FED."""
    for batch in batches:
        for rows in by_partition(batch):
            records = [each._asdict() for each in group_records(rows)]
            made = {
                "record": pa.array(records, FED.field("record").type),
                "run": _structs(commit_runs(rows)),
            }
            for name, each in made.items():
                known = {"partition": rows["partition"][0].as_py(), "group": each.field("group")}
                yield from _filled(FED, len(each), **known, **{name: each}).to_batches()


def span(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches of `reading.columns.SCHEMA`, in log order, into rows of SPANS."""
    found: dict[int, _Gaps] = {}
    for batch in batches:
        for rows in by_partition(batch):
            partition = rows["partition"][0].as_py()
            found.setdefault(partition, _Gaps()).add(rows)
            spans_ = feeds.spans_of(rows)
            known = {each.name: spans_[each.name].combine_chunks() for each in spans_.schema}
            yield from _filled(SPANS, len(spans_), partition=partition, **known).to_batches()
    for partition, gaps in found.items():
        if lost := gaps.lost_until():
            yield from _filled(SPANS, 1, partition=partition, lost_until=lost).to_batches()


class _Gaps:
    """Losses in one log partition, in the files that one task reads."""

    def __init__(self) -> None:
        self._of_files: list[Gaps] = [Gaps()]
        self._last = -1

    def add(self, rows: pa.RecordBatch) -> None:
        """Add parser rows in log order. Positions fall where a new file begins."""
        positions = rows.column("batch_position").filter(rows.column("offset").is_valid())
        if len(positions) and positions.null_count == 0:
            if positions[0].as_py() < self._last:
                self._of_files.append(Gaps())
            self._last = positions[-1].as_py()
        self._of_files[-1].add(rows)

    def lost_until(self) -> list[int]:
        return [offset for each in self._of_files for offset in each.lost_until()]


def cover(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """Turn all rows of SPANS of one log partition into one row of COVERED."""
    partition = key[0].as_py()
    made = _Log(OFFSETS_LOG, partition, rows)
    lost = {each for some in rows.column("lost_until").to_pylist() for each in some or ()}
    lost |= {*made.before.get("lost", ())}
    found = rows.filter(rows.column("first_offset").is_valid()).select(feeds.SPANS.names)
    for each in feeds.spans(found):
        made.coverage.read(each)
        made.epochs.wrote(each)
    return made.covered((*sorted(lost),))


def cover_events(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """Turn all rows of SEEN of one log partition into one row of COVERED."""
    made = _Log(TOPIC, key[0].as_py(), rows)
    found = rows.filter(rows.column("offset").is_valid()).sort_by("offset")
    for row in found.select(_OF_EVENT).to_pylist():
        offset, at_ms = row.pop("offset"), row["at_ms"]
        at_ms = -1 if at_ms is None else at_ms
        span_ = Span(offset, offset, offset, at_ms, row["epoch"], at_ms, at_ms, 1)
        made.coverage.read(span_)
        if row["type"] is not None:
            event = _event(row)
            made.coverage.told(event, offset)
            if event.type in TYPES:
                event = event._replace(fields=checked(event)[0])
            made.epochs.told(event, span_)
    return made.covered()


class _Log:
    """Coverage and epochs of one partition of a log."""

    def __init__(self, log: str, partition: int, rows: pa.Table) -> None:
        self.before: Row = json.loads(_first(rows, "before") or "{}")
        self._over: list[Row] = []
        self.coverage, self.epochs = Coverage(log, partition), Epochs(log, partition, self._over)
        if self.before:
            restore(self.coverage, self.before["coverage"])
            restore(self.epochs, self.before["epochs"])
        self._partition = partition

    def covered(self, lost: tuple[int, ...] = ()) -> pa.Table:
        """Return one row of COVERED."""
        rows = {"epochs": self._over, "last_epoch": self.epochs.last}
        columns = {name: _spark_rows("epochs", each).to_pylist() for name, each in rows.items()}
        columns["coverage"] = _spark_rows("coverage", self.coverage.rows()).to_pylist()
        state = {"coverage": saved(self.coverage), "epochs": saved(self.epochs), "lost": lost}
        row = {
            "partition": self._partition,
            "known_from": self.coverage.whole_from,
            "lost_until": lost,
            "state": json.dumps(state),
        }
        return pa.Table.from_pylist([row | columns], COVERED)


def _event(row: Row) -> Event:
    return Event(**{**row, "fields": json.loads(row["fields"] or "{}")})


def _spark_rows(name: str, rows: list[Row]) -> pa.Table:
    return table_of(name, rows).cast(of_spark(TABLES[name].schema))


def _filled(schema: pa.Schema, count: int, **known: Any) -> pa.Table:
    """Return `count` rows. A column is an array, one value for all rows, or null."""

    def column(field: pa.Field) -> pa.Array:
        value = known.get(field.name)
        return value if isinstance(value, pa.Array) else pa.array([value] * count, field.type)

    return pa.Table.from_arrays([*map(column, schema)], schema=schema)


def _structs(rows: pa.Table) -> pa.Array:
    """Return each row as a struct."""
    columns = [each.combine_chunks() for each in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=[*rows.schema])


def fold(key: tuple[pa.Scalar, pa.Scalar], rows: pa.Table, names: Names) -> pa.Table:
    """Turn all rows of FED of one log partition and group into rows of FOLDED: rows of tables, and
    one with the state. `names`: topic id -> name.
    """
    partition, group = (each.as_py() for each in key)
    out, before = RowWriter(partition, _known(rows)), _first(rows, "before")
    found = GroupHistory(group, out, names)
    if before is not None:
        found = GroupHistory.restore(json.loads(before), out, names)
    events = rows.column("event").drop_null().to_pylist()
    told = (feeds.told_of(row.pop("offset"), _event(row)) for row in events)
    stored = sorted(told, key=itemgetter(0))
    for each in filter(None, map(sound, stored)):
        found.add(each)
    records = sorted(GroupRecord(**each) for each in rows.column("record").drop_null().to_pylist())
    runs = sorted(CommitRun(**each) for each in rows.column("run").drop_null().to_pylist())
    for fed in in_order(records, runs):
        assert isinstance(fed, GroupRecord | CommitRun)
        found.add(fed)
    of = {"partition": partition, "group": group}
    parts = []
    for made, is_open in ((found.take(), False), (found.open(), True)):
        for name in filter(made.get, MADE):
            rows_ = _structs(_spark_rows(name, made[name]))
            columns = of | {"made": name, "is_open": is_open, name: rows_}
            parts.append(_filled(FOLDED, len(rows_), **columns))
    state = json.dumps(found.state())
    parts.append(_filled(FOLDED, 1, **of, made="state", is_open=True, state=state))
    return pa.concat_tables(parts)


def _first(rows: pa.Table, name: str) -> Any:
    values = rows.column(name).drop_null()
    return values[0].as_py() if len(values) else None


def _known(rows: pa.Table) -> KnownOffsets:
    return KnownOffsets(_first(rows, "known_from") or 0, (*(_first(rows, "lost_until") or ()),))
