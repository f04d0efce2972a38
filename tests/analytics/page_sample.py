"""Tables as an analysis makes them, made up: of a few groups with stories, or of a thousand. For
tests of the report. The same arguments give the same tables.
"""

import random
from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics import answering
from groupkeeper.analytics.page import ReportHeader
from groupkeeper.analytics.questions.registry import QUESTIONS
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.what_if.question import WHAT_IF

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
START: Final = round(datetime(2026, 11, 9, tzinfo=UTC).timestamp() * 1000)
STORM_DAYS: Final = (3, 8, 9)
LOADS: Final = (START, START + 6 * DAY + 3 * HOUR)
Row = dict[str, Any]

JOINED, LEFT = "member_joined/", "member_left/"
STORIES: Final = (
    ("payments", 34, 41_000, ("join_timeout/slow_member", LEFT + "max_poll_exceeded"), 8, 24),
    ("billing", 20, 6_000, ("session_expired/crash_or_network", JOINED), 6, 12),
    ("shipping-labels", 14, 9_000, (LEFT + "rolling_restart", JOINED + "rolling_restart"), 10, 20),
    ("fraud-check", 9, 12_000, ("static_member_returned_unready/duel",), 4, 8),
    ("search-index", 7, 3_200, ("subscription_changed/", "leader_rejoined/"), 5, 30),
    ("emails", 5, 4_000, (LEFT + "shutdown", JOINED), 3, 6),
    ("warehouse-sync", 4, 3_400, ("session_expired/", JOINED, "operator/"), 4, 12),
    ("analytics-eu-west-1-hourly-aggregation", 3, 5_000, (LEFT, JOINED), 20, 16),
    ("audit", 1, 3_100, (JOINED, LEFT + "shutdown"), 5, 4),
    ("returns", 0.7, 3_000, ("member_rejoined/", JOINED), 3, 9),
    ("invoices-legacy", 0.4, 3_000, ("unknown/",), 1, 3),
    ("<b>promo</b>", 0.3, 3_000, ("member_removed_by_admin/", JOINED), 2, 4),
)
"""Name, rebalances a day, their length in ms, causes in turn (code/likely), members, partitions."""
PLAIN: Final = ("plain", 7, 4_000, (JOINED, LEFT + "shutdown", "session_expired/"), 4, 6)
"""Of all further groups, which have fewer and fewer of its rebalances."""


def tables(groups: int = 12, days: int = 14, *, inferred: bool = False) -> dict[str, pa.Table]:
    """Of the stories, and of groups without one until there are so many."""
    sure = {"source": "log", "confidence": 0.8} if inferred else {"source": "events"}
    chance, rows = random.Random(groups), defaultdict[str, list[Row]](list)
    for story in STORIES[:groups]:
        _tell(rows, chance, days, {"confidence": 1.0} | sure, *story)
    for at in (at for at in LOADS if at < START + days * DAY):
        rows["epochs"].append({"log": "__group_events", "partition": 0, "from": at, "loaded": at})
    for partition in range(50):
        known = 40_000 if partition % 9 == 4 else 0
        read = {"log": "__group_events", "partition": partition, "from": START, "first_offset": 0}
        ends = {"until": START + days * DAY, "known_from": START + known, "records": 210_001}
        rows["coverage"].append(read | ends | {"known_from_offset": known})
    made = {name: table_of(table.schema, rows[name]) for name, table in TABLES.items()}
    if groups > len(STORIES):
        plain = defaultdict[str, list[Row]](list)
        _tell(plain, chance, days, {"confidence": 1.0} | sure, *PLAIN)
        rounds = table_of(TABLES["rounds"].schema, plain["rounds"])
        parts = [made["rounds"]]
        for number in range(len(STORIES), groups):
            some = rounds.slice(number % (len(rounds) // 2))
            name = f"team-{number % 37:02}-service-{number:04}"
            parts.append(some.set_column(0, "group", pa.array([name] * len(some))))
        made["rounds"] = pa.concat_tables(parts).combine_chunks()
    made["findings"] = table_of(answering.SCHEMA, [*map(_finding, range(1, 9), FINDINGS)])
    made["what_if"] = table_of(WHAT_IF.schema, _what_if())
    return made | {name: table_of(QUESTIONS[name].schema, found) for name, found in ANSWERS.items()}


def table_of(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    """Times are given as Unix milliseconds, and columns that are left out are null."""
    columns = {}
    for each in schema:
        values = [row.get(each.name) for row in rows]
        is_time = pa.types.is_timestamp(each.type)
        made = pa.array(values, pa.int64() if is_time else each.type)
        columns[each.name] = made.cast(each.type) if is_time else made
    return pa.table(columns, schema=schema)


def about(**more: Any) -> ReportHeader:
    given: dict[str, Any] = {
        "paths": ["groupkeeper-data"],
        "made": datetime(2026, 11, 23, 3, 0, tzinfo=UTC),
        "version": "0.1.0",
        "records": 10_482_113,
        "read_bytes": 812_344_000,
    }
    return ReportHeader(**(given | more))


def _tell(
    rows: dict[str, list[Row]], chance: random.Random, days: int, sure: Row, *story: Any
) -> None:
    """Add the rows of one group."""
    name, daily, usual_ms, causes, members, partitions = story
    times = [START + chance.randrange(days * DAY) for _ in range(round(daily * days) or 1)]
    for day in (day for day in STORM_DAYS if day < days and daily > 5):
        times += [START + day * DAY + 14 * HOUR + number * MINUTE for number in range(15)]
    times = [at for before, at in pairwise([0, *sorted(times)]) if at - before > 2 * usual_ms]
    word = "".join(filter(str.isalpha, name))
    owners = [f"{word}-{number}-{chance.randrange(16**8):08x}" for number in range(members)]
    plans = [(at, round(usual_ms * chance.uniform(0.2, 1.8))) for at in times]
    for generation, (at, ms) in enumerate(plans, 1):
        code, _, likely = causes[generation % len(causes)].partition("/")
        place = {"group": name, "partition": 3, "offset": generation, "generation": generation}
        length = {"started": at, "ended": at + ms, "duration_ms": ms, "unowned_ms": partitions * ms}
        why = {"cause": code, "likely": likely or None, "by_member": owners[generation % members]}
        amounts = {"members": members, "partitions": partitions, "moved": generation % partitions}
        more = {"outcome": "completed", "protocol": "range", "by_host": "10.0.0.4"}
        rows["rounds"].append(place | length | why | amounts | more | sure)
    for partition in range(partitions):
        place = {"group": name, "topic": "orders", "topic_partition": partition}
        for number, ((at, ms), until) in enumerate(zip(plans, [*times[1:], None], strict=True)):
            owner = (partition + number // 4) % members
            who = {"member": owners[owner], "host": f"10.0.0.{owner + 4}", "is_owned": True}
            nobody = {"from": at, "until": at + ms, "is_owned": False}
            rows["ownership"] += [place | nobody | sure] if number else []
            rows["ownership"].append(place | who | {"from": at + ms, "until": until} | sure)
    place = {"group": name, "topic": "orders", "topic_partition": 0}
    for at in range(START, START + days * DAY, 10 * MINUTE):
        lag = sum(ms for began, ms in plans if at - HOUR < began <= at)
        rows["commit_minutes"].append(place | {"minute": at, "commits": 60 + chance.randrange(60)})
        rows["lag"].append(place | {"time": at, "lag": lag // 10, "lag_ms": lag})


# -- findings and other answers --------------------------------------------------------------------


def _at(day: int, hour: float) -> int:
    return START + round((day - 9) * DAY + hour * HOUR)


_ALWAYS: Final = (_at(9, 0), _at(23, 0))
FINDINGS: Final = (
    (
        *("high", "payments"),
        "The group stood still for 5 h 12 min in 412 rebalances: payments-2 on 10.0.0.6 was late.",
        *(("max.poll.records", "500", "80"), _ALWAYS),
    ),
    (
        *("high", "payments"),
        "30 rebalances in 31 min: each member that was lost came back and started the next one.",
        *(("max.poll.interval.ms", "300000", "480000"), (_at(18, 14.2), _at(18, 14.8))),
    ),
    (
        *("high", "billing"),
        "Members were removed 22 times and came back within 38 s: a pause, not a crash.",
        *(("session.timeout.ms", "10000", "45000"), (_at(12, 14), _at(12, 15))),
    ),
    (
        *("high", "fraud-check"),
        "Two clients use fraud-check-1, on 10.0.0.5 and 10.0.0.7: it changed hands 44 times.",
        *(
            ("group.instance.id", "fraud-check-1", "one for each client"),
            (_at(17, 14), _at(18, 15)),
        ),
    ),
    (
        *("medium", "shipping-labels"),
        "Rolling restarts cost 196 rebalances; members were away for 27 s at most.",
        *(("group.instance.id", None, "one for each client"), _ALWAYS),
    ),
    (
        *("medium", "search-index"),
        "The leader rejoined 98 times because topics came and went.",
        *(("metadata.max.age.ms", "300000", "900000"), _ALWAYS),
    ),
    ("low", "audit", "1 of 5 members never had a partition.", (None, None, None), _ALWAYS),
    (
        *("low", None),
        "The coordinator was restarted, and 12 groups rebalanced within 2 min.",
        *(("group.initial.rebalance.delay.ms", "0", "3000"), (_at(15, 3), _at(15, 3.1))),
    ),
)
"""Severity, group, sentence, setting (now, proposed), time."""


def _finding(number: int, told: tuple[Any, ...]) -> Row:
    severity, group, sentence, (key, now, proposed), (start, end) = told
    evidence = [1_000 + 7 * number + step for step in range(0, 40 + number, 5)]
    row = {"id": f"f{number}", "severity": severity, "group": group, "sentence": sentence}
    row |= {"config_key": key, "now": now, "proposed": proposed, "from": start, "to": end}
    return row | {"evidence": evidence, "partition": number}


ANSWERS: Final[dict[str, list[Row]]] = {
    "barrier": [
        {"group": "payments", "client_id": "payments-2", "host": "10.0.0.6", "held_ms": 9_400_000},
        {"group": "shipping-labels", "client_id": "c", "host": "10.0.0.5", "held_ms": 61_000},
    ],
    "restart_gaps": [
        {
            "group": "shipping-labels",
            "restarts": 90,
            "session_timeout_ms": 45_000,
            "proposed_ms": 60_000,
        },
        {"group": "billing", "restarts": 40, "session_timeout_ms": 10_000, "proposed_ms": 60_000},
    ],
    "idle_members": [
        {"group": STORIES[7][0], "client_id": "a-17", "idle_ms": 864_000_000, "share": 1.0},
        {"group": "audit", "member": "audit-4-1f", "idle_ms": 90_000_000, "share": 0.07},
    ],
}
"""By question; without pictures."""
_TIMEOUTS: Final = (6_000, 10_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000)
_REPLAYED: Final = {
    "billing": (312, 10_000, 290),
    "payments": (560, 45_000, 540),
    "emails": (60, 45_000, 22),
}
"""Group -> rebalances, session timeout of today, rebalances with static members."""


def _what_if() -> list[Row]:
    """As it was, with static members, and curves of session timeouts."""
    rows = []
    for group, (today, now, static) in _REPLAYED.items():
        rows.append(_answer(group, "as it was", today) | {"is_today": True})
        rows.append(_answer(group, "static membership", static))
        for value in _TIMEOUTS:
            rounds = today if value == now else round(today * (now / value) ** 0.6)
            varied = {"setting": "session.timeout.ms", "value": value, "detection_ms": value}
            row = _answer(group, "session timeout", rounds) | varied
            rows.append(row | {"is_today": value == now})
    return rows


def _answer(group: str, scenario: str, rounds: int) -> Row:
    told = {"group": group, "scenario": scenario, "rounds": rounds, "is_today": False}
    return told | {"not_stable_ms": rounds * 6_000, "assumption": "Clients pause when they did."}
