"""Guesses the reason behind a cause, from a client's words and from what happened before.

Pure: numbers and texts in, a guess and its evidence out. A guess is made only with evidence, and
nothing depends on it. The meaning of the guesses: `LIKELY` in `protocol.group_event_words`.

Reasons are free text of clients. Java's are "consumer poll timeout has expired.", "the consumer is
being closed" and "the consumer unsubscribed from all topics", franz-go's is "client leaving group
per normal operation"; librdkafka and kafka-python send none when a poll comes too late, so only the
time since the last commit hints at it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from groupkeeper.coordinator.caller import Link, Peer

T = TypeVar("T")

Guess = tuple[str | None, dict[str, Any]]
"""A key of `LIKELY` or None, and the evidence."""

MAX_POLL_EXCEEDED: Final = "max_poll_exceeded"
SHUTDOWN: Final = "shutdown"
CRASH_OR_NETWORK: Final = "crash_or_network"
SLOW_MEMBER: Final = "slow_member"
DUEL: Final = "duel"
ROLLING_RESTART: Final = "rolling_restart"
COORDINATOR_STALLED: Final = "coordinator_stalled"
PARTITIONS_CHANGED: Final = "partitions_changed"
REBALANCE_ENFORCED: Final = "rebalance_enforced"
PROBING_REBALANCE: Final = "probing_rebalance"
PARTITIONS_REVOKED: Final = "partitions_revoked"
TAKEN_OVER: Final = "taken_over"
CONFIG_CHANGED: Final = "config_changed"

GUESSES: Final = (
    MAX_POLL_EXCEEDED,
    SHUTDOWN,
    CRASH_OR_NETWORK,
    SLOW_MEMBER,
    DUEL,
    ROLLING_RESTART,
    COORDINATOR_STALLED,
    PARTITIONS_CHANGED,
    REBALANCE_ENFORCED,
    PROBING_REBALANCE,
    PARTITIONS_REVOKED,
    TAKEN_OVER,
    CONFIG_CHANGED,
)
"""All of them; `LIKELY` in `protocol.group_event_words` has their words."""

DUEL_MS: Final = 300_000
"""Two replacements of running clients within this time are a duel."""
RESTART_MS: Final = 120_000
"""A client that joins within this time after it left was restarted."""
ROLLING_MS: Final = 600_000
"""Restarts of two members within this time are a rolling restart."""
HEARTBEAT_MS: Final = 3_000
"""Clients' default heartbeat interval, assumed for a member that has not sent any heartbeat."""
SHORTEST_HEARTBEAT_MS: Final = 1_000
"""The least interval that is assumed: the mean of a member's first heartbeats may be shorter by
chance."""
HEARTBEATS: Final = 3
"""A running client has sent a request within so many heartbeat intervals."""
AUTO_COMMIT_MS: Final = 6_000
"""Clients commit every 5 s by default, and check a second later whether a poll is due."""
REMEMBERED: Final = 8
"""How many joins and leaves of a group are remembered."""
REASON_READ: Final = 200
"""How many characters of a reason are read."""

_POLL_WORDS: Final = ("poll timeout", "poll interval", "max.poll.interval", "max_poll_interval")
_END_WORDS: Final = (
    *("being closed", "closing", "unsubscribed", "shutting down", "shutdown"),
    "leaving group per normal operation",
)

_REJOIN_WORDS: Final = (
    ("probing rebalance", PROBING_REBALANCE),
    ("followup rebalance", PROBING_REBALANCE),
    ("metadata has changed", PARTITIONS_CHANGED),
    ("topics have new partitions", PARTITIONS_CHANGED),
    ("revoke partitions", PARTITIONS_REVOKED),
    ("enforced by user", REBALANCE_ENFORCED),
    ("forcerebalance", REBALANCE_ENFORCED),
)


def said(reason: str | None) -> str | None:
    """Return the reason for leaving that a client's own words name."""
    text = (reason or "")[:REASON_READ].casefold()
    if any(words in text for words in _POLL_WORDS):
        return MAX_POLL_EXCEEDED
    return SHUTDOWN if any(words in text for words in _END_WORDS) else None


def said_of_rejoin(reason: str | None) -> str | None:
    """Return the reason for a rejoin that a client's own words name: Java says "cached metadata has
    changed", "need to revoke partitions", "rebalance enforced by user", Kafka Streams "Scheduled
    probing rebalance" and "triggered followup rebalance", franz-go "from ForceRebalance"
    and "noticed some topics have new partitions".
    """
    text = (reason or "")[:REASON_READ].casefold()
    return next((guess for words, guess in _REJOIN_WORDS if words in text), None)


def left(reason: str | None, idle_ms: int | None, rebalance_timeout_ms: int) -> Guess:
    """Guess why a member left by itself. `idle_ms`: since its last commit, None if it never
    committed.

    The rebalance timeout is the client's max.poll.interval.ms. A client commits while it is polled;
    a client that leaves without a reason just that interval after its last commit was probably not
    polled.
    """
    guess = said(reason)
    if guess == MAX_POLL_EXCEEDED:
        return guess, {"rebalance_timeout_ms": rebalance_timeout_ms}
    if guess is not None or reason or idle_ms is None:
        return guess, {}
    late_ms = idle_ms - rebalance_timeout_ms
    if rebalance_timeout_ms > 0 and 0 <= late_ms <= AUTO_COMMIT_MS + rebalance_timeout_ms // 20:
        evidence = {"idle_ms": idle_ms, "rebalance_timeout_ms": rebalance_timeout_ms}
        return MAX_POLL_EXCEEDED, evidence
    return None, {}


def missed_poll(
    reason: str | None, idle_ms: int, rebalance_timeout_ms: int
) -> Mapping[str, Any] | None:
    """Return the evidence that a client that left, but still runs, had not been polled; None if it
    had been, or gave another reason. `idle_ms`: since its last commit or assignment.
    """
    known = {"rebalance_timeout_ms": rebalance_timeout_ms}
    if said(reason) == MAX_POLL_EXCEEDED:
        return known
    silent = not reason and 0 < rebalance_timeout_ms <= idle_ms
    return known | {"idle_ms": idle_ms} if silent else None


def runs(silent_ms: int, heartbeat_interval_ms: int | None) -> bool:
    """Return whether a client sent a request so recently that it still runs, judged by its
    heartbeats: an open connection is no proof, as that of a host without power stays open.
    """
    interval_ms = HEARTBEAT_MS
    if heartbeat_interval_ms is not None:
        interval_ms = max(heartbeat_interval_ms, SHORTEST_HEARTBEAT_MS)
    return silent_ms <= HEARTBEATS * interval_ms


# -- what a group remembers ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of an instance id when another client came with the same id."""

    member_id: str
    peer: Peer | None
    runs: bool
    """The client sent a request recently."""


@dataclass(slots=True)
class _Replaced:
    """A static member changed hands."""

    at: int
    instance: str
    old: Holder
    new: Peer
    old_connection: str | None
    ran: bool
    """The old client was running: it sent a request shortly before, or afterwards."""


_Key = str | tuple[str, str]
"""Tells restarted members apart: by instance id, or host and client id."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A member left by itself."""

    at: int
    key: _Key
    link: Link
    missed_poll: Mapping[str, Any] | None
    """As `missed_poll` returns it."""


@dataclass(slots=True)
class Recent:
    """The last joins and leaves of a group: soft state, `REMEMBERED` of each. Lists, as Empty
    groups may be many: an empty deque takes ten times as much.
    """

    replaced: list[_Replaced] = field(default_factory=list)
    left: list[_Left] = field(default_factory=list)
    returned: list[tuple[int, _Key]] = field(default_factory=list)
    """Join times of members that probably are restarts of one that left."""

    def of_empty(self) -> "Recent | None":
        """The history that an Empty group keeps: the last member that left, which may come back."""
        return Recent(left=self.left[-1:]) if self.left else None

    def replace(self, now: int, instance: str, old: Holder, new: Peer) -> Guess:
        """Note that a static member came back under a new id."""
        link = old.peer.link if old.peer is not None else None
        ran = old.runs and link is not new.link and connection(link) == "open"
        _remember(self.replaced, _Replaced(now, instance, old, new, connection(link), ran))
        duel = self.duel(now, instance)
        if duel[0] or not ran:
            return duel if duel[0] else self.rolling(now)
        assert old.peer is not None, "its connection is open"
        known = {"old_host": _address(old.peer), "old_client": old.peer.client_id}
        return TAKEN_OVER, known | {"old_connection": "open"}

    def fence(self, now: int, instance: str, member_id: str, peer: Peer) -> Guess:
        """Note a request of a replaced member from this client."""
        for each in self.replaced:
            if each.old.member_id == member_id and each.new.link is not peer.link:
                each.ran = True
        return self.duel(now, instance)

    def duel(self, now: int, instance: str) -> Guess:
        """Whether two running clients replace each other under this instance id."""
        found = [
            each
            for each in self.replaced
            if each.instance == instance and each.ran and now - each.at <= DUEL_MS
        ]
        if len(found) < 2:
            return None, {}
        last = found[-1]
        peers = [peer for peer in (last.old.peer, last.new) if peer is not None]
        return DUEL, {
            "replacements": len(found),
            "within_ms": now - found[0].at,
            "hosts": [_address(peer) for peer in peers],
            "clients": [peer.client_id for peer in peers],
            "old_connection": last.old_connection,
        }

    def leave(
        self, now: int, instance: str | None, peer: Peer, missed: Mapping[str, Any] | None
    ) -> Guess:
        """Note that a member left by itself. `missed`: see `missed_poll`."""
        _remember(self.left, _Left(now, _key(instance, peer), peer.link, missed))
        return self.rolling(now)

    def join(self, now: int, instance: str | None, peer: Peer) -> Guess:
        """Note a new member, and guess whether it is one that left. With another connection it is a
        new process, and was restarted; on the same connection it went on.
        """
        key = _key(instance, peer)
        known = [each for each in self.left if each.key == key]
        for each in known:  # several may have one client id
            if each.link is peer.link:
                self.left.remove(each)
                evidence = {"away_ms": now - each.at, "same_connection": True}
                if each.missed_poll is None:
                    return None, evidence
                return MAX_POLL_EXCEEDED, evidence | dict(each.missed_poll)
        for each in known:
            if now - each.at <= RESTART_MS:
                self.left.remove(each)
                _remember(self.returned, (now, key))
                return self.rolling(now)
        return None, {}

    def rolling(self, now: int) -> Guess:
        """Guess whether several members are restarted one after the other; each counts once."""
        since = now - ROLLING_MS
        restarts: list[tuple[int, _Key]] = [
            (each.at, each.instance) for each in self.replaced if not each.ran
        ]
        restarts += self.returned
        first: dict[_Key, int] = {}
        for at, key in restarts:
            if at >= since:
                first[key] = min(at, first.get(key, at))
        if len(first) < 2:
            return None, {}
        return ROLLING_RESTART, {"instances": len(first), "within_ms": now - min(first.values())}


def _remember(some: list[T], each: T) -> None:
    some.append(each)
    del some[:-REMEMBERED]


def _key(instance: str | None, peer: Peer) -> _Key:
    return instance if instance is not None else (peer.host, peer.client_id)


def _address(peer: Peer) -> str:
    """Return the address of a client in the form of events."""
    return peer.host.removeprefix("/")


def connection(link: Link | None) -> str | None:
    """Describe the connection of a member, as evidence."""
    return None if link is None else "closed" if link.closed else "open"
