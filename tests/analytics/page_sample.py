"""Tables as an analysis makes them, made up: of a few groups with stories, or of a thousand.

The same arguments give the same tables. `python -m tests.analytics.page_sample FILE [GROUPS]`
writes the report of them.
"""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.page import ReportHeader, render
from groupkeeper.analytics.schemas import TABLES
from tests.analytics.page_findings import (
    FINDINGS,
    FINDINGS_SCHEMA,
    WHAT_IF_SCHEMA,
    answers,
    what_if,
)

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
START = round(datetime(2026, 11, 9, tzinfo=UTC).timestamp() * 1000)
DAYS = 14
STORM_DAYS = ((3, 22), (8, 14), (9, 30))
RESTART = START + 6 * DAY + 3 * HOUR
TOPIC = "orders"
TOLD = 60
"""Groups whose rebalances are made one by one; others repeat those of the ones without a story."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Story:
    name: str
    daily: float
    """Rebalances."""
    usual_ms: int
    causes: Mapping[str, int]
    """Code/likely -> weight."""
    members: int
    partitions: int
    session_ms: int = 45_000


STORIES = (
    Story(
        "payments",
        34,
        41_000,
        {"join_timeout/slow_member": 6, "member_left/max_poll_exceeded": 5, "member_joined/": 5},
        8,
        24,
    ),
    Story(
        "billing",
        20,
        6_000,
        {"session_expired/crash_or_network": 6, "member_joined/": 5},
        6,
        12,
        session_ms=10_000,
    ),
    Story(
        "shipping-labels",
        14,
        9_000,
        {"member_left/rolling_restart": 5, "member_joined/rolling_restart": 5},
        10,
        20,
    ),
    Story(
        "fraud-check",
        9,
        12_000,
        {"static_member_returned_unready/duel": 4, "static_member_joined/": 1},
        4,
        8,
    ),
    Story("search-index", 7, 3_200, {"subscription_changed/": 3, "leader_rejoined/": 4}, 5, 30),
    Story("emails", 5, 4_000, {"member_left/shutdown": 3, "member_joined/": 3}, 3, 6),
    Story(
        "warehouse-sync",
        4,
        3_400,
        {"session_expired/": 2, "member_joined/": 2, "operator/": 1},
        4,
        12,
    ),
    Story(
        "analytics-eu-west-1-hourly-aggregation",
        3,
        5_000,
        {"member_left/": 2, "member_joined/": 2},
        20,
        16,
    ),
    Story("audit", 1, 3_100, {"member_joined/": 1, "member_left/shutdown": 1}, 5, 4),
    Story("returns", 0.7, 3_000, {"member_rejoined/": 2, "member_joined/": 1}, 3, 9),
    Story("invoices-legacy", 0.4, 3_000, {"unknown/": 1}, 1, 3),
    Story("<b>promo</b>", 0.3, 3_000, {"member_removed_by_admin/": 1, "member_joined/": 1}, 2, 4),
)


@dataclass
class Sample:
    """Rows of all tables, while they are made."""

    chance: random.Random
    days: int
    sure: Row
    """The columns `source` and `confidence`."""
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    offset: int = 0

    @property
    def end(self) -> int:
        return START + self.days * DAY

    def add(self, table: str, **values: Any) -> None:
        self.rows[table].append(values)


def tables(groups: int = 12, days: int = DAYS, *, inferred: bool = False) -> dict[str, pa.Table]:
    """Of the stories, and of groups without one until there are so many."""
    sure = {"source": "log", "confidence": 0.8} if inferred else {"source": "events"}
    sample = Sample(random.Random(groups), days, {"confidence": 1.0} | sure)
    for story in STORIES[:groups]:
        _tell(sample, story)
    for number in range(len(STORIES), min(groups, TOLD)):
        _plain_group(sample, _plain_name(number))
    _logs(sample)
    made = {name: table_of(TABLES[name].schema, rows) for name, rows in sample.rows.items()}
    for name in ("rounds", "sessions"):
        made[name] = _repeated(made[name], groups)
    made["findings"] = table_of(FINDINGS_SCHEMA, FINDINGS)
    made["what_if"] = table_of(WHAT_IF_SCHEMA, what_if())
    return made | answers()


def _plain_name(number: int) -> str:
    return f"team-{number % 37:02}-service-{number:04}"


def _repeated(content: pa.Table, groups: int) -> pa.Table:
    """The rows of groups without a story again for groups with higher numbers."""
    parts = [content]
    for first in range(TOLD, groups, TOLD - len(STORIES)):
        names = [_plain_name(number) for number in range(len(STORIES), TOLD)]
        others = [
            _plain_name(first + at) if first + at < groups else None for at in range(len(names))
        ]
        places = pc.index_in(content["group"], value_set=pa.array(names))
        group = pa.array(others, pa.string()).take(places)
        moved = content.set_column(content.column_names.index("group"), "group", group)
        parts.append(moved.filter(pc.is_valid(moved["group"])))
    return pa.concat_tables(parts)


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


# -- one group -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """One rebalance of a story."""

    at: int
    ms: int
    members: list[str]


def _tell(sample: Sample, story: Story) -> None:
    chance = sample.chance
    word = _word(story.name)
    members = [f"{word}-{number}-{_hex(chance)}" for number in range(story.members)]
    plans: list[Plan] = []
    busy = 0
    for at in _moments(sample, story):
        if at < busy:
            continue
        ms = max(200, round(chance.lognormvariate(0, 0.7) * story.usual_ms))
        busy = at + ms + 2 * SECOND
        _round(sample, story, members, len(plans) + 1, at, ms)
        plans.append(Plan(at, ms, [*members]))
    if plans:
        _ownership(sample, story, plans)
        _last_members(sample, story, plans)
    _commits(sample, story, plans)


def _moments(sample: Sample, story: Story) -> list[int]:
    """More by day than by night; storms on some days; and the restart of the coordinator."""
    times = _times(sample, story.daily)
    for day, number in STORM_DAYS:
        if story.daily > 5 and day < sample.days:
            at = START + day * DAY + 14 * HOUR + sample.chance.randrange(HOUR)
            for _ in range(number):
                at += sample.chance.randrange(25 * SECOND, 80 * SECOND)
                times.append(at)
    return sorted([*times, RESTART + 2 * MINUTE] if sample.end > RESTART + HOUR else times)


def _times(sample: Sample, daily: float) -> list[int]:
    chance, found = sample.chance, []
    for day in range(sample.days):
        is_weekend = (START // DAY + 3 + day) % 7 >= 5
        for _ in range(_poisson(chance, daily * (0.3 if is_weekend else 1.2))):
            is_usual = chance.random() < 0.8
            hour = chance.triangular(6, 24, 11) if is_usual else chance.uniform(0, 24)
            found.append(START + day * DAY + round(hour % 24 * HOUR))
    return sorted(found)


def _poisson(chance: random.Random, mean: float) -> int:
    number, left = 0, chance.expovariate(1.0)
    while left < mean:
        number, left = number + 1, left + chance.expovariate(1.0)
    return number


def _hex(chance: random.Random) -> str:
    return f"{chance.randrange(16**8):08x}"


def _word(name: str) -> str:
    return "".join(each for each in name if each.isalnum() or each == "-")[:16]


def _plain_group(sample: Sample, name: str) -> None:
    chance = sample.chance
    daily = min(chance.paretovariate(1.1) * 2.2, 40)
    causes = {
        "member_joined/": 3,
        "member_left/shutdown": 2,
        "session_expired/": chance.randrange(3),
    }
    story = Story(name, daily, 4_000, causes, chance.randrange(1, 9), 6)
    members = [f"m{number}-{_hex(chance)}" for number in range(story.members)]
    for generation, at in enumerate(_times(sample, daily), 1):
        _round(sample, story, members, generation, at, chance.randrange(500, 9_000))


def _round(
    sample: Sample, story: Story, members: list[str], generation: int, at: int, ms: int
) -> None:
    chance = sample.chance
    cause = chance.choices([*story.causes], [*story.causes.values()])[0]
    code, _, likely = cause.partition("/")
    word, who = _word(story.name), chance.randrange(len(members))
    is_slow = likely in ("slow_member", "max_poll_exceeded")
    last = min(len(members) - 1, 2) if is_slow else chance.randrange(len(members))
    away = None
    if "joined" in code and generation > 1:
        away = round(chance.lognormvariate(3.3, 0.8) * SECOND)
        members[who] = f"{members[who].rsplit('-', 1)[0]}-{_hex(chance)}"
    sample.offset += chance.randrange(2, 40)
    place = {"partition": hash_of(story.name) % 50, "offset": sample.offset, "epoch": 3}
    sample.add(
        "rounds",
        **{"group": story.name, "round": generation, "generation": generation} | place,
        started=at,
        ended=at + ms,
        outcome="completed",
        duration_ms=ms,
        cause=code,
        likely=likely or None,
        more_causes=[],
        missing=[],
        by_member=members[who],
        by_client_id=f"{word}-{who}",
        by_host=f"10.0.0.{who + 4}",
        by_software="apache-kafka-java 3.9.1",
        from_state="Stable",
        protocol="range",
        is_cooperative=False,
        members=len(members),
        joined=int("joined" in code),
        replaced=0,
        removed=int("left" in code or "expired" in code),
        ended_by="all_joined",
        join_ms=ms - 100,
        leader_ms=80,
        last_member=members[last],
        last_client_id=f"{word}-{last}",
        last_host=f"10.0.0.{last + 4}",
        held_ms=round(ms * chance.uniform(0.3, 0.8)) if len(members) > 1 else None,
        partitions=story.partitions,
        moved=chance.randrange(story.partitions),
        **{"unowned_ms": story.partitions * ms, "away_ms": away} | sample.sure,
    )
    if away is not None:
        who_told = {"member": members[who], "client_id": f"{word}-{who}"}
        sample.add(
            "sessions",
            **{"group": story.name, "host": f"10.0.0.{who + 4}", "from": at} | who_told,
            began_as="dynamic",
            away_ms=away,
            rebalance_timeout_ms=300_000,
            **{"session_timeout_ms": story.session_ms} | sample.sure,
        )


def hash_of(name: str) -> int:
    return sum(ord(each) * (place + 1) for place, each in enumerate(name))


def _ownership(sample: Sample, story: Story, plans: list[Plan]) -> None:
    for partition in range(story.partitions):
        for number, plan in enumerate(plans):
            until = plans[number + 1].at if number + 1 < len(plans) else None
            began = plan.at + plan.ms
            owner = plan.members[(partition + number // 4) % len(plan.members)]
            place = {"topic": TOPIC, "topic_partition": partition, "generation": number + 1}
            told = {"group": story.name} | place | sample.sure
            if number:
                nobody = {"from": plan.at, "until": began, "duration_ms": plan.ms}
                sample.add("ownership", is_owned=False, **told, **nobody)
            somebody = {
                "from": began,
                "until": until,
                "duration_ms": None if until is None else until - began,
                "member": owner,
                "client_id": owner.rsplit("-", 1)[0],
                "host": f"10.0.0.{plan.members.index(owner) + 4}",
            }
            sample.add("ownership", is_owned=True, **told, **somebody)


def _last_members(sample: Sample, story: Story, plans: list[Plan]) -> None:
    last = plans[-1]
    for number, member in enumerate(last.members):
        assigned = len(range(number, story.partitions, len(last.members)))
        sample.add(
            "members",
            group=story.name,
            partition=1,
            offset=sample.offset,
            time=last.at,
            generation=len(plans),
            member=member,
            client_id=member.rsplit("-", 1)[0],
            host=f"10.0.0.{number + 4}",
            session_timeout_ms=story.session_ms,
            assigned_partitions=assigned,
        )


def _commits(sample: Sample, story: Story, plans: list[Plan]) -> None:
    """Every ten minutes of one partition, less by night and while the group was not stable."""
    lag, committed, place = 0.0, 0, 0
    told = {"group": story.name, "topic": TOPIC, "topic_partition": 0}
    for at in range(START, sample.end, 10 * MINUTE):
        lost = 0
        while place < len(plans) and plans[place].at < at + 10 * MINUTE:
            lost, place = lost + plans[place].ms, place + 1
        arriving = 600 * (0.35 + 0.65 * max(0.0, 1 - abs((at % DAY) / HOUR - 13) / 9))
        able = 900 * max(0.0, 1 - lost / (10 * MINUTE))
        done = min(able, arriving + lag)
        lag, committed = lag + arriving - done, committed + round(done * 100)
        number = max(0, round(120 * able / 900 + sample.chance.gauss(0, 4)))
        ends = {"first_offset": committed, "last_offset": committed}
        times = {"first_time": at, "last_time": at, "minute": at}
        if number:
            sample.add("commit_minutes", partition=1, commits=number, **told | ends | times)
        behind = {"lag": round(lag * 100), "lag_ms": round(lag * SECOND)}
        end = committed + behind["lag"]
        sample.add("lag", time=at, committed_offset=committed, end_offset=end, **told | behind)


def _logs(sample: Sample) -> None:
    told = {"log": "__group_events", "from": START, "until": sample.end, "first_offset": 0}
    for partition in range(50):
        known = 40_000 if partition % 9 == 4 else 0
        since = {"known_from_offset": known, "known_from": START + known * 3 * SECOND}
        amount = {"last_offset": 210_000 + partition, "records": 210_001 + partition}
        sample.add("coverage", partition=partition, **told | since | amount)
    for number, at in enumerate((START, RESTART)):
        if at < sample.end:
            epoch = {"partition": 0, "epoch": 3 + number, "node": 1, "last_offset": 9, "groups": 12}
            sample.add("epochs", loaded=at, load_ms=900, **told | epoch | {"from": at})


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else len(STORIES)
    Path(sys.argv[1]).write_text(render(tables(number), about()), encoding="utf-8")
