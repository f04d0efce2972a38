"""The history of one group from rows of Arrow, for engines that group rows, such as Spark.

`feed` makes rows of FED of records, and `fold` takes all rows of one group: its records, runs of
its commits, its events with those of its log partition, and the state of an earlier fold.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.history.epochs import Coverage, Epochs
from groupkeeper.analytics.history.events import EventFold
from groupkeeper.analytics.history.feed import (
    RUNS,
    CommitRun,
    Record,
    Span,
    commit_runs,
    group_records,
    in_order,
    spans_of,
)
from groupkeeper.analytics.history.rows import table_of
from groupkeeper.analytics.history.schemas import INT, LONG, TABLES, TEXT
from groupkeeper.analytics.history.snapshots import SnapshotFold
from groupkeeper.analytics.history.spans import Spans
from groupkeeper.analytics.history.writer import ALL, Known
from groupkeeper.analytics.pipeline.chunks import by_partition
from groupkeeper.analytics.pipeline.told import Gaps
from groupkeeper.protocol.group_events import TYPES, Event
from groupkeeper.why.fields import checked

Names = Mapping[bytes, str]
# Any: each column has its own type.
Row = dict[str, Any]

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
the group, or of its log partition, without a group then. `known_from` and `lost_until` say how far
the log of the records is known (`history.writer.Known`).
"""
MADE: Final = ("rounds", "ownership", "sessions", "refusals", "snapshots", "members", "assignments")
"""Tables that are made of a group."""
OPEN: Final = ("rounds", "ownership", "sessions")
"""Those of them with rows that a later fold replaces."""
_OF_EVENT: Final = [each.name for each in FED.field("event").type]
_MICRO: Final = pa.timestamp("us", tz="UTC")


def of_spark(schema: pa.Schema) -> pa.Schema:
    """The schema with times in microseconds: Spark has no others."""
    return pa.schema(
        [each.with_type(_MICRO) if pa.types.is_timestamp(each.type) else each for each in schema]
    )


def _struct(name: str) -> pa.DataType:
    return pa.struct([*of_spark(TABLES[name].schema)])


SPANS: Final = pa.schema(
    [
        ("partition", INT),
        *(("first_offset", LONG), ("last_offset", LONG), ("whole_from", LONG), ("whole_ms", LONG)),
        *(("leader_epoch", INT), ("first_ms", LONG), ("last_ms", LONG), ("records", LONG)),
        ("lost_until", pa.list_(LONG)),
        ("before", TEXT),
    ]
)
"""Columns of `history.feed.Span`; or offsets behind records that were lost; or the state of an
earlier `cover`.
"""
SEEN: Final = pa.schema([("partition", INT), *FED.field("event").type, ("before", TEXT)])
"""Events of a log partition, and of a record that is no event `offset` and `at_ms` only; or the
state of an earlier `cover_events`.
"""
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
"""How far one partition of a log is known, its rows of two tables (a later `cover` replaces the
last epoch and the coverage), and the state to go on from.
"""
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
"""`made` names the table that a row is of, or is `state`; the column of that name has the row.
`is_open`: a later fold replaces it.
"""


def feed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of `reading.columns.SCHEMA`, in the order of the log -> rows of FED."""
    for batch in batches:
        for rows in by_partition(batch):
            partition = rows.column("partition")[0]
            records = group_records(rows)
            if records:
                made = pa.array([each._asdict() for each in records], FED.field("record").type)
                yield _fed(partition, made.field("group"), "record", made)
            runs = commit_runs(rows)
            if len(runs):
                columns = [each.combine_chunks() for each in runs.columns]
                made = pa.StructArray.from_arrays(columns, fields=[*RUNS])
                yield _fed(partition, made.field("group"), "run", made)


def span(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of `reading.columns.SCHEMA`, in the order of the log -> rows of SPANS."""
    found: dict[int, _Gaps] = {}
    for batch in batches:
        for rows in by_partition(batch):
            partition = rows.column("partition")[0].as_py()
            found.setdefault(partition, _Gaps()).add(rows)
            spans = [each._asdict() | {"partition": partition} for each in spans_of(rows)]
            yield pa.RecordBatch.from_pylist(spans, SPANS)
    lost = [
        {"partition": partition, "lost_until": gaps.lost_until()}
        for partition, gaps in found.items()
    ]
    yield pa.RecordBatch.from_pylist([each for each in lost if each["lost_until"]], SPANS)


class _Gaps:
    """Where records of one log partition were lost, in the files that one task reads."""

    def __init__(self) -> None:
        self._of_files: list[Gaps] = [Gaps()]
        self._last = -1

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of the parser, in the order of the log: positions fall where a file begins."""
        positions = rows.column("batch_position").filter(rows.column("offset").is_valid())
        if len(positions) and positions.null_count == 0:
            if positions[0].as_py() < self._last:
                self._of_files.append(Gaps())
            self._last = positions[-1].as_py()
        self._of_files[-1].add(rows)

    def lost_until(self) -> list[int]:
        return [offset for each in self._of_files for offset in each.lost_until()]


def cover(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """All rows of SPANS of one log partition -> one row of COVERED."""
    partition = key[0].as_py()
    before = json.loads(_first(rows, "before") or "{}")
    lost = {each for some in rows.column("lost_until").to_pylist() for each in some or ()}
    lost |= {*before.get("lost", ())}
    whole = Spans.restore(before["spans"]) if before else Spans(partition)
    found = rows.filter(rows.column("first_offset").is_valid()).sort_by("first_offset")
    for row in found.select(Span._fields).to_pylist():
        whole.add(Span(**row))
    known = Known(whole.whole_from, (*sorted(lost),))
    state = {"spans": whole.state(), "lost": known.lost_until}
    return _covered(partition, known, whole.take(), whole.open(known), state)


def cover_events(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """All rows of SEEN of one log partition -> one row of COVERED."""
    partition = key[0].as_py()
    before = json.loads(_first(rows, "before") or "{}")
    over: list[Row] = []
    coverage, epochs = Coverage(partition), Epochs(partition, over)
    if before:
        coverage = Coverage.restore(before["coverage"])
        epochs = Epochs.restore(partition, over, before["epochs"])
    found = rows.filter(rows.column("offset").is_valid()).sort_by("offset")
    for row in found.select(_OF_EVENT).to_pylist():
        offset = row.pop("offset")
        coverage.read(offset, row["at_ms"])
        if row["type"] is not None:
            event = _event(row)
            coverage.told(event, offset)
            if event.type in TYPES:
                event = event._replace(fields=checked(event)[0])
            epochs.told(event, offset)
    made = {"epochs": epochs.open(), "coverage": coverage.rows()}
    state = {"coverage": coverage.state(), "epochs": epochs.state()}
    return _covered(partition, ALL, over, made, state)


def _event(row: Row) -> Event:
    return Event(**{**row, "fields": json.loads(row["fields"] or "{}")})


def _covered(
    partition: int, known: Known, over: list[Row], made: Mapping[str, list[Row]], state: Row
) -> pa.Table:
    rows = {"epochs": over, "last_epoch": made["epochs"], "coverage": made["coverage"]}
    columns = {
        name: _spark_rows("coverage" if name == "coverage" else "epochs", each).to_pylist()
        for name, each in rows.items()
    }
    of = {"partition": partition, "known_from": known.from_offset, "lost_until": known.lost_until}
    return pa.Table.from_pylist([of | columns | {"state": json.dumps(state)}], COVERED)


def _spark_rows(name: str, rows: list[Row]) -> pa.Table:
    return table_of(name, rows).cast(of_spark(TABLES[name].schema))


def _fed(partition: pa.Scalar, groups: pa.Array, name: str, made: pa.Array) -> pa.RecordBatch:
    known = {"partition": pa.repeat(partition, len(made)), "group": groups, name: made}
    columns = [known.get(each.name, pa.nulls(len(made), each.type)) for each in FED]
    return pa.RecordBatch.from_arrays(columns, schema=FED)


def fold(key: tuple[pa.Scalar, pa.Scalar], rows: pa.Table, names: Names) -> pa.Table:
    """All rows of FED of one log partition and group -> rows of FOLDED: rows of tables, and one
    with the state. `names`: of topics, by id.
    """
    partition, group = (each.as_py() for each in key)
    found = _Fold(partition, group, _known(rows), names, _first(rows, "before"))
    found.add_events(rows.column("event").drop_null().to_pylist())
    records = sorted(Record(**each) for each in rows.column("record").drop_null().to_pylist())
    runs = sorted(CommitRun(**each) for each in rows.column("run").drop_null().to_pylist())
    found.add_records(records, runs)
    parts = [*_rows(found.take(), is_open=False), *_rows(found.open(), is_open=True)]
    state = pa.array([json.dumps(found.state())], TEXT)
    parts.append(_part("state", state, is_open=True))
    table = pa.concat_tables(parts)
    for at, (name, value) in enumerate((("partition", partition), ("group", group))):
        kind = FOLDED.field(name).type
        table = table.set_column(at, name, pa.repeat(pa.scalar(value, kind), len(table)))
    return table


def _first(rows: pa.Table, name: str) -> Any:
    values = rows.column(name).drop_null()
    return values[0].as_py() if len(values) else None


def _known(rows: pa.Table) -> Known:
    return Known(_first(rows, "known_from") or 0, (*(_first(rows, "lost_until") or ()),))


def _rows(made: Mapping[str, list[Row]], *, is_open: bool) -> Iterator[pa.Table]:
    for name in MADE:
        if made.get(name):
            table = _spark_rows(name, made[name])
            columns = [each.combine_chunks() for each in table.columns]
            rows = pa.StructArray.from_arrays(columns, fields=[*table.schema])
            yield _part(name, rows, is_open=is_open)


def _part(name: str, rows: pa.Array, *, is_open: bool) -> pa.Table:
    known = {
        name: rows,
        "made": pa.repeat(name, len(rows)),
        "is_open": pa.repeat(is_open, len(rows)),
    }
    columns = [known.get(each.name, pa.nulls(len(rows), each.type)) for each in FOLDED]
    return pa.Table.from_arrays(columns, schema=FOLDED)


class _Fold:
    """Rows of a group are those of its events, from its first event on; what was before is
    inferred from its records.
    """

    def __init__(
        self, partition: int, group: str, known: Known, names: Names, before: str | None
    ) -> None:
        state = json.loads(before) if before else {}
        self._group = group
        self._told: int | None = state.get("told")
        """When its first event was, in epoch milliseconds."""
        self._events = (
            EventFold.restore(state["events"], ("events",))
            if before
            else EventFold(partition, ("events",))
        )
        self._records = (
            SnapshotFold.restore(state["records"], known, names)
            if before
            else SnapshotFold(partition, known, names)
        )

    def add_events(self, rows: list[Row]) -> None:
        for row in sorted(rows, key=lambda row: int(row["offset"])):
            offset = row.pop("offset")
            event = _event(row)
            if event.group == self._group and self._told is None:
                self._told = event.at_ms
            self._events.add(offset, event)

    def add_records(self, records: Iterable[Record], runs: Iterable[CommitRun]) -> None:
        for each in in_order(records, runs):
            self._records.add(each)

    def take(self) -> dict[str, list[Row]]:
        return self._joined(self._events.take(), self._records.take())

    def open(self) -> dict[str, list[Row]]:
        return self._joined(self._events.open(), self._records.open())

    def _joined(
        self, told: Mapping[str, list[Row]], inferred: Mapping[str, list[Row]]
    ) -> dict[str, list[Row]]:
        rows = {name: [*each] for name, each in told.items()}
        for name, each in inferred.items():
            rows.setdefault(name, []).extend(row for row in each if not self._is_told(name, row))
        return rows

    def _is_told(self, name: str, row: Row) -> bool:
        time = row[TABLES[name].day_of]
        return name in OPEN and self._told is not None and (time is None or time >= self._told)

    def state(self) -> Row:
        return {
            "told": self._told,
            "events": self._events.state(),
            "records": self._records.state(),
        }
