"""Measures a replay: who read which partition when, what moved, and how even the shares were.

One measure for all settings: a partition is read while a running client has it in its assignment.
It is not read while a rebalance has taken it away, while its owner has vanished and is not yet
noticed, while its place is reserved, and while its static owner restarts. It has no owner only in
the first of these. The paper on incremental cooperative rebalancing names what counts besides:
partitions that change hands, and shares that stay uneven.

Time before the first assignments, and time in which no client runs, does not count: no setting of
the group changes either.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
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


class _Readers:
    """Which clients read which partitions, and how many partitions nobody reads."""

    def __init__(self, partitions: int) -> None:
        self.none = partitions
        self._count = [0] * partitions
        self._of: dict[Hashable, tuple[int, ...]] = {}

    def set(self, client: Hashable, numbers: Sequence[int]) -> None:
        for number in self._of.pop(client, ()):
            self._count[number] -= 1
            self.none += self._count[number] == 0
        for number in numbers:
            self.none -= self._count[number] == 0
            self._count[number] += 1
        if numbers:
            self._of[client] = tuple(numbers)

    def unread_of(self, numbers: Iterable[int]) -> int:
        """Return how many of these partitions nobody reads."""
        return sum(self._count[number] == 0 for number in numbers)


class _Balance:
    """Measures the imbalance between the shares of the running clients."""

    def __init__(self, most: int) -> None:
        """`most`: how many clients are to have partitions; 0 for all."""
        self.running = 0
        self._most = most
        self._of: dict[Hashable, int] = {}
        self._count: Counter[int] = Counter()
        self._uneven: int | None = 0

    def set(self, client: Hashable, share: int | None) -> None:
        """Set the share of a client; None: it does not run."""
        before = self._of.pop(client, None)
        if before is not None:
            self._count[before] -= 1
            if not self._count[before]:
                del self._count[before]
        if share is not None:
            self._of[client] = share
            self._count[share] += 1
        self.running, self._uneven = len(self._of), None

    @property
    def uneven(self) -> int:
        """The largest share minus the smallest one, minus the one that may not divide."""
        if self._uneven is None:
            self._uneven = max(0, max(self._count, default=0) - self._least() - 1)
        return self._uneven

    def _least(self) -> int:
        left = min(self._most or self.running, self.running)
        for share in sorted(self._count, reverse=True):
            left -= self._count[share]
            if left <= 0:
                return share
        return 0


@dataclass(slots=True)
class Measures:
    """Sums over `partitions`, in milliseconds, and counts."""

    partitions: int
    most_active: int = 0
    """How many clients are to have partitions, the others stand by; 0 for all."""
    unowned_ms: int = 0
    unread_ms: int = 0
    paused_ms: int = 0
    """The part of `unread_ms` of pauses that a session outlives, which a log does not tell."""
    reserved_ms: int = 0
    """The part of `unread_ms` of places that are kept for lost members."""
    imbalance_ms: int = 0
    """Not a sum over partitions: how many partitions the largest share has too many."""
    moves: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Partitions that went to another client than the last one, by what brought them: a generation,
    and the member that was asked in it and when, if one was."""
    is_assigned: bool = False
    """There were assignments."""
    _owned: _Shares = field(default_factory=_Shares)
    _paused: _Shares = field(default_factory=_Shares)
    _reserved: dict[str, list[int]] = field(default_factory=dict)
    _last: dict[int, str] = field(default_factory=dict)
    _readers: _Readers = field(init=False)
    _balance: _Balance = field(init=False)

    def __post_init__(self) -> None:
        self._readers, self._balance = _Readers(self.partitions), _Balance(self.most_active)

    def passed(self, ms: int) -> None:
        """Count a time in which nothing changed."""
        if ms > 0 and self._balance.running > 0 and self.is_assigned:
            self.unowned_ms += ms * max(0, self.partitions - self._owned.total)
            self.unread_ms += ms * self._readers.none
            self.paused_ms += ms * self._paused.total
            self.imbalance_ms += ms * self._balance.uneven
            for numbers in self._reserved.values():
                self.reserved_ms += ms * self._readers.unread_of(numbers)

    # -- what the coordinator holds ------------------------------------------------------------

    def owns(self, member: str, share: int) -> None:
        """Set the number of partitions that the coordinator holds for a member."""
        self._owned.set(member, share)
        self.is_assigned = self.is_assigned or share > 0

    def removed(self, member: str) -> None:
        self._owned.set(member, 0)
        self._reserved.pop(member, None)

    def replaced(self, old: str, new: str) -> None:
        """A member has a new id, and keeps its partitions."""
        self._owned.set(new, self._owned.set(old, 0))
        self._reserved.pop(old, None)

    def reserves(self, member: str, numbers: list[int]) -> None:
        """Partitions are kept for a lost member."""
        self._reserved[member] = numbers

    def plans(self, member: str, numbers: list[int]) -> None:
        """A new plan gives a member, who may be a lost one, these partitions."""
        if member in self._reserved:
            self._reserved[member] = numbers

    @property
    def has_reserved(self) -> bool:
        return bool(self._reserved)

    # -- what clients do -----------------------------------------------------------------------

    def reads(self, client: Hashable, numbers: Sequence[int], share: int | None) -> None:
        """Set the partitions that a client reads, and how many it was given; None: it does not
        run.
        """
        self._readers.set(client, numbers)
        self._balance.set(client, share)

    def pauses(self, client: Hashable, share: int) -> None:
        """Set the number of partitions of a client in a pause that its session outlives."""
        self._paused.set(client, share)

    def given(self, name: str, by: tuple[int, str], numbers: Iterable[int]) -> None:
        """Count the partitions that a client gets for the first time after another one. `name`: of
        the client, not of its process: what comes back to it after a restart has not moved. `by`:
        as in `moves`.
        """
        for number in numbers:
            last = self._last.get(number, name)
            self._last[number] = name
            if last != name:
                self.moves[by] += 1
