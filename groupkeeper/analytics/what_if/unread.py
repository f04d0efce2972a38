"""Adds up the time of partitions that have no owner, or no reader, during a replay.

One measure for all settings: a partition is read while a running client has it in its assignment.
It is not read while a rebalance has taken it away, while its owner has vanished and is not yet
noticed, and while its static owner restarts. It has no owner only in the first of these.

Time before the first assignments, and time in which no client runs, does not count: no setting of
the group changes either.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field


class _Shares:
    """Numbers of partitions by holder, and their sum."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[Hashable, int] = {}

    def set(self, holder: Hashable, share: int) -> int:
        """Set a share; returns the one before."""
        before = self._of.pop(holder, 0)
        if share:
            self._of[holder] = share
        self.total += share - before
        return before


@dataclass(slots=True)
class Unread:
    """Sums are over `partitions`, in milliseconds."""

    partitions: int
    unowned_ms: int = 0
    unread_ms: int = 0
    paused_ms: int = 0
    """The part of `unread_ms` of pauses that a session outlives, which a log does not tell."""
    running: int = 0
    """Number of clients that run."""
    is_assigned: bool = False
    """There were assignments."""
    _owned: _Shares = field(default_factory=_Shares)
    _read: _Shares = field(default_factory=_Shares)
    _paused: _Shares = field(default_factory=_Shares)

    def passed(self, ms: int) -> None:
        """Count a time in which nothing changed."""
        if ms > 0 and self.running > 0 and self.is_assigned:
            self.unowned_ms += ms * max(0, self.partitions - self._owned.total)
            self.unread_ms += ms * max(0, self.partitions - self._read.total)
            self.paused_ms += ms * self._paused.total

    def owns(self, member: str, share: int) -> None:
        """Set the number of partitions that the coordinator holds for a member."""
        self._owned.set(member, share)
        self.is_assigned = self.is_assigned or share > 0

    def removed(self, member: str) -> None:
        self._owned.set(member, 0)

    def replaced(self, old: str, new: str) -> None:
        """A static member has a new id, and keeps its partitions."""
        self._owned.set(new, self._owned.set(old, 0))

    def reads(self, client: Hashable, share: int) -> None:
        """Set the number of partitions that a client reads."""
        self._read.set(client, share)

    def pauses(self, client: Hashable, share: int) -> None:
        """Set the number of partitions of a client in a pause that its session outlives."""
        self._paused.set(client, share)
