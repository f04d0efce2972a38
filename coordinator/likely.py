"""What probably is behind a cause, guessed from a client's words and from what happened before.

Pure: numbers and texts in, a guess and its evidence out. A guess is made only with evidence, and
nothing depends on it. What the guesses mean: `LIKELY` in `protocol.group_event_words`.

Reasons are free text of clients. Java's are "consumer poll timeout has expired.", "the consumer is
being closed" and "the consumer unsubscribed from all topics", franz-go's is "client leaving group
per normal operation"; librdkafka and kafka-python send none when a poll comes too late, so that the
time since the last commit has to tell.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from groupkeeper.coordinator.caller import Link, Peer

Guess = tuple[str | None, dict[str, Any]]
"""A key of `LIKELY` or None, and the evidence."""

MAX_POLL_EXCEEDED: Final = "max_poll_exceeded"
SHUTDOWN: Final = "shutdown"
CRASH_OR_NETWORK: Final = "crash_or_network"
SLOW_MEMBER: Final = "slow_member"
DUEL: Final = "duel"
ROLLING_RESTART: Final = "rolling_restart"

DUEL_MS: Final = 300_000
"""Two replacements of running clients within this time are a duel."""
ROLLING_MS: Final = 600_000
"""Two restarts within this time are a rolling restart."""
AUTO_COMMIT_MS: Final = 6_000
"""Clients commit every 5 s by default, and look a second later whether a poll is due."""
REMEMBERED: Final = 8
"""How many comings and goings of a group are remembered."""
REASON_READ: Final = 200
"""How many characters of a reason are looked at."""

_POLL_WORDS: Final = ("poll timeout", "poll interval", "max.poll.interval", "max_poll_interval")
_END_WORDS: Final = (
    *("being closed", "closing", "unsubscribed", "shutting down", "shutdown"),
    "leaving group per normal operation",
)


def said(reason: str | None) -> str | None:
    """What a client's own words say about why it leaves."""
    text = (reason or "")[:REASON_READ].casefold()
    if any(words in text for words in _POLL_WORDS):
        return MAX_POLL_EXCEEDED
    return SHUTDOWN if any(words in text for words in _END_WORDS) else None


def left(reason: str | None, idle_ms: int | None, rebalance_timeout_ms: int) -> Guess:
    """A member left by itself. `idle_ms`: since it last committed, None if it never did.

    The rebalance timeout is the client's max.poll.interval.ms. A client commits while it is polled;
    one that leaves without a word when just that interval has passed since was probably not polled.
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


# -- what a group remembers ----------------------------------------------------------------------


@dataclass(slots=True)
class _Replaced:
    """A static member changed hands."""

    at: int
    instance: str
    old: Peer | None
    new: Peer
    was_open: bool


@dataclass(slots=True)
class Recent:
    """The last comings and goings of a group: soft state, bounded by `REMEMBERED`."""

    replaced: deque[_Replaced] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    left: deque[tuple[int, Peer]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """Members that left by themselves."""
    returned: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """When a member joined that probably is one of these, restarted."""

    def replace(self, now: int, instance: str, old: Peer | None, new: Peer) -> Guess:
        """A static member came back under a new id."""
        was_open = old is not None and not old.link.closed and old.link is not new.link
        self.replaced.append(_Replaced(now, instance, old, new, was_open))
        duel = self.duel(now, instance)
        return duel if duel[0] else self.rolling(now)

    def duel(self, now: int, instance: str) -> Guess:
        """Whether two running clients replace each other under this instance id."""
        found = [
            each
            for each in self.replaced
            if each.instance == instance and each.was_open and now - each.at <= DUEL_MS
        ]
        if len(found) < 2:
            return None, {}
        last = found[-1]
        peers = [peer for peer in (last.old, last.new) if peer is not None]
        return DUEL, {
            "replacements": len(found),
            "within_ms": now - found[0].at,
            "hosts": [peer.host for peer in peers],
            "clients": [peer.client_id for peer in peers],
            "old_connection": "open",
        }

    def leave(self, now: int, peer: Peer) -> Guess:
        """A member left by itself."""
        self.left.append((now, peer))
        return self.rolling(now)

    def join(self, now: int, peer: Peer) -> Guess:
        """A member joined that was none."""
        for each in self.left:
            at, gone = each
            if now - at <= ROLLING_MS and _restarted(gone, peer):
                self.left.remove(each)
                self.returned.append(now)
                return self.rolling(now)
        return None, {}

    def rolling(self, now: int) -> Guess:
        """Whether members are restarted one after the other."""
        since = now - ROLLING_MS
        first = {
            each.instance: each.at
            for each in reversed(self.replaced)
            if each.at >= since and not each.was_open
        }
        times = [*first.values(), *(at for at in self.returned if at >= since)]
        if len(times) < 2:
            return None, {}
        return ROLLING_RESTART, {"instances": len(times), "within_ms": now - min(times)}


def _restarted(gone: Peer, come: Peer) -> bool:
    """Whether a client may be one that left, in a new process: another connection of the same
    host or client id.
    """
    same = gone.host == come.host or (gone.client_id == come.client_id != "")
    return same and gone.link is not come.link


def connection(link: Link | None) -> str | None:
    """Of a member, as evidence."""
    return None if link is None else "closed" if link.closed else "open"
