"""Findings and other answers that fit the stories of `page_sample`."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

TIME = pa.timestamp("ms", tz="UTC")
FINDINGS_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("id", "severity", "group"), pa.string()),
        **dict.fromkeys(("from", "to"), TIME),
        **dict.fromkeys(("sentence", "config_key", "now", "proposed"), pa.string()),
        "evidence": pa.list_(pa.int64()),
        "partition": pa.int32(),
        "source": pa.string(),
        "confidence": pa.float64(),
    }
)
WHAT_IF_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("group", "scenario", "setting", "assumption"), pa.string()),
        **dict.fromkeys(("value", "rounds", "not_stable_ms", "detection_ms"), pa.int64()),
        **dict.fromkeys(("recorded_rounds", "replayed_rounds"), pa.int64()),
        "is_today": pa.bool_(),
    }
)

_WHO = ("group", "instance", "client_id", "host", "member")
ANSWER_SCHEMAS = {
    "barrier": pa.schema(
        {
            **dict.fromkeys(_WHO, pa.string()),
            **dict.fromkeys(("held", "held_ms", "longest_ms"), pa.int64()),
            "share": pa.float64(),
        }
    ),
    "restart_gaps": pa.schema(
        {
            "group": pa.string(),
            **dict.fromkeys(("restarts", "median_ms", "p95_ms", "longest_ms"), pa.int64()),
            **dict.fromkeys(("session_timeout_ms", "proposed_ms"), pa.int64()),
            "within": pa.float64(),
        }
    ),
    "idle_members": pa.schema(
        {**dict.fromkeys(_WHO, pa.string()), "idle_ms": pa.int64(), "share": pa.float64()}
    ),
}
ANSWERS = {
    "barrier": [
        ("payments", None, "payments-2", "10.0.0.6", "m", 310, 9_400_000, 90_000, 0.61),
        ("shipping-labels", "labels-1", "c", "10.0.0.5", "m", 22, 61_000, 9_000, 0.1),
    ],
    "restart_gaps": [
        ("shipping-labels", 90, 27_000, 38_000, 61_000, 45_000, 60_000, 0.9),
        ("billing", 40, 21_000, 45_000, 900_000, 10_000, 60_000, 0.05),
    ],
    "idle_members": [
        (
            "analytics-eu-west-1-hourly-aggregation",
            None,
            "a-17",
            "10.0.0.21",
            "m",
            864_000_000,
            1.0,
        ),
        ("audit", None, None, None, "audit-4-1f", 90_000_000, 0.07),
    ],
}
"""By name: values in the order of the schema."""


def answers() -> dict[str, pa.Table]:
    """Whose pictures are drawn from them."""
    return {
        name: pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in ANSWERS[name]], schema
        )
        for name, schema in ANSWER_SCHEMAS.items()
    }


def _at(day: int, hour: float) -> int:
    first = datetime(2026, 11, day, tzinfo=UTC).timestamp()
    return round((first + hour * 3600) * 1000)


def _finding(
    number: int, severity: str, group: str | None, sentence: str, **more: Any
) -> dict[str, Any]:
    evidence = [1_000 + 7 * number + step for step in range(0, 40 + number, 5)]
    usual = {"from": _at(9, 0), "to": _at(23, 0), "evidence": evidence, "partition": number}
    told = {"id": f"f{number}", "severity": severity, "group": group, "sentence": sentence}
    return usual | told | more


FINDINGS = [
    _finding(
        1,
        "high",
        "payments",
        "The group stood still for 5 h 12 min in 412 rebalances: payments-2 on 10.0.0.6 came to "
        "poll up to 280 s late.",
        config_key="max.poll.records",
        now="500",
        proposed="80",
    ),
    _finding(
        2,
        "high",
        "payments",
        "30 rebalances in 31 min: each member that was lost came back and started the next one.",
        config_key="max.poll.interval.ms",
        now="300000",
        proposed="480000",
        **{"from": _at(18, 14.2), "to": _at(18, 14.8)},
    ),
    _finding(
        3,
        "high",
        "billing",
        "Members were removed 22 times and came back within 38 s: a pause, not a crash.",
        config_key="session.timeout.ms",
        now="10000",
        proposed="45000",
        **{"from": _at(12, 14), "to": _at(12, 15)},
    ),
    _finding(
        4,
        "high",
        "fraud-check",
        "Two clients use the instance id fraud-check-1, on 10.0.0.5 and 10.0.0.7, and replaced "
        "each other 44 times.",
        config_key="group.instance.id",
        now="fraud-check-1",
        **{"proposed": "one for each client", "from": _at(17, 14), "to": _at(18, 15)},
    ),
    _finding(
        5,
        "medium",
        "shipping-labels",
        "Rolling restarts cost 196 rebalances; members were away for 27 s at most.",
        config_key="group.instance.id",
        proposed="one for each client",
    ),
    _finding(
        6,
        "medium",
        "search-index",
        "The leader rejoined 98 times because topics came and went.",
        config_key="metadata.max.age.ms",
        now="300000",
        proposed="900000",
    ),
    _finding(7, "low", "audit", "1 of 5 members never had a partition."),
    _finding(
        8,
        "low",
        None,
        "The coordinator was restarted, and 12 groups rebalanced within 2 min.",
        config_key="group.initial.rebalance.delay.ms",
        now="0",
        proposed="3000",
        **{"from": _at(15, 3), "to": _at(15, 3.1)},
    ),
]

_TIMEOUTS = (6_000, 10_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000)
_GROUPS = {
    "billing": (312, 10_000, 290),
    "payments": (560, 45_000, 540),
    "emails": (60, 45_000, 22),
}
"""Group -> rebalances, session timeout of today, rebalances with static members."""


def what_if() -> list[dict[str, Any]]:
    """As it was, with static members, and curves of session timeouts."""
    rows = []
    for group, (today, now, static) in _GROUPS.items():
        rows.append(_answer(group, "as it was", today) | {"is_today": True})
        rows.append(_answer(group, "static membership", static))
        for value in _TIMEOUTS:
            rounds = today if value == now else round(today * (now / value) ** 0.6)
            varied = {"setting": "session.timeout.ms", "value": value, "detection_ms": value}
            row = _answer(group, "session timeout", rounds) | varied
            rows.append(row | {"is_today": value == now})
    return rows


def _answer(group: str, scenario: str, rounds: int) -> dict[str, Any]:
    told = {"group": group, "scenario": scenario, "rounds": rounds, "is_today": False}
    return told | {"not_stable_ms": rounds * 6_000, "assumption": "Clients pause when they did."}
