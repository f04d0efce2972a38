"""Admits or refuses changes of settings: the only way by which a setting reaches a person.

A change passes if all of its settings exist for the members' protocol type and for each client
software seen in the group, and if it costs nothing, or if the same incident would have cost clearly
less with it. Costs are partition-milliseconds that nobody reads (`history.unread`). An admitted
change names what has to be set beside it, and how it is rolled out; a refused one says why in a few
words.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groupkeeper.history.rounds import Round, SessionLimits
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.why.client_settings import (
    GRACE,
    HEARTBEAT,
    INSTANCE,
    LARGEST_GROUP,
    LARGEST_RECORD,
    LARGEST_SESSION,
    OF_COORDINATOR,
    OF_GROUP,
    POLL_INTERVAL,
    POLL_RECORDS,
    SESSION,
    SMALLEST_SESSION,
    STRATEGY,
    ClientSoftware,
    lacking,
    software_of_client,
    spellings,
)
from groupkeeper.why.texts import setting, span

FREE: Final = frozenset({HEARTBEAT, POLL_RECORDS, LARGEST_GROUP, LARGEST_RECORD})
"""Settings that keep no partition from being read: more heartbeats, smaller batches, and limits of
the coordinator."""
WORTH: Final = 0.8
"""Part of the cost that may be left with a change: estimates are right to about a fifth."""
LEAST_SAVED_MS: Final = 1_000
"""Partition-milliseconds that a change has to save: nobody configures clients for less."""
MAX_POLL_INTERVAL_MS: Final = 300_000
"""Default `max.poll.interval.ms` of all clients that have it."""
MAX_POLL_RECORDS: Final = 500
"""Default of Kafka's Java client, kafka-python and aiokafka."""


class Cost(NamedTuple):
    """Partition-milliseconds that nobody read in an incident, and would have with a change."""

    now_ms: int
    then_ms: int


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Settings that belong together: name -> value. `cost` is None if it is unknown."""

    settings: tuple[tuple[str, int | str], ...]
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class Audience:
    """The members that would have to change a setting."""

    protocol_type: str | None
    """None if unknown."""
    protocol: str | None = None
    clients: tuple[ClientSoftware, ...] = ()
    has_unknown: bool = True
    """Whether the software of any member is unknown."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None

    @classmethod
    def of(cls, current: Round) -> "Audience":
        """Return the members of a round. An assignment that could be read is that of consumers."""
        known = [software_of_client(each) for each in current.clients]
        readable = CONSUMER if current.assignment is not None else None
        return cls(
            current.protocol_type or readable,
            current.protocol,
            tuple(dict.fromkeys(each for each in known if each is not None)),
            None in known or not known,
            current.limits,
            current.rebalance_timeout_ms,
            current.session_timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Settings that passed, and the sentence about a change."""

    settings: tuple[tuple[str, int | str], ...] = ()
    """Those that passed, with what has to be set beside them; empty if the change was refused."""
    text: str = ""
    """A sentence with the settings, or with why none is proposed; empty for no change."""

    @property
    def passes(self) -> bool:
        return bool(self.settings)


def judge(change: SettingChange, audience: Audience) -> Verdict:
    """Admit or refuse a change."""
    if not change.settings:
        return Verdict()
    problem = _invalid(change, audience) or _too_costly(change)
    if problem:
        return Verdict(text=f"No setting is proposed: {problem}.")
    settings = _with_needed(change, audience)
    texts = " and ".join(_text(key, value, audience) for key, value in settings)
    text = f"Set {texts}{_procedure(settings)}{_gain(change)}.{_price(settings, audience)}"
    return Verdict(settings, text)


def first_passing(changes: Iterable[SettingChange], audience: Audience) -> Verdict:
    """Return the verdict on the first change that passes, or else on the first one."""
    verdicts = [judge(each, audience) for each in changes]
    return next((each for each in verdicts if each.passes), verdicts[0])


def _invalid(change: SettingChange, audience: Audience) -> str:
    """Return why the members cannot use the change; empty if they can."""
    for key, value in change.settings:
        if why := lacking(key, audience.protocol_type, audience.protocol):
            return why
        if key in OF_COORDINATOR | OF_GROUP:
            continue
        for client in audience.clients:
            if key in client.lacks or (key == STRATEGY and client.cooperative is None):
                return f"{client.title} has no {value if key == STRATEGY else key}"
        if audience.has_unknown and key in (STRATEGY, POLL_RECORDS):
            return f"not all clients are known, and some have no {key}"
    return ""


def _too_costly(change: SettingChange) -> str:
    """Return why the change is not worth its cost; empty if it is, or costs nothing."""
    if all(key in FREE for key, _ in change.settings):
        return ""
    if change.cost is None:
        return "what it would save is not known"
    now_ms, then_ms = change.cost
    if then_ms < now_ms * WORTH and now_ms - then_ms >= LEAST_SAVED_MS:
        return ""
    named = " and ".join(key for key, _ in change.settings)
    return (
        f"nobody read for {partition_time(now_ms)}, and with {named} it would have been"
        f" {_seconds(then_ms)}"
    )


def _with_needed(change: SettingChange, audience: Audience) -> tuple[tuple[str, int | str], ...]:
    """Return the settings, those of the coordinator first, with those that they need."""
    known: dict[str, int | str] = dict(change.settings)
    first: dict[str, int | str] = {}
    wanted, limits = known.get(SESSION), audience.limits
    if isinstance(wanted, int):
        if wanted > limits.max_ms:
            first = {LARGEST_SESSION: wanted}
        elif wanted < limits.min_ms:
            first = {SMALLEST_SESSION: wanted}
        is_strict = audience.has_unknown or any(each.needs_longer_poll for each in audience.clients)
        if is_strict and wanted > (audience.rebalance_timeout_ms or MAX_POLL_INTERVAL_MS):
            known.setdefault(POLL_INTERVAL, wanted)
    return tuple((first | known).items())


def _text(key: str, value: int | str, audience: Audience) -> str:
    if key == INSTANCE:
        text = "a group.instance.id for each member"
    elif isinstance(value, int):
        text = setting(key, value)
    elif key != STRATEGY:
        text = f"{key}={value}"
    else:
        names = dict.fromkeys(each.cooperative or value for each in audience.clients)
        text = f"{key}={' or '.join(names) or value}"
    if key in OF_GROUP:
        return f"{text} of the group"
    if key in OF_COORDINATOR:
        limits = audience.limits
        now = {LARGEST_SESSION: limits.max_ms, SMALLEST_SESSION: limits.min_ms}.get(key)
        return f"{text} of the coordinator" + (f", which has {now}," if now is not None else "")
    more = spellings(key, audience.clients)
    if key == POLL_RECORDS:
        more = [f"where it is {MAX_POLL_RECORDS} now", *more]
    return f"{text} ({'; '.join(more)})" if more else text


def _procedure(settings: Iterable[tuple[str, int | str]]) -> str:
    """Return how the change is rolled out, if that is not a restart alone."""
    keys = {key for key, _ in settings}
    if STRATEGY in keys:
        return (
            ", by two rolling restarts: first with both assignors in the list, then with the new"
            " one alone"
        )
    if keys <= OF_GROUP:
        return ", without a change of its clients"
    return ", by one rolling restart with one id for each process" if INSTANCE in keys else ""


def _gain(change: SettingChange) -> str:
    if change.cost is None:
        return ""
    now_ms, then_ms = change.cost
    return f": nobody read for {partition_time(now_ms)}, it would have been {_seconds(then_ms)}"


def _price(settings: Iterable[tuple[str, int | str]], audience: Audience) -> str:
    """Return what a longer session costs in other incidents; empty if it is not longer."""
    grace_ms = dict(settings).get(GRACE)
    if isinstance(grace_ms, int):
        return f" Partitions of a member that ends for good then wait {span(grace_ms)} longer."
    session_ms = dict(settings).get(SESSION)
    if not isinstance(session_ms, int) or session_ms <= (audience.session_timeout_ms or 0):
        return ""
    return f" A member that dies then keeps its partitions for {span(session_ms)}."


def partition_time(ms: int) -> str:
    """Return partition-milliseconds as text: 36 partition-seconds."""
    return f"{_seconds(ms)} partition-seconds"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.0f}" if ms >= 10_000 or not ms else f"{ms / 1000:.1f}"
