"""Times in which the coordinator could not answer, and what they change for its members.

A client that gets no answer must not lose its place because of that. So a timer that waits for the
next request of a client does not run out while the log cannot be written, and begins anew, or goes
on, when a stall is over. The clients of some libraries end their memberships themselves when no
answer comes within their session timeout, and join anew: what follows from that has the stall as
its cause.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from groupkeeper.coordinator.clients import MembersByClient
from groupkeeper.coordinator.deadlines import TimerKind

STALL_MS: Final = 1_000
"""Shorter stalls are not noted: no client notices them."""
HOLD_MS: Final = 1_000
HOLD_SHARE: Final = 8
"""A timer that is due during a stall is looked at again after HOLD_MS, or this part of the stall so
far if that is longer: thousands of timers may be held for hours."""
RECONNECT_MS: Final = 3_000
"""Time in which a client whose connection was closed during a stall sends a request again."""

CLIENTS_KEPT_MS: Final = 1_800_000
"""As long as the longest session that brokers allow by default."""

StallKind = Literal["process", "log", "clock", "load"]
"""The event loop did not run; records did not become durable; the wall clock was moved; or the
partition was loaded, and how long before nobody answered is not known."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time without answers, in monotonic milliseconds."""

    what: StallKind
    began: int
    ended: int
    """If the stall lasts: now."""
    lasts: bool = False

    @property
    def duration_ms(self) -> int:
        return self.ended - self.began

    @property
    def look_at(self) -> int:
        """When timers that are held by a stall that lasts are looked at again."""
        return self.ended + max(HOLD_MS, self.duration_ms // HOLD_SHARE)


@dataclass(slots=True)
class Stalls:
    """The stalls of a partition, of which the last one is remembered."""

    waiting_since: int | None = None
    """Time since which the oldest record that is not durable waits, or since which no other one has
    become durable; None if all are durable. Kept by the gate."""
    last: Stall | None = None
    clients: dict[str, MembersByClient] = field(default_factory=dict)
    """By group id: its members when the first client joined anew after the last stall."""

    def end(self, stall: Stall) -> None:
        """Remember a stall that is over."""
        self.last = stall
        self.clients.clear()

    def tidy(self, now: int) -> None:
        """Forget the members of an old stall."""
        if self.last is not None and now - self.last.ended > CLIENTS_KEPT_MS:
            self.clients.clear()

    def at(self, now: int) -> Stall | None:
        """Return the stall that lasts, or else the last one; None if there was none."""
        since = self.waiting_since
        if since is not None and now - since >= STALL_MS:
            return Stall("log", since, now, lasts=True)
        return self.last

    def behind(self, heard_ms: int, session_ms: int, now: int) -> Stall | None:
        """Return the stall that may have made a client join again at `now`: one that ended less
        than its session ago. `heard_ms`: its last request, maybe sent before it gave up.
        """
        stall = self.at(now)
        if stall is None or now - stall.ended > session_ms:
            return None
        return stall if heard_ms < stall.ended + STALL_MS else None

    def since(self, began_ms: int, now: int) -> Stall | None:
        """Return the stall that lasts, or the last one if it ended after this time."""
        stall = self.at(now)
        return stall if stall is not None and stall.ended > began_ms else None


def evidence_of(stall: Stall, now: int) -> dict[str, Any]:
    """Return the evidence that a stall was behind something that happened at `now`."""
    evidence = {"stalled": stall.what, "stall_ended_ms": now - stall.ended}
    return evidence if stall.what == "load" else evidence | {"stalled_ms": stall.duration_ms}


WAITS_FOR_CLIENTS: Final = frozenset(
    {
        *(TimerKind.SESSION, TimerKind.PENDING_MEMBER),
        *(TimerKind.JOIN, TimerKind.SYNC, TimerKind.SEATS, TimerKind.ASKED),
    }
)
"""Timers that wait for requests of clients, and are not over while these cannot be answered."""
