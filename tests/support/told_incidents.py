"""Incidents written as events, with the assignments and clients that their costs depend on.

[first, second] = absence(partitions=6, members=3, away_ms=10_000)
"""

from collections.abc import Sequence
from typing import Any

from groupkeeper.history.rounds import Round
from tests.support.told_events import Told, cause, who

JAVA = {"name": "apache-kafka-java", "version": "4.1.0"}
CONFLUENT = {"name": "confluent-kafka-python", "version": "2.16.1-rdkafka-2.16.0"}
KAFKA_PYTHON = {"name": "kafka-python", "version": "3.0.12"}
FRANZ_GO = {"name": "kgo", "version": "1.22.2"}

Software = dict[str, str] | None


def dealt(members: Sequence[str], partitions: int) -> dict[str, Any]:
    """Partitions of one topic, dealt out to the members."""
    return {
        "assignment": [
            {
                "member": each,
                "instance": None,
                "partitions": {"orders": [*range(number, partitions, len(members))]},
            }
            for number, each in enumerate(members)
        ]
    }


def _round(told: Told, at_ms: int, names: Sequence[str], how: dict[str, Any]) -> None:
    took_ms = how["took_ms"]
    told.at(at_ms + took_ms).joined(
        *((each, 0) for each in names),
        protocol=how["protocol"],
        duration_ms=took_ms,
        protocol_type=how["protocol_type"],
    )
    plan = dealt(names, how["partitions"]) if how["protocol_type"] == "consumer" else {}
    told.completed(duration_ms=took_ms, **{"assignment": None} | plan, kept=how["kept"])


def absence(**how: Any) -> list[Round]:
    """The rounds of `told_absence`, without the first, which formed the group."""
    return told_absence(**how).rounds()[1:]


def told_absence(
    *,
    partitions: int = 6,
    members: int = 3,
    away_ms: int = 10_000,
    took_ms: int = 3_000,
    code: str = "member_left",
    evidence: dict[str, Any] | None = None,
    software: Sequence[Software] = (JAVA,),
    protocol: str = "range",
    protocol_type: str = "consumer",
    kept: bool | None = False,
    returns: bool = True,
    instance: str | None = None,
    timeouts: tuple[int, int] = (45_000, 300_000),
) -> Told:
    """The last member is lost, and comes back after `away_ms` unless it never does. All rejoin at
    once, and a rebalance takes `took_ms`. Members have these clients in turn.
    """
    how = {
        "partitions": partitions,
        "took_ms": took_ms,
        "protocol": protocol,
        "protocol_type": protocol_type,
        "kept": kept,
    }
    told, names = Told(), [f"m{number}" for number in range(members)]

    def person(number: int, name: str) -> dict[str, Any]:
        known = instance if number == members - 1 else None
        named = {"software": software[number % len(software)], "client_id": f"app-{number}"}
        return who(name, instance=known, **named)

    for number, name in enumerate(names):
        limits = {"session_timeout_ms": timeouts[0], "rebalance_timeout_ms": timeouts[1]}
        told.tell("member_joined", who=person(number, name), kind="dynamic", **limits)
    told.started(cause("member_joined", person(0, names[0])), from_state="Empty")
    _round(told, 0, names, how)
    lost = person(members - 1, names[-1])
    gone = cause(code, lost, **evidence or {})
    silent_ms = (evidence or {}).get("silent_ms", 0)
    told.at(100_000 + silent_ms).tell("member_removed", who=lost, cause=gone)
    told.started(gone)
    _round(told, 100_000 + silent_ms, names[:-1], how)
    if returns:
        again = person(members - 1, "again")
        at_ms = 100_000 + max(away_ms, silent_ms + took_ms)
        told.at(at_ms).tell("member_joined", who=again, kind="dynamic")
        told.started(cause("static_member_joined" if instance else "member_joined", again))
        _round(told, at_ms, [*names[:-1], "again"], how)
    return told
