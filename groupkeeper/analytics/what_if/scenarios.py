"""Selects the scenarios to replay for a group: changes that it does not have already."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from groupkeeper.analytics.what_if.behaviour import Behaviour
from groupkeeper.analytics.what_if.lives import HistoryRow, Life
from groupkeeper.analytics.what_if.replay import ReplaySettings
from groupkeeper.coordinator.policy import ANY, LEFT, LOST, WINDOW, Policy
from groupkeeper.coordinator.policy import GRACE as GRACE_KEY

SESSION_TIMEOUTS_MS: Final = (6_000, 10_000, 20_000, 30_000, 45_000, 60_000, 120_000, 300_000)
REBALANCE_TIMEOUTS_MS: Final = (30_000, 60_000, 120_000, 300_000, 600_000)
INITIAL_DELAYS_MS: Final = (0, 10_000, 30_000)
GRACES_MS: Final = (0, 10_000, 30_000, 60_000, 120_000, 300_000)
COMBINED_MS: Final = (0, 30_000, 60_000, 300_000)
"""Graces that are tried together with another change."""
WINDOWS_MS: Final = (0, 10_000, 30_000)
_BOTH: Final = frozenset({LOST, LEFT})
STEP_PARTITIONS: Final = 5
STREAMS: Final = "stream"
"""The assignor of Kafka Streams, which keeps data of its own in assignments."""

AS_IT_WAS: Final = "as it was"
STATIC: Final = "static membership"
SESSION: Final = "session timeout"
STATIC_SESSION: Final = "static membership and session timeout"
REBALANCE: Final = "rebalance timeout"
DELAY: Final = "initial delay"
COOPERATIVE: Final = "cooperative assignment"
GRACE: Final = "grace"
GRACE_LEFT: Final = "grace, also for who leaves"
GRACE_ANY: Final = "grace, for any client"
STATIC_GRACE: Final = "static membership and grace"
COOPERATIVE_GRACE: Final = "cooperative assignment and grace"
SPARE: Final = "one spare member"
SCALE_WINDOW: Final = "scale window"
STEPS: Final = "assignment in steps"

_TAKEN: Final = (
    "The server is Groupkeeper, and keeps the place of a member whose session ended; the same "
    "client id from the same host takes it."
)
ASSUMPTIONS: Final[Mapping[str, str]] = {
    AS_IT_WAS: "Clients behave as Kafka's Java consumer, and rejoin as fast as they usually did.",
    STATIC: "Each client gets an instance id of its own, and starts and ends when it did.",
    SESSION: "Clients pause and vanish when they did; only the longest pause within a session is "
    "known.",
    STATIC_SESSION: "Both of these.",
    REBALANCE: "Clients are busy at the same times, and for as long.",
    DELAY: "Only rebalances of an empty group wait.",
    COOPERATIVE: "A model of the cooperative sticky assignor, with even shares: partitions that "
    "move wait for the second rebalance.",
    GRACE: _TAKEN,
    GRACE_LEFT: f"{_TAKEN} That of a member that left, too, whether it comes back or not.",
    GRACE_ANY: "Any newcomer takes the place that was kept first, once the session has ended.",
    STATIC_GRACE: "Both: the same instance id takes the place.",
    COOPERATIVE_GRACE: "Both of these.",
    SPARE: "One more client runs all the time. So many members get partitions as ran for the "
    "longest time; more stand by.",
    STEPS: f"The server assigns, sticky and evenly, {STEP_PARTITIONS} partitions at a time; "
    "members rejoin one by one.",
    SCALE_WINDOW: "Newcomers of a group that is stable get no partitions until so long nobody else "
    "came.",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named change of settings; `setting` and `value` are the varied setting, if there is one."""

    name: str
    settings: ReplaySettings
    setting: str | None = None
    value: int | None = None
    is_today: bool = False
    spares: int = 0
    """Clients in addition to those that were there."""


Proposed = Mapping[str, Iterable[int]]
"""Setting -> values that findings propose, in milliseconds."""
_Values = list[tuple[str, int]]


def scenarios(
    lives: Sequence[Life], behaviour: Behaviour, rounds: Sequence[HistoryRow], proposed: Proposed
) -> Iterator[Scenario]:
    """Yield the scenarios that make sense for the group: changes that it does not have already."""
    session_ms = _usual(life.session_timeout_ms for life in lives)
    held = held_by(lives, behaviour)
    are_static = all(life.instance is not None for life in lives)
    yield Scenario(AS_IT_WAS, ReplaySettings(), is_today=True)
    if not are_static:
        yield Scenario(STATIC, ReplaySettings(is_static=True))
    for key, value in _values("session.timeout.ms", (*SESSION_TIMEOUTS_MS, session_ms), proposed):
        now = value == session_ms
        changed = ReplaySettings(session_timeout_ms=value)
        yield Scenario(SESSION, changed, key, value, now)
        if not are_static:
            both = ReplaySettings(is_static=True, session_timeout_ms=value)
            yield Scenario(STATIC_SESSION, both, key, value)
    yield from _delays(lives, behaviour, rounds, proposed)
    if not behaviour.is_cooperative:
        yield Scenario(COOPERATIVE, ReplaySettings(is_cooperative=True))
    if any(row["partitions"] is not None for row in rounds):  # consumers
        graces = *GRACES_MS, held.grace_ms
        yield from _graces(lives, behaviour, held, _values(GRACE_KEY, graces, proposed))
        if all(row.get("protocol") != STREAMS for row in rounds):
            windows = *WINDOWS_MS, held.window_ms
            yield from _planning(lives, held, _values(WINDOW, windows, proposed))


def _values(key: str, usual: Iterable[int], proposed: Proposed) -> _Values:
    return [(key, value) for value in sorted({*usual, *proposed.get(key, ())})]


def _delays(
    lives: Sequence[Life], behaviour: Behaviour, rounds: Sequence[HistoryRow], proposed: Proposed
) -> Iterator[Scenario]:
    """Yield what matters to slow members, and to a group that was Empty."""
    rebalance_ms = _usual(life.rebalance_timeout_ms for life in lives)
    usual = *REBALANCE_TIMEOUTS_MS, rebalance_ms
    is_slow = any(row["ended_by"] == "timeout" for row in rounds) or behaviour.busy
    if is_slow or proposed.get("max.poll.interval.ms"):
        for key, value in _values("max.poll.interval.ms", usual, proposed):
            changed = ReplaySettings(rebalance_timeout_ms=value)
            yield Scenario(REBALANCE, changed, key, value, value == rebalance_ms)
    if any(row["from_state"] == "Empty" for row in rounds):
        for key, value in _values("group.initial.rebalance.delay.ms", INITIAL_DELAYS_MS, proposed):
            yield Scenario(DELAY, ReplaySettings(initial_delay_ms=value), key, value)


def held_by(lives: Sequence[Life], behaviour: Behaviour) -> Policy:
    """Return the policy that scenarios change: the one that a group had at its last start or end of
    a process.
    """
    times = [each for life in lives for each in (life.start_ms, life.end_ms) if each is not None]
    return behaviour.policy_at(max(times))


def _graces(
    lives: Sequence[Life], behaviour: Behaviour, held: Policy, values: _Values
) -> Iterator[Scenario]:
    """Yield what keeps the places of members, as far as members went like that."""
    are_static = all(life.instance is not None for life in lives)
    leave = any(_leaves(life) for life in lives)
    are_lost, change_hosts = any(map(_is_lost, lives)), _change_hosts(lives)
    for key, value in values:
        grace = replace(held, grace_ms=value)
        both = of_any = grace
        if value:
            both, of_any = replace(grace, reserve_on=_BOTH), replace(grace, seat_match=ANY)
        if are_lost:
            is_held = grace == held
            yield Scenario(GRACE, ReplaySettings(policy=grace), key, value, is_held)
        if leave:
            is_held = both == held
            yield Scenario(GRACE_LEFT, ReplaySettings(policy=both), key, value, is_held)
        if are_lost and change_hosts and not are_static:
            is_held = of_any == held
            yield Scenario(GRACE_ANY, ReplaySettings(policy=of_any), key, value, is_held)
        if value in COMBINED_MS and not are_static and (are_lost or leave):
            static = ReplaySettings(is_static=True, policy=grace)
            yield Scenario(STATIC_GRACE, static, key, value)
        if value in COMBINED_MS and not behaviour.is_cooperative and (are_lost or leave):
            cooperative = ReplaySettings(is_cooperative=True, policy=both if leave else grace)
            yield Scenario(COOPERATIVE_GRACE, cooperative, key, value)


def _change_hosts(lives: Sequence[Life]) -> bool:
    """Return whether a client id came from several hosts, as that of pods does."""
    hosts: dict[str, str] = {}
    return any(hosts.setdefault(life.client_id, life.host) != life.host for life in lives)


def _leaves(life: Life) -> bool:
    return life.leaves and life.instance is None


def _is_lost(life: Life) -> bool:
    """Return whether a session ends, or would if the client did not come back."""
    ends = life.end_ms is not None and not _leaves(life) and not life.is_removed
    return ends or any(until - begin >= life.session_timeout_ms for begin, until in life.pauses)


def _planning(lives: Sequence[Life], held: Policy, values: _Values) -> Iterator[Scenario]:
    size = held.target_size or usual_size(lives)
    yield Scenario(SPARE, ReplaySettings(policy=replace(held, target_size=size)), spares=1)
    if not held.remote_assignor:
        steps = replace(held, remote_assignor="uniform", step_partitions=STEP_PARTITIONS)
        yield Scenario(STEPS, ReplaySettings(policy=steps))
    if any(life.start_ms > lives[0].start_ms for life in lives):
        for key, value in values:
            window = replace(held, window_ms=value)
            is_held = window == held
            yield Scenario(SCALE_WINDOW, ReplaySettings(policy=window), key, value, is_held)


def _running(lives: Sequence[Life]) -> Iterator[tuple[int, int]]:
    """Yield from when on how many clients ran; the last time is that of the last change."""
    changes = Counter(life.start_ms for life in lives)
    changes.subtract(life.end_ms for life in lives if life.end_ms is not None)
    running = 0
    for at_ms in sorted(changes):
        running += changes[at_ms]
        yield at_ms, running


def usual_size(lives: Sequence[Life]) -> int:
    """Return how many clients ran for the longest time; 1 at least."""
    lasted = Counter[int]()
    numbers = [*_running(lives)]
    for (at_ms, running), (next_ms, _) in pairwise([*numbers, (numbers[-1][0] + 1, 0)]):
        lasted[running] += next_ms - at_ms
    del lasted[0]
    return max(lasted, key=lambda size: (lasted[size], size), default=1)


def spares_of(lives: Sequence[Life], number: int) -> list[Life]:
    """Return so many clients more, which run from the time on that the others are complete."""
    size, found = usual_size(lives), []
    start_ms = next(at_ms for at_ms, running in _running(lives) if running >= size)
    for each in range(number):
        name = f"spare-{each}"
        instance = None if lives[0].instance is None else name
        spare = replace(lives[0], client=name, instance=instance, client_id=name, host=name)
        spare.start_ms, spare.end_ms, spare.pauses = start_ms + 1, None, []
        spare.leaves = spare.is_removed = False
        found.append(spare)
    return found


def _usual(values: Iterable[int]) -> int:
    known = list(values)
    return max(set(known), key=lambda each: (known.count(each), each))
