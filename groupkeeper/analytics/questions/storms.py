"""Storms: a group that rebalances again and again."""

from collections.abc import Iterator
from typing import Final

from groupkeeper.analytics.history.schemas import LONG, TEXT, TIME, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import (
    FOLLOW_UP,
    GROUP,
    PLACE,
    WHY,
    WHY_COLUMNS,
    evidence,
    most_common,
    runs,
    started,
    total,
    why,
)
from groupkeeper.analytics.questions.rates import BEGUN, CAUSE, COST
from groupkeeper.analytics.questions.rows import Row

_CLIENT: Final = ("member", "instance", "client_id", "host", "software")


@question(
    "Storms",
    "Times in which a group rebalanced again and again, and what began most of it.",
    reads={
        "rounds": (*BEGUN, "joined", "removed", "offset"),
        "sessions": (*_CLIENT, "from", "until", "ended_by", *WHY),
    },
    columns=(
        GROUP,
        Column("from", TIME, "The first rebalance began."),
        Column("until", TIME, "The last one ended, or began if it did not end."),
        Column("rounds", LONG, "Rebalances."),
        *CAUSE,
        Column("cause_rounds", LONG, "How many had this cause, the most frequent one."),
        Column("member", TEXT, "Who began most of those: its last member id; null: nobody."),
        Column("instance", TEXT, "The same: instance id."),
        Column("client_id", TEXT, "The same: client id."),
        Column("host", TEXT, "The same: address."),
        Column("software", TEXT, "The same: client library."),
        Column("who_rounds", LONG, "How many of them this client began."),
        Column("clients", LONG, "How many clients began those."),
        Column("joined", LONG, "Members that came."),
        Column("removed", LONG, "Members that went."),
        *WHY_COLUMNS,
        *COST,
        *PLACE,
    ),
)
def storms(one: One, *, least: int = 5, within_ms: int = 600_000) -> Iterator[Row]:
    """At least `least` rebalances of a group that began within `within_ms`; as long as that is so,
    it is the same storm. The cause is the most frequent one, the second rebalance of a cooperative
    change (`member_rejoined`) only if there is no other. The times at the end are of sessions of
    the client that began most, of those that ended or began in the storm.
    """
    sessions = one["sessions"].dicts(*_CLIENT, "from", "until", "ended_by", *WHY)
    rows = [
        row
        for row in one["rounds"].dicts(*BEGUN, "joined", "removed", "offset")
        if started(row) is not None
    ]
    rows.sort(key=started)
    for start, end in runs([started(row) for row in rows], least, within_ms):
        yield {"group": one.key[0], **_storm(rows[start:end], sessions)}


def _storm(rows: list[Row], sessions: list[Row]) -> Row:
    firsts = [row for row in rows if row["cause"] != FOLLOW_UP] or rows
    top, _ = most_common((row["cause"], row["likely"]) for row in firsts)
    cause, likely = top or (None, None)
    some = [row for row in rows if (row["cause"], row["likely"]) == (cause, likely)]
    who, many = most_common(_client(row) for row in some)
    (last,) = [row for row in some if _client(row) == who][-1:]
    ends = [started(row) if row["ended"] is None else row["ended"] for row in rows]
    return {
        "from": started(rows[0]),
        "until": max(ends),
        "rounds": len(rows),
        "cause": cause,
        "likely": likely,
        "cause_rounds": len(some),
        **{name: last[f"by_{name}"] for name in _CLIENT},
        "who_rounds": many if who is not None else 0,
        "clients": len({_client(row) for row in some} - {None}),
        **why(_ended(sessions, last, cause, (started(rows[0]), max(ends)))),
        "joined": total(row["joined"] for row in rows),
        "removed": total(row["removed"] for row in rows),
        "duration_ms": total(row["duration_ms"] for row in rows),
        "unowned_ms": total(row["unowned_ms"] for row in rows),
        **evidence(rows),
        **surest(*rows),
    }


def _ended(
    sessions: list[Row], last: Row, cause: str | None, within: tuple[int, int]
) -> Iterator[Row]:
    """Sessions of a client that ended by the cause, or with which it came back, in some time."""
    wanted = _client(last)
    for row in sessions:
        if wanted is not None and _client({f"by_{name}": row[name] for name in _CLIENT}) == wanted:
            is_end = row["until"] is not None and within[0] <= row["until"] <= within[1]
            is_return = row["from"] is not None and within[0] <= row["from"] <= within[1]
            if (is_end and row["ended_by"] == cause) or (is_return and row["away_ms"] is not None):
                yield row


def _client(row: Row) -> tuple[object, ...] | None:
    """Who triggered a round, the same after a restart; None if nobody did."""
    if row["by_instance"]:
        return (row["by_instance"],)
    found = (row["by_client_id"], row["by_host"]) if row["by_client_id"] else (row["by_member"],)
    return found if any(found) else None
