"""The question `what_if`: replays the scenarios of a group, and makes the table of their results.

Each is compared with a replay under the recorded settings, so that errors of the client model are
in both. How large these are is told by that replay beside what was recorded; `matches` is false if
they differ by so much that nothing should be built on the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Final

from groupkeeper.analytics.questions.question import SURE, Question
from groupkeeper.analytics.schemas import EVENTS, LONG, TEXT, YES, Column
from groupkeeper.analytics.what_if.behaviour import Behaviour, behaviour_of, heartbeat_of
from groupkeeper.analytics.what_if.lives import HistoryRow, Life, lives_of
from groupkeeper.analytics.what_if.replay import GivenUp, Outcome, ReplaySettings, replay
from groupkeeper.analytics.what_if.scenarios import (
    ASSUMPTIONS,
    Proposed,
    Scenario,
    scenarios,
    spares_of,
)

FAR_OFF: Final = 0.25
TIMES_OFF: Final = 2
TIME_OFF_MS: Final = 1_000
UNREAD_OFF_MS: Final = 5_000
"""Limits of `matches`; what they are is told in its definition."""

WHAT_IF: Final = Question(
    "what_if",
    "What if",
    "How many rebalances other settings would have avoided, and at what cost: how long nobody reads"
    " partitions, and how much longer it takes until a client that vanished is noticed.",
    "Per group and scenario: the recorded behaviour of clients (starts, ends, pauses, slow "
    "rejoins, changes of subscription) is replayed through the coordinator's own decisions under "
    "other settings. Clients are models of Kafka's Java consumer; `rounds_avoided` compares two "
    "replays, so that errors of the model are in both. A restart of the coordinator is not "
    "replayed. Groups whose clients would never settle have no row. If the replay `as it was` is "
    f"off by more than a quarter and one of the recorded rebalances, or by more than {TIMES_OFF} "
    f"times and {TIME_OFF_MS} ms a rebalance of the recorded time not stable, or by more than "
    f"{TIMES_OFF} times and {UNREAD_OFF_MS} ms of the recorded time unread, `matches` is false: do "
    "not act on the rows of this group.",
    (
        Column("group", TEXT, "Group id."),
        Column("scenario", TEXT, "The change; `as it was` is the replay without any."),
        Column("setting", TEXT, "The setting that varies; null if none."),
        Column("value", LONG, "Value of that setting in milliseconds."),
        Column(
            "is_today", YES, "Whether most members have this value now, or the group this policy."
        ),
        Column("rounds", LONG, "Rebalances in this replay."),
        Column("rounds_avoided", LONG, "Fewer rebalances than `as it was`; negative: more."),
        Column("not_stable_ms", LONG, "Time in which the group was not stable."),
        Column("stable_gained_ms", LONG, "Reduction of `not_stable_ms` against `as it was`."),
        Column(
            "unowned_ms",
            LONG,
            "Sum over partitions of the time without an owner, from the first assignments on: "
            "given up for a rebalance, revoked, or of a member that was removed.",
        ),
        Column(
            "unread_ms",
            LONG,
            "Sum over partitions of the time in which no client read them: `unowned_ms`, and those "
            "of clients that vanished, paused or, as static members, restarted. Only while some "
            "client runs: no setting changes the rest.",
        ),
        Column("unread_saved_ms", LONG, "Reduction of `unread_ms` against `as it was`."),
        Column(
            "paused_ms",
            LONG,
            "The part of `unread_ms` in pauses that a session outlived, which "
            "`recorded_unread_ms` is without.",
        ),
        Column(
            "reserved_ms",
            LONG,
            "The part of `unread_ms` in which the place of a lost member was kept: what a grace "
            "costs where nobody comes back.",
        ),
        Column(
            "imbalance_ms",
            LONG,
            "Sum over time of the partitions that the largest share has too many: the largest "
            "minus the smallest one, minus 1, of clients that run.",
        ),
        Column(
            "moved",
            LONG,
            "Partitions that went to another client than the last one; a client that was restarted "
            "is the same.",
        ),
        Column(
            "rejoins", LONG, "JoinGroups of members that did nothing to cause them: the unrest."
        ),
        Column(
            "asks", LONG, "Members that were asked to rejoin alone, without a rebalance: spares."
        ),
        Column(
            "detection_ms",
            LONG,
            "Mean time that partitions stayed with vanished clients; null if none vanished.",
        ),
        Column("detection_lost_ms", LONG, "Increase of `detection_ms` against `as it was`."),
        Column("recorded_rounds", LONG, "Rebalances in the log."),
        Column("replayed_rounds", LONG, "Rebalances `as it was`: shows how good the model is."),
        Column("recorded_not_stable_ms", LONG, "Time not stable in the log; null if unknown."),
        Column("recorded_unread_ms", LONG, "The same of `unread_ms`; null if unknown."),
        Column("matches", YES, "Whether the replay `as it was` is near enough to the log."),
        Column("assumption", TEXT, "Assumptions of the scenario."),
        *SURE,
    ),
    frozenset({"sessions", "rounds", "members", "configs", "not_stable"}),
)


def what_if(
    group: str, tables: Mapping[str, Sequence[HistoryRow]], proposed: Proposed | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group; `tables` are its rows in the views and answers of `WHAT_IF`."""
    past = past_of(tables)
    if past is None:
        return
    lives, behaviour, end_ms = past.lives, past.behaviour, past.end_ms
    try:
        base = replay(lives, behaviour, ReplaySettings(), end_ms)
    except GivenUp:
        return
    outcomes = {(ReplaySettings(), 0): base}
    known = _Recorded(len(tables["rounds"]), *_times(tables["not_stable"]))
    sure = _sure(tables) | {"group": group}
    for scenario in scenarios(lives, behaviour, past.rounds, proposed or {}):
        settings = _changed(scenario.settings, lives)
        key = settings, scenario.spares
        try:
            if key not in outcomes:
                some = [*lives, *spares_of(lives, scenario.spares)]
                outcomes[key] = replay(some, behaviour, settings, end_ms)
        except GivenUp:  # rather no number than a wrong one
            continue
        outcome = outcomes[key]
        yield _row(scenario, outcome, base, known) | sure


@dataclass(frozen=True, slots=True)
class Past:
    """The lives of a group's clients until `end_ms`, and its rebalances whose start was read."""

    lives: Sequence[Life]
    behaviour: Behaviour
    rounds: Sequence[HistoryRow]
    end_ms: int


def past_of(tables: Mapping[str, Sequence[HistoryRow]]) -> Past | None:
    """Return what a group's rows in the views of `WHAT_IF` tell; None if no client is known."""
    recorded, sessions = tables["rounds"], tables["sessions"]
    known_ms, until_ms = _span(tables)
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
    heartbeat_ms = heartbeat_of(sessions, rounds)
    lives = lives_of(sessions, begin_ms, end_ms, tables["members"], spans, heartbeat_ms)
    if not lives:
        return None
    behaviour = behaviour_of(rounds, lives, heartbeat_ms, tables["configs"])
    return Past(lives, behaviour, rounds, end_ms)


def _rows_of(tables: Mapping[str, Sequence[HistoryRow]]) -> list[HistoryRow]:
    return [row for name in WHAT_IF.reads for row in tables[name]]


def _span(tables: Mapping[str, Sequence[HistoryRow]]) -> tuple[int | None, int]:
    """Return from when on, and until when, the group is known."""
    every = _rows_of(tables)
    known_ms = max(filter(None, (row["known_from"] for row in every)), default=None)
    return known_ms, max(filter(None, (row["read_until"] for row in every)), default=0)


def _sure(tables: Mapping[str, Sequence[HistoryRow]]) -> dict[str, Any]:
    every = _rows_of(tables)
    return {
        "source": max((row["source"] for row in every), default=EVENTS),
        "confidence": min((row["confidence"] for row in every), default=1.0),
        "known_from": _span(tables)[0],
    }


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Figures of the log; None if unknown."""

    rounds: int
    not_stable_ms: int | None
    unread_ms: int | None

    def matches(self, base: Outcome) -> bool:
        """Return whether the replay of the recorded settings is near enough."""
        rounds, times = (self.rounds, base.rounds), (self.not_stable_ms, base.not_stable_ms)
        return (
            abs(rounds[0] - rounds[1]) <= max(1, FAR_OFF * self.rounds)
            and _is_near(*times, TIME_OFF_MS * max(rounds))
            and _is_near(self.unread_ms, base.unread_ms - base.paused_ms, UNREAD_OFF_MS)
        )


def _is_near(recorded: int | None, replayed: int, least: int) -> bool:
    if recorded is None or abs(recorded - replayed) <= least:
        return True
    low, high = sorted((recorded, replayed))
    return high <= TIMES_OFF * low


def _times(answer: Sequence[HistoryRow]) -> tuple[int | None, int | None]:
    """Return the recorded times not stable and unread, from rows of `not_stable` in ms."""
    if not answer:
        return None, None
    [row] = answer
    unread = row["unread_s"] if row["partitions"] else None
    return row["not_stable_ms"], None if unread is None else round(unread * 1000)


def _changed(settings: ReplaySettings, lives: Sequence[Life]) -> ReplaySettings:
    """Drop timeouts that all clients have anyway."""
    as_they_were: dict[str, Any] = {
        name: None
        for name in ("session_timeout_ms", "rebalance_timeout_ms")
        if all(getattr(life, name) == getattr(settings, name) for life in lives)
    }
    return replace(settings, **as_they_were)


def _row(
    scenario: Scenario, outcome: Outcome, base: Outcome, recorded: _Recorded
) -> dict[str, Any]:
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
        "unread_ms": outcome.unread_ms,
        "unread_saved_ms": base.unread_ms - outcome.unread_ms,
        "paused_ms": outcome.paused_ms,
        "reserved_ms": outcome.reserved_ms,
        "imbalance_ms": outcome.imbalance_ms,
        "moved": outcome.moved,
        "rejoins": outcome.rejoins,
        "asks": outcome.asks,
        "detection_ms": detection,
        "detection_lost_ms": lost,
        "recorded_rounds": recorded.rounds,
        "replayed_rounds": base.rounds,
        "recorded_not_stable_ms": recorded.not_stable_ms,
        "recorded_unread_ms": recorded.unread_ms,
        "matches": recorded.matches(base),
        "assumption": ASSUMPTIONS[scenario.name],
    }


def _mean(values: Sequence[int]) -> int | None:
    return round(mean(values)) if values else None
