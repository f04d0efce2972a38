"""The designs that a described history is replayed under, and what they cost there."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from groupkeeper.analytics.what_if.cast import START_WITHIN_MS
from groupkeeper.analytics.what_if.described import History
from groupkeeper.analytics.what_if.lives import Life
from groupkeeper.analytics.what_if.replay import ReplaySettings, replay
from groupkeeper.coordinator.policy import OFF, Policy


@dataclass(frozen=True, slots=True)
class Design:
    """A way to handle changes of a group: assignor, instance ids and policies."""

    title: str
    about: str
    is_cooperative: bool | None = None
    """None: as the history says."""
    is_static: bool = False
    has_spares: bool = False
    policy: Callable[[History], Policy] = lambda history: OFF


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of a history under a design; sums are partition-seconds. The first rebalance, in
    which the members got their first partitions, does not count.
    """

    rebalances: int
    moved: int
    moved_most: int
    unavailable_s: float
    reserved_s: float
    imbalance_s: float
    rejoins: int
    asks: int

    def row(self) -> dict[str, float]:
        """Return the measures by name."""
        return asdict(self)


def _deferred(history: History) -> Policy:
    return Policy(history.grace_ms, history.reserve_on, history.seat_match)


def _in_steps(history: History) -> Policy:
    step = history.step, history.step_interval_ms
    return Policy(remote_assignor="uniform", step_partitions=step[0], step_interval_ms=step[1])


def _with_spares(history: History) -> Policy:
    return Policy(target_size=history.largest)


def _window(history: History) -> Policy:
    return Policy(window_ms=history.window_ms)


DESIGNS: Final[Mapping[str, Design]] = {
    "eager": Design("eager", "Everybody stops for every rebalance: what Kafka began with.", False),
    "eager+II": Design(
        "eager + II",
        "Eager members; the coordinator keeps the place of a member that is gone for a while "
        "(Design II).",
        False,
        policy=_deferred,
    ),
    "I": Design("Design I", "Cooperative members: only what moves stops (KIP-429).", True),
    "I+II": Design(
        "I + II", "Cooperative members, and places that are kept.", True, policy=_deferred
    ),
    "III": Design(
        "Design III",
        "The coordinator assigns, and asks single members to rejoin, to move a few partitions at "
        "a time.",
        policy=_in_steps,
    ),
    "static": Design("static", "Static members (KIP-345).", is_static=True),
    "standby": Design(
        "hot standby",
        "Spare members that get what a lost one had; they are in addition to the members.",
        has_spares=True,
        policy=_with_spares,
    ),
    "window": Design(
        "window", "Newcomers wait for others, and share one rebalance.", policy=_window
    ),
}
"""By the names that the command takes."""


def simulate(history: History, design: Design) -> Measured:
    """Replay a history under a design. Raises GivenUp."""
    lives = [*history.lives, *(_spares(history) if design.has_spares else ())]
    settings = ReplaySettings(
        is_static=design.is_static,
        is_cooperative=design.is_cooperative,
        policy=design.policy(history),
    )
    outcome = replay(lives, history.behaviour, settings, history.timing.lasts_ms)
    return Measured(
        rebalances=max(0, outcome.generations - 1),
        moved=outcome.moved,
        moved_most=outcome.moved_most,
        unavailable_s=outcome.unread_ms / 1000,
        reserved_s=outcome.reserved_ms / 1000,
        imbalance_s=outcome.imbalance_ms / 1000,
        rejoins=outcome.rejoins,
        asks=outcome.asks,
    )


def _spares(history: History) -> list[Life]:
    """Return processes that last to the end; they come after the members of the history."""
    model, found = history.lives[0], []
    for number in range(history.spares):
        name = f"spare-{number}"
        spare = replace(model, client=name, client_id=name, host=name, end_ms=None, pauses=[])
        spare.start_ms = START_WITHIN_MS + number
        spare.beat_offset_ms = number * 700 % history.timing.heartbeat_ms
        found.append(spare)
    return found
