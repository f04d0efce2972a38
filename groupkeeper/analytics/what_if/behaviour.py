"""The usual behaviour of a group's clients, measured on its recorded rounds and sessions: how often
they send heartbeats, how fast they rejoin, how long the leader takes, and who was slow when; and
what the coordinator did for the group beyond Kafka.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from statistics import mean, median
from typing import Final

from groupkeeper.analytics.what_if.lives import SESSION_TIMEOUT_MS, HistoryRow, Life, client_name
from groupkeeper.coordinator.group_configs import problem_in
from groupkeeper.coordinator.policy import OFF, Policy, policy_of

HEARTBEAT_MS: Final = 3_000
"""`heartbeat.interval.ms` of most clients, unless it is set."""
MANY_BEATS: Final = 20
"""So many that what a session has besides, from its join to its first assignment, is little."""
SEVERAL: Final = 2
UNLIKELY: Final = 0.1
JAVA: Final = "apache-kafka-java"
FEW_BEATS: Final = 5
"""So few that it is certain how many they were, if the interval is known within a tenth."""
INITIAL_DELAY_MS: Final = 3_000
"""`group.initial.rebalance.delay.ms` of a coordinator with Kafka's defaults."""
SLOW_MS: Final = 1_000
"""A client that joins an interval of heartbeats and this much later than all others was busy."""
BEATS_WITHIN_MS: Final = 100
"""How far apart heartbeats are whose timers began together: so often Java's thread looks."""
_OUTSIDE: Final = {
    "subscription_changed": "the client changed its subscription",
    "leader_rejoined": "the leader saw partitions come or go",
}
"""Causes that do not depend on settings."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Durations in milliseconds. `busy`: client -> times in which it did not poll. `changes`: times
    at which a client requested a rebalance, under any settings.
    """

    heartbeat_ms: int = HEARTBEAT_MS
    rejoin_ms: int = 0
    leader_ms: int = 5
    partitions: int = 1
    initial_delay_ms: int = INITIAL_DELAY_MS
    is_cooperative: bool = False
    busy: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    changes: tuple[tuple[int, str], ...] = ()
    beats_anew: bool = False
    """With each assignment the timers of heartbeats begin anew, as in Java's consumer, kafka-python
    and librdkafka: after a rebalance they come together, where they came at different times
    before."""
    beats_from_join: bool = False
    """They begin with the answer to JoinGroup, as in Java's consumer, and not to SyncGroup."""
    heard: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Client -> when it had been told an assignment, and when it sent one of the heartbeats after
    that, as far as a log tells."""
    leaders: Sequence[tuple[int, int]] = ()
    """When join phases ended, in order, and how long the leader took then."""
    begins_long_ago: bool = False
    """The first generation is long ago: heartbeats come at different times again."""
    policies: tuple[tuple[int, Policy], ...] = ()
    """What the coordinator did for the group beyond Kafka, from when on; first nothing."""

    def policy_at(self, at_ms: int) -> Policy:
        """Return the policy at a time."""
        return next((each for when, each in reversed(self.policies) if when <= at_ms), OFF)

    def heard_next(self, client: str, told_ms: int, now: int) -> int | None:
        """Return when a client sends its next heartbeat that was told its assignment at `told_ms`:
        between that and one that is known they come at equal intervals. None if none is known.
        """
        # A timer that begins anew with each assignment is known for those at that time only.
        within_ms = BEATS_WITHIN_MS if self.beats_anew else SLOW_MS
        for since_ms, at_ms in self.heard.get(client, ()):
            if abs(since_ms - told_ms) < within_ms and now < at_ms:
                number = max(1, round((at_ms - since_ms) / self.heartbeat_ms))
                interval = (at_ms - since_ms) / number
                passed = max(0, now - since_ms) // interval
                return since_ms + ceil((passed + 1) * interval)
        return None

    def leader_takes(self, now: int) -> int:
        """Return how long a leader takes to assign: as in the recorded rebalance nearest to now."""
        index = bisect_right(self.leaders, (now, 0))
        near = self.leaders[max(0, index - 1) : index + 1]
        return min(near, key=lambda each: abs(each[0] - now), default=(0, self.leader_ms))[1]

    def free_at(self, client: str, now: int) -> int:
        """Return when the client polls again."""
        spans = self.busy.get(client, [])
        index = bisect_right(spans, (now, 2**63)) - 1
        return max(now, spans[index][1]) if index >= 0 else now


def heartbeat_of(sessions: Iterable[HistoryRow], rounds: Iterable[HistoryRow]) -> int:
    """Return the interval in which one group's clients send heartbeats, in ms, from its rows in
    these tables. A session tells how many there were, and the longest time between two. Without
    that it is the usual one. Neither is believed if it is unlikely that all members rejoined as
    fast by chance: a session is told of a pause, or kept alive by commits alone.
    """
    rows = [*rounds]
    found = [each for each in map(_interval_of, sessions) if each]
    told_ms = int(median(found)) if found else HEARTBEAT_MS
    if not _contradicts(_quick(rows, told_ms), told_ms):
        return told_ms
    quick = _quick(rows, HEARTBEAT_MS)
    return max(1, *quick) if _contradicts(quick, HEARTBEAT_MS) else HEARTBEAT_MS


def _contradicts(quick: Sequence[int], heartbeat_ms: int) -> bool:
    """Return whether it is unlikely that join phases took no longer with such heartbeats."""
    return bool(quick) and (max(quick) / heartbeat_ms) ** len(quick) <= UNLIKELY


def _interval_of(row: HistoryRow) -> int | None:
    """Return the interval between a session's heartbeats: the mean one of many, or else the longest
    one, which a pause may have made. None if commits kept the session alive without heartbeats.
    """
    beats, gap_ms = row.get("heartbeats"), row["longest_gap_ms"]
    if not beats or not gap_ms or gap_ms >= (row["session_timeout_ms"] or SESSION_TIMEOUT_MS):
        return None
    if beats < MANY_BEATS or row["from"] is None or row["until"] is None:
        return int(gap_ms)
    lasted_ms = row["until"] - row["from"] - (row["silent_ms"] or 0)
    return int(max(1, min(gap_ms, lasted_ms // beats)))


def _quick(rounds: Iterable[HistoryRow], heartbeat_ms: int) -> list[int]:
    """Return how long join phases took in which nobody was busy, if heartbeats come so often."""
    return [
        row["join_ms"]
        for row in rounds
        if row["join_ms"] is not None
        and row["ended_by"] == "all_joined"
        and row["from_state"] == "Stable"
        and row["members"] != 1  # it has nobody to wait for
        and not _is_held_up(row, heartbeat_ms)
    ]


def behaviour_of(
    rounds: Iterable[HistoryRow],
    lives: Iterable[Life],
    heartbeat_ms: int | None = None,
    configs: Iterable[HistoryRow] = (),
) -> Behaviour:
    """Measure the behaviour of one group's clients, from its rows of `rounds` and `configs`."""
    rows = [row for row in rounds if row["started"] is not None]
    heartbeat_ms = heartbeat_ms or heartbeat_of((), rows)
    quick = _quick(rows, heartbeat_ms)
    first = [
        row["join_ms"]
        for row in rows
        if row["join_ms"] is not None and row["from_state"] == "Empty"
    ]
    leaders = sorted(
        (row["ended"] - row["leader_ms"], row["leader_ms"])
        for row in rows
        if row["leader_ms"] is not None and row["ended"] is not None
    )
    partitions = [row["partitions"] for row in rows if row["partitions"]]
    cooperative = [row["is_cooperative"] for row in rows if row["is_cooperative"] is not None]
    lives = [*lives]
    by_member = {life.client: life for life in lives}
    # The last of several members rejoins about one heartbeat interval after the start.
    prompt = [row for row in rows if not _is_held_up(row, heartbeat_ms)]
    busy = _busy([row for row in rows if _is_held_up(row, heartbeat_ms)], by_member)
    are_java = _are_java(rows)
    heard = _heard(prompt, by_member, lives, from_join=are_java)
    heartbeat_ms = _refined(heartbeat_ms, heard)
    usual_ms = int(median(quick)) if quick else heartbeat_ms
    return Behaviour(
        heartbeat_ms=heartbeat_ms,
        rejoin_ms=max(0, usual_ms - heartbeat_ms),
        leader_ms=int(median(took_ms for _, took_ms in leaders)) if leaders else 5,
        leaders=tuple(leaders),
        partitions=max(partitions, default=1),
        initial_delay_ms=min([INITIAL_DELAY_MS, *first]),
        is_cooperative=bool(cooperative and cooperative[-1]),
        busy=busy,
        heard=heard,
        beats_anew=_come_together(prompt, heartbeat_ms),
        beats_from_join=are_java,
        policies=policies_of(configs),
        changes=tuple(
            (row["started"], name)
            for row in rows
            if row["cause"] in _OUTSIDE and (name := _client(row, "by", by_member))
        ),
    )


def policies_of(configs: Iterable[HistoryRow]) -> tuple[tuple[int, Policy], ...]:
    """Return the policies of a group and when they were set, from its rows in table `configs`.
    Values that this version does not accept are as if they were not set.
    """
    found = []
    for row in sorted(configs, key=lambda row: row["offset"]):
        told = json.loads(row["configs"] or "{}")
        known = {name: told[name] for name in told if problem_in({name: told[name]}) is None}
        found.append((row["time"] or 0, policy_of(known, OFF) or OFF))
    return tuple(found)


def _refined(interval_ms: int, heard: Mapping[str, Sequence[tuple[int, int]]]) -> int:
    """Return an interval of heartbeats, as exactly as those show that are known: some of them lie
    in the time since an assignment.
    """
    found = []
    for since_ms, at_ms in chain.from_iterable(heard.values()):
        number = max(1, round((at_ms - since_ms) / interval_ms))
        shown_ms = (at_ms - since_ms) / number
        if number <= FEW_BEATS and abs(shown_ms - interval_ms) < interval_ms / 10:
            found.append(shown_ms)
    return round(median(found)) if found else interval_ms


def _come_together(rows: Iterable[HistoryRow], heartbeat_ms: int) -> bool:
    """Return whether members rejoin at the same time, as those do whose intervals of heartbeats
    began together. Else each of their partitions waits, in an eager rebalance for a newcomer, for a
    good part of an interval on average. If there was no such rebalance of several, they do.
    """
    waits = [
        row["unowned_ms"] / row["partitions"] - (row["leader_ms"] or 0)
        for row in rows
        if row["cause"] == "member_joined"
        and row["from_state"] == "Stable"
        and row["is_cooperative"] is False
        and (row["members"] or 0) > SEVERAL
        and row.get("unowned_ms")
        and row["partitions"]
    ]
    return not waits or mean(waits) < heartbeat_ms / 6


def _are_java(rows: Iterable[HistoryRow]) -> bool:
    """Return whether most clients that began a rebalance are Java's."""
    known = [row["by_software"] for row in rows if row.get("by_software")]
    return bool(2 * sum(each.startswith(JAVA) for each in known) > len(known))


def _heard(
    rows: Sequence[HistoryRow], known: Mapping[str, Life], lives: Iterable[Life], *, from_join: bool
) -> dict[str, list[tuple[int, int]]]:
    """Return pairs of times by client, between which it sent a heartbeat: the member that
    rejoined last in a rebalance learned of the rebalance from its heartbeat right before.
    """
    starts: dict[str, list[int]] = defaultdict(list)
    for life in lives:
        starts[life.client].append(life.start_ms)
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    told_ms = 0
    for row in sorted(rows, key=lambda row: row["started"]):
        name = _client(row, "last", known)
        if name and row["join_ms"] and row["from_state"] == "Stable":
            at_ms = row["started"] + row["join_ms"]
            since_ms = max((each for each in starts[name] if each <= at_ms), default=0)
            if since_ms < row["started"]:  # else it is the newcomer
                found[name].append((max(told_ms, since_ms), at_ms))
        told_ms = (row["ended"] or row["started"]) - (row["leader_ms"] or 0) * from_join
    return dict(found)


def _is_held_up(row: HistoryRow, heartbeat_ms: int) -> bool:
    """Return whether the last member of a rebalance was busy, and did not wait for a heartbeat."""
    return (row["held_ms"] or 0) >= heartbeat_ms + SLOW_MS


def _busy(rows: Iterable[HistoryRow], known: dict[str, Life]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        name = _client(row, "last", known)
        if name and row["join_ms"]:
            found[name].append((row["started"], row["started"] + row["join_ms"]))
    return dict(found)


def _client(row: HistoryRow, which: str, known: Mapping[str, Life]) -> str | None:
    """Return the client in the columns `by_*` or `last_*`; the first of several that look alike."""
    name = client_name(*(row[f"{which}_{part}"] for part in ("instance", "client_id", "host")))
    return name if name in known else None
