"""Members that come and go, or fight over one instance id.

A session is a row of `sessions`: the life of one member id. A client is what stays the same over
its restarts: its instance id, or without one its client id and address.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from groupkeeper.analytics.history.schemas import LONG, TEXT, TEXTS, TIME, YES, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import (
    EVIDENCE,
    GROUP,
    PLACE,
    WHY,
    WHY_COLUMNS,
    evidence,
    is_timed,
    most_common,
    rank,
    runs,
    why,
)
from groupkeeper.analytics.questions.rows import Row

_SURE: Final = ("source", "confidence")
WHO: Final = ("instance", "client_id", "host", "software")
MEMBER: Final = (
    Column("member", TEXT, "Member id."),
    Column("instance", TEXT, "`group.instance.id`; null for a dynamic member."),
    Column("client_id", TEXT, "`client.id`; null if it is not known."),
    Column("host", TEXT, "Address; null if it is not known."),
    Column("software", TEXT, "Name and version of the client library; null if it is not known."),
)
REPLACED: Final = "replaced"
LOST: Final = "lost"
"""Ends of sessions: another one has the instance id; the coordinator was lost, and the next one did
not know the member."""
DUEL: Final = "duel"


@question(
    "Duels over an instance id",
    "Two running clients with the same group.instance.id throw each other out: each needs its own.",
    reads={
        "sessions": (
            *("member", *WHO, "from", "began_as", "likely", "partition", "offset", *_SURE),
        ),
        "refusals": ("time", "first", "instance", "error", "count", "likely", "partition"),
    },
    columns=(
        GROUP,
        Column("instance", TEXT, "The instance id."),
        Column("from", TIME, "The first replacement."),
        Column("until", TIME, "The last one."),
        Column("replacements", LONG, "How often it changed hands."),
        Column("hosts", TEXTS, "Addresses of the clients."),
        Column("clients", TEXTS, "Their client ids."),
        Column("fenced", LONG, "Requests that were refused with FENCED_INSTANCE_ID meanwhile."),
        Column("is_stated", YES, "The coordinator saw it as a duel, too."),
        *PLACE,
    ),
)
def duels(
    one: One, *, least: int = 2, each_ms: int = 30_000, within_ms: int = 60_000
) -> Iterator[Row]:
    """Per instance id: at least `least` replacements within `within_ms`, each at most `each_ms`
    after the one before, in which the id goes back to the address or client id that had it before
    the last one; or replacements that the coordinator itself called a duel. Restarts, also one
    after the other on two hosts, never go back.
    """
    owners: dict[str, list[Row]] = defaultdict(list)
    for row in one["sessions"].dicts(
        *("member", *WHO, "from", "began_as", "likely", "partition", "offset", *_SURE)
    ):
        if row["instance"] and row["from"] is not None:
            owners[row["instance"]].append(row)
    refused = one["refusals"].dicts("time", "first", "instance", "error", "count", "likely")
    for instance, rows in sorted(owners.items()):
        for some in _fights(rows, least, each_ms, within_ms):
            since, until = some[0]["from"], some[-1]["from"]
            if until < (one.reach.known_from or 0):
                continue
            fenced = [
                row
                for row in refused
                if (row["instance"], row["error"]) == (instance, "FENCED_INSTANCE_ID")
                and since <= row["time"]
                and first_of(row) <= until + each_ms
            ]
            # The first has the owner before the first replacement.
            fought = rows[max(0, rows.index(some[0]) - 1) : rows.index(some[-1]) + 1]
            yield {
                "group": one.key[0],
                "instance": instance,
                "from": since,
                "until": until,
                "replacements": len(some),
                "hosts": _names(fought, "host"),
                "clients": _names(fought, "client_id"),
                "fenced": sum(row["count"] for row in fenced),
                "is_stated": any(row["likely"] == DUEL for row in [*some, *fenced]),
                **evidence(some),
                **surest(*some),
            }


def first_of(row: Row) -> int:
    """When the first of some refused requests came."""
    return int(row["first"] if row["first"] is not None else row["time"])


def _names(rows: Sequence[Row], column: str) -> list[str]:
    return sorted({row[column] for row in rows if row[column]})[:EVIDENCE]


def _fights(rows: list[Row], least: int, each_ms: int, within_ms: int) -> Iterator[list[Row]]:
    """Replacements close to each other, if the id went back, or a duel is stated."""
    some: list[int] = []
    for index, row in enumerate(rows):
        if row["began_as"] != REPLACED:
            continue
        if some and row["from"] - rows[some[-1]]["from"] > each_ms:
            yield from _if_duel(rows, some, least, within_ms)
            some = []
        some.append(index)
    yield from _if_duel(rows, some, least, within_ms)


def _if_duel(rows: list[Row], some: list[int], least: int, within_ms: int) -> Iterator[list[Row]]:
    found = [rows[index] for index in some]
    times = [row["from"] for row in found]
    is_quick = any(True for _ in runs(times, least, within_ms))
    went_back = any(_went_back(rows[index - 2 : index + 1]) for index in some if index >= 2)
    if len(found) >= least and (
        any(row["likely"] == DUEL for row in found) or (is_quick and went_back)
    ):
        yield found


def _went_back(rows: Sequence[Row]) -> bool:
    """The third owner is on the host of the first, or has its client id; the second is another."""
    return any(
        rows[0][name] and rows[0][name] == rows[2][name] != rows[1][name]
        for name in ("host", "client_id")
    )


_FLAPPING: Final = (
    *("member", *WHO, "from", "until", "began_as", "ended_by", "likely", *WHY),
    *("partition", "offset", *_SURE),
)


@question(
    "Flapping members",
    "Clients that come and go all the time: each change makes the whole group rebalance.",
    reads={"sessions": _FLAPPING},
    columns=(
        GROUP,
        *MEMBER[1:],
        Column("from", TIME, "The first change."),
        Column("until", TIME, "The last one."),
        Column("changes", LONG, "Joins, departures and replacements."),
        Column("joins", LONG, "It joined."),
        Column("departures", LONG, "It left, or was removed."),
        Column("replacements", LONG, "It came back as a static member that was still there."),
        Column("members", LONG, "Under how many member ids."),
        Column("side_by_side", LONG, "The most that ran at one time."),
        Column("ended_by", TEXT, "The most frequent cause of a departure; null: none."),
        Column("likely", TEXT, "What probably is behind it; null without evidence."),
        Column("median_ms", LONG, "Length of its sessions; null: none ended."),
        *WHY_COLUMNS,
        *PLACE,
    ),
)
def flapping(one: One, *, least: int = 6, within_ms: int = 600_000) -> Iterator[Row]:
    """Per client: at least `least` changes within `within_ms`, for each of its members that ran
    side by side: ten consumers of one process that restart once are twenty changes, and no
    flapping. As long as that is so, it is the same row. A member ran until its last request.
    """
    clients: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in one["sessions"].dicts(*_FLAPPING):
        if row["instance"] or row["client_id"]:
            clients[_identity(row)].append(row)
    for _, rows in sorted(clients.items()):
        known = one.reach.known_from or 0
        changes = sorted(
            (change for change in _changes(rows) if change[0] >= known),
            key=lambda change: (change[0], change[1]),
        )
        times = [time for time, _, _ in changes]
        wide = _side_by_side(rows)
        for start, end in runs(times, least * wide, within_ms):
            yield {"group": one.key[0], "side_by_side": wide, **_flapped(changes[start:end])}


def _identity(row: Row) -> tuple[str, str, str]:
    if row["instance"]:
        return row["instance"], "", ""
    return "", row["client_id"] or "", row["host"] or ""


_NOT_TOLD: Final = frozenset({"unknown", "loaded"})
"""Beginnings that are no join: the member was there before."""
_JOIN, _DEPARTURE, _REPLACEMENT = "join", "departure", "replacement"


def _changes(rows: Sequence[Row]) -> Iterator[tuple[int, str, Row]]:
    """Time, kind and session; a session that is replaced ends with the replacement."""
    for row in rows:
        if row["from"] is not None and row["began_as"] not in _NOT_TOLD:
            yield row["from"], _REPLACEMENT if row["began_as"] == REPLACED else _JOIN, row
        if row["until"] is not None and row["ended_by"] not in (REPLACED, LOST):
            yield row["until"], _DEPARTURE, row


def _side_by_side(rows: Sequence[Row]) -> int:
    """The most sessions at one time; each ends with its last request."""
    steps = []
    for row in rows:
        if row["from"] is not None and is_timed(row):
            steps.append((row["from"], 1))
            if row["until"] is not None:
                steps.append((max(row["from"], row["until"] - (row["silent_ms"] or 0)), -1))
    now = most = 0
    for _, step in sorted(steps):  # an end before a beginning at the same time
        now += step
        most = max(most, now)
    return max(1, most)


def _flapped(changes: list[tuple[int, str, Row]]) -> Row:
    kinds = [kind for _, kind, _ in changes]
    rows = [row for _, _, row in changes]
    gone = [row for _, kind, row in changes if kind == _DEPARTURE]
    ended, _ = most_common((row["ended_by"], row["likely"]) for row in gone)
    lengths = (row["until"] - row["from"] for row in gone if row["from"] is not None)
    return {
        **{name: rows[-1][name] for name in WHO},
        "from": changes[0][0],
        "until": changes[-1][0],
        "changes": len(changes),
        "joins": kinds.count(_JOIN),
        "departures": kinds.count(_DEPARTURE),
        "replacements": kinds.count(_REPLACEMENT),
        "members": len({row["member"] for row in rows}),
        "ended_by": ended[0] if ended else None,
        "likely": ended[1] if ended else None,
        "median_ms": rank(lengths, 0.5),
        **why(rows),
        **evidence(rows),
        **surest(*rows),
    }
