"""Selects the scenarios to replay for a group, and makes the table of their results.

Each is compared with a replay under the recorded settings, so that errors of the client model are
in both; `recorded_rounds` and `replayed_rounds` show how large they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Final

from groupkeeper.analytics.questions.question import SURE, Question
from groupkeeper.analytics.schemas import EVENTS, LONG, TEXT, YES, Column
from groupkeeper.analytics.what_if.lives import Behaviour, HistoryRow, Life, behaviour_of, lives_of
from groupkeeper.analytics.what_if.replay import GivenUp, Outcome, ReplaySettings, replay

SESSION_TIMEOUTS_MS: Final = (6_000, 10_000, 20_000, 30_000, 45_000, 60_000, 120_000, 300_000)
REBALANCE_TIMEOUTS_MS: Final = (30_000, 60_000, 120_000, 300_000, 600_000)
INITIAL_DELAYS_MS: Final = (0, 10_000, 30_000)

AS_IT_WAS: Final = "as it was"
STATIC: Final = "static membership"
SESSION: Final = "session timeout"
STATIC_SESSION: Final = "static membership and session timeout"
REBALANCE: Final = "rebalance timeout"
DELAY: Final = "initial delay"
COOPERATIVE: Final = "cooperative assignment"

_ASSUMPTIONS: Final = {
    AS_IT_WAS: "Clients behave as Kafka's Java consumer, and rejoin as fast as they usually did.",
    STATIC: "Each client gets an instance id of its own, and starts and ends when it did.",
    SESSION: "Clients pause and vanish when they did; only the longest pause within a session is "
    "known.",
    STATIC_SESSION: "Both of these.",
    REBALANCE: "Clients are busy at the same times, and for as long.",
    DELAY: "Only rebalances of an empty group wait.",
    COOPERATIVE: "A lower bound: a model of the cooperative sticky assignor, with even shares.",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named change of settings; `setting` and `value` are the varied setting, if there is one."""

    name: str
    settings: ReplaySettings
    setting: str | None = None
    value: int | None = None
    is_today: bool = False


WHAT_IF: Final = Question(
    "what_if",
    "What if",
    "How many rebalances other settings would have avoided, and at what cost: how much longer it"
    " takes until a client that vanished is noticed.",
    "Per group and scenario: the recorded behaviour of clients (starts, ends, pauses, slow "
    "rejoins, changes of subscription) is replayed through the coordinator's own decisions under "
    "other settings. Clients are models of Kafka's Java consumer; `rounds_avoided` compares two "
    "replays, so that errors of the model are in both. A restart of the coordinator is not "
    "replayed. Groups whose clients would never settle have no row.",
    (
        Column("group", TEXT, "Group id."),
        Column("scenario", TEXT, "The change; `as it was` is the replay without any."),
        Column("setting", TEXT, "The setting that varies; null if none."),
        Column("value", LONG, "Value of that setting in milliseconds."),
        Column("is_today", YES, "Whether most members have this value now."),
        Column("rounds", LONG, "Rebalances in this replay."),
        Column("rounds_avoided", LONG, "Fewer rebalances than `as it was`; negative: more."),
        Column("not_stable_ms", LONG, "Time in which the group was not stable."),
        Column("stable_gained_ms", LONG, "Reduction of `not_stable_ms` against `as it was`."),
        Column("unowned_ms", LONG, "Sum over partitions of the time without an owner."),
        Column(
            "detection_ms",
            LONG,
            "Mean time that partitions stayed with vanished clients; null if none vanished.",
        ),
        Column("detection_lost_ms", LONG, "Increase of `detection_ms` against `as it was`."),
        Column("recorded_rounds", LONG, "Rebalances in the log."),
        Column("replayed_rounds", LONG, "Rebalances `as it was`: shows how good the model is."),
        Column("assumption", TEXT, "Assumptions of the scenario."),
        *SURE,
    ),
    frozenset({"sessions", "rounds", "members"}),
)


def what_if(group: str, tables: Mapping[str, Sequence[HistoryRow]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group; `tables` are its rows in the views that questions read."""
    recorded, sessions = tables["rounds"], tables["sessions"]
    every = [row for rows in tables.values() for row in rows]
    known_ms = max(filter(None, (row["known_from"] for row in every)), default=None)
    until_ms = max(filter(None, (row["read_until"] for row in every)), default=0)
    sure = {
        "source": max((row["source"] for row in every), default=EVENTS),
        "confidence": min((row["confidence"] for row in every), default=1.0),
        "known_from": known_ms,
    }
    rounds = [row for row in recorded if row["started"] is not None]
    if known_ms is not None:  # earlier members join at the beginning
        sessions = [
            {**row, "from": row["from"] if (row["from"] or 0) >= known_ms else None}
            for row in sessions
        ]
    times = [row["from"] for row in sessions if row["from"] is not None]
    begin_ms = min([*times, *(row["started"] for row in rounds)], default=0)
    end_ms = max(until_ms, *(row["ended"] or 0 for row in recorded), *times, 0, 0)
    spans = sorted((row["started"], row["ended"] or row["started"]) for row in rounds)
    lives = lives_of(sessions, begin_ms, end_ms, tables["members"], spans)
    if not lives:
        return
    behaviour = behaviour_of(rounds, lives)
    try:
        base = replay(lives, behaviour, ReplaySettings(), end_ms)
    except GivenUp:
        return
    outcomes = {ReplaySettings(): base}
    for scenario in scenarios(lives, behaviour, rounds):
        settings = _changed(scenario.settings, lives)
        try:
            if settings not in outcomes:
                outcomes[settings] = replay(lives, behaviour, settings, end_ms)
        except GivenUp:  # rather no number than a wrong one
            continue
        outcome = outcomes[settings]
        yield _row(scenario, outcome, base, len(recorded)) | sure | {"group": group}


def _changed(settings: ReplaySettings, lives: Sequence[Life]) -> ReplaySettings:
    """Drop timeouts that all clients have anyway."""
    as_they_were: dict[str, Any] = {
        name: None
        for name in ("session_timeout_ms", "rebalance_timeout_ms")
        if all(getattr(life, name) == getattr(settings, name) for life in lives)
    }
    return replace(settings, **as_they_were)


def scenarios(
    lives: Sequence[Life], behaviour: Behaviour, rounds: Sequence[HistoryRow]
) -> Iterator[Scenario]:
    """Yield the scenarios that make sense for the group: changes that it does not have already."""
    session_ms = _usual(life.session_timeout_ms for life in lives)
    rebalance_ms = _usual(life.rebalance_timeout_ms for life in lives)
    are_static = all(life.instance is not None for life in lives)
    yield Scenario(AS_IT_WAS, ReplaySettings(), is_today=True)
    if not are_static:
        yield Scenario(STATIC, ReplaySettings(is_static=True))
    for value in sorted({*SESSION_TIMEOUTS_MS, session_ms}):
        key, now = "session.timeout.ms", value == session_ms
        changed = ReplaySettings(session_timeout_ms=value)
        yield Scenario(SESSION, changed, key, value, now)
        if not are_static:
            both = ReplaySettings(is_static=True, session_timeout_ms=value)
            yield Scenario(STATIC_SESSION, both, key, value)
    if any(row["ended_by"] == "timeout" for row in rounds) or behaviour.busy:
        for value in sorted({*REBALANCE_TIMEOUTS_MS, rebalance_ms}):
            changed = ReplaySettings(rebalance_timeout_ms=value)
            key, now = "max.poll.interval.ms", value == rebalance_ms
            yield Scenario(REBALANCE, changed, key, value, now)
    if any(row["from_state"] == "Empty" for row in rounds):
        for value in INITIAL_DELAYS_MS:
            key = "group.initial.rebalance.delay.ms"
            yield Scenario(DELAY, ReplaySettings(initial_delay_ms=value), key, value)
    if not behaviour.is_cooperative:
        yield Scenario(COOPERATIVE, ReplaySettings(is_cooperative=True))


def _usual(values: Iterable[int]) -> int:
    known = list(values)
    return max(set(known), key=lambda each: (known.count(each), each))


def _row(scenario: Scenario, outcome: Outcome, base: Outcome, recorded: int) -> dict[str, Any]:
    detection, before = _mean(outcome.detections), _mean(base.detections)
    lost = None if detection is None else detection - (before or 0)
    return {
        "scenario": scenario.name,
        "setting": scenario.setting,
        "value": scenario.value,
        "is_today": scenario.is_today,
        "rounds": outcome.rounds,
        "rounds_avoided": base.rounds - outcome.rounds,
        "not_stable_ms": outcome.not_stable_ms,
        "stable_gained_ms": base.not_stable_ms - outcome.not_stable_ms,
        "unowned_ms": outcome.unowned_ms,
        "detection_ms": detection,
        "detection_lost_ms": lost,
        "recorded_rounds": recorded,
        "replayed_rounds": base.rounds,
        "assumption": _ASSUMPTIONS[scenario.name],
    }


def _mean(values: Sequence[int]) -> int | None:
    return round(mean(values)) if values else None
