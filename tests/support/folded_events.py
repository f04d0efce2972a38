"""Events folded into rows of tables, as a test looks at them.

rows = folded(told.events)
[round_] = rows["rounds"]
"""

from collections.abc import Collection, Iterable
from typing import Any

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.rows import Rows, Told
from groupkeeper.protocol.group_events import Event
from tests.support.told_events import NOON

PARTITION = 7


def folding(events: Iterable[Event], left_out: Collection[str] = ()) -> PartitionHistory:
    """A fold that has the events, at offsets from 0 on."""
    fold = PartitionHistory(PARTITION, left_out=left_out)
    for offset, event in enumerate(events):
        fold.add(Told(offset, event))
    return fold


def whole(finished: Rows, under_way: Rows) -> Rows:
    """Rows of both kinds together, by table, with all columns."""
    return {
        name: [
            {**dict.fromkeys(table.schema.names), **row}
            for row in (*finished.get(name, []), *under_way.get(name, []))
        ]
        for name, table in TABLES.items()
    }


def folded(events: Iterable[Event]) -> Rows:
    """All rows, those under way included; each fits into its table."""
    fold = folding(events)
    rows = whole(fold.take(), fold.open())
    for name, each in rows.items():
        table_of(name, each)
    return rows


def owners(
    rows: Rows, topic: str = "orders"
) -> dict[int, list[tuple[str | None, int, int | None]]]:
    """Of each partition of a topic: its owners, or None, with milliseconds since the begin."""
    found = dict[int, list[tuple[str | None, int, int | None]]]()
    for row in sorted(rows["ownership"], key=lambda row: row["from"]):
        if row["topic"] == topic:
            until = None if row["until"] is None else row["until"] - NOON
            found.setdefault(row["topic_partition"], []).append(
                (row["member"], row["from"] - NOON, until)
            )
            assert row["is_owned"] == (row["member"] is not None)
    return found


def plan(**partitions: Iterable[int]) -> list[dict[str, Any]]:
    """An assignment of partitions of `orders` by member."""
    return [
        {"member": member, "instance": None, "partitions": {"orders": [*some]}}
        for member, some in partitions.items()
    ]
