"""Hand-made tables of an analysis: rows say only what a test is about."""

import pyarrow as pa

from groupkeeper.analytics.questions import registry
from groupkeeper.analytics.questions.question import VIEWS
from groupkeeper.analytics.schemas import TIME

AT = 1_763_800_200_000
"""2025-11-22 08:30:00 UTC."""
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_USUAL = {
    "rounds": {
        "group": "g",
        "partition": 3,
        "epoch": 1,
        "generation": 2,
        "outcome": "completed",
        "cause": "member_left",
        "duration_ms": 1_000,
        "source": "events",
        "confidence": 1.0,
    },
    "ownership": {
        "group": "g",
        "topic": "t",
        "topic_partition": 0,
        "is_owned": True,
        "partition": 3,
        "source": "events",
        "confidence": 1.0,
    },
    "sessions": {
        "group": "g",
        "member": "m",
        "client_id": "c",
        "host": "10.0.0.1",
        "began_as": "dynamic",
        "session_timeout_ms": 45_000,
        "partition": 3,
        "source": "events",
        "confidence": 1.0,
    },
    "refusals": {
        "group": "g",
        "partition": 3,
        "member": "m",
        "api": "Heartbeat",
        "error": "UNKNOWN_MEMBER_ID",
        "count": 1,
    },
    "commit_minutes": {"group": "g", "topic": "t", "topic_partition": 0, "partition": 3},
    "lag": {"group": "g", "topic": "t", "topic_partition": 0},
    "log_ends": {"group": "g", "topic": "t", "topic_partition": 0, "partition": 3},
    "epochs": {"log": "__consumer_offsets", "partition": 3},
    "coverage": {"log": "__group_events", "partition": 3},
}


def table(name, *rows):
    """Times are milliseconds after AT. Offsets are numbers of rows, if they are not given."""
    columns = {each.name: [] for each in VIEWS[name].columns}
    times = {each.name for each in VIEWS[name].columns if each.type == TIME}
    for number, row in enumerate(rows):
        strange = row.keys() - columns.keys()
        assert not strange, f"{name} has no {strange}"
        whole = {"offset": number} | _USUAL.get(name, {}) | row
        for column, values in columns.items():
            value = whole.get(column)
            values.append(AT + value if column in times and value is not None else value)
    return pa.table(columns, VIEWS[name].schema)


def rounds(*rows, lasts=1_000):
    """Rounds that begin at `started` and last a second, unless they say something else."""
    return table(
        "rounds",
        *({"ended": row["started"] + lasts if "started" in row else None} | row for row in rows),
    )


def since(answered, name):
    """A column of times as milliseconds after AT."""
    values = answered[name].cast(pa.int64()).to_pylist()
    return [None if value is None else value - AT for value in values]


def ask(question, **tables):
    return registry.ask(question, tables)


def only(answered):
    (row,) = answered.to_pylist()
    return row
