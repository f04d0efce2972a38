"""Measures how long members were away: matches members that join with earlier ones that left.

A joining member is taken for a restart if it has the same instance id or, without one, the same
client id and host, and joins within `RETURN_MS`. Of several candidates the last to leave is taken,
and each only once. This works for stored and inferred events alike: clients of one process that
leave together return together, and in the same number.
"""

from collections.abc import Iterable, Reversible
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Final, Protocol, TypeVar

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import HistoryEntry, Round
from groupkeeper.history.unread import Incident, gone_ms, heard_ms

RETURN_MS: Final = 900_000
"""Longest absence, in ms, of a member that is still taken for the same client."""
SWEEP_AT: Final = 64
"""Expired entries are dropped after this many additions."""
LOOKED_AT: Final = 64
"""How many of the newest sessions may be of a client whose earlier session ends."""

_Name = tuple[str | None, ...]
"""Identity of a client across member ids."""


@dataclass(slots=True)
class Lost:
    """A member that left."""

    heard_ms: int
    """Time of its last request in Unix ms; the time of its removal if that is unknown."""
    connection: str | None = None
    session_timeout_ms: int | None = None
    is_exact: bool = True
    """Whether the time of the last request is known."""
    loss: "_Loss | None" = None
    """The round in which the member left; None if rounds are not kept."""
    partitions: int | None = None
    """Number of its partitions; None if unknown."""


OF_ABSENCE: Final = frozenset(
    {
        *("member_left", "session_expired", "seat_expired", "join_timeout", "sync_timeout"),
        *("member_joined", "static_member_joined", "static_member_returned_unready"),
    }
)
"""Causes of rounds that members with instance ids do not need, if they come back in time."""


SECOND: Final = "member_rejoined"
"""Cause of the second rebalance of an incremental assignor."""
SECOND_MS: Final = 30_000
"""It begins at most this long after the end of the first."""


@dataclass(slots=True)
class _Loss:
    """A round that lost members, and the rounds in which they came back."""

    rounds: list[Round]
    """The round that lost them comes first."""
    others: bool = False
    """Whether any of the rounds had other causes, too."""
    absent_ms: int | None = 0
    back: int = 0
    """Number of partitions of the members that came back."""
    has_returns: bool = False

    def take_back(self, lost: Lost, away_ms: int) -> None:
        self.has_returns = True
        if lost.partitions is None or self.absent_ms is None:
            self.absent_ms = None
        else:
            self.absent_ms += lost.partitions * away_ms
            self.back += lost.partitions

    def came_in(self, current: Round, *, others: bool) -> None:
        """Note a round in which some came back, or that an incremental assignor needed after one,
        and set the incident of all rounds once any came back.
        """
        self.others |= others
        if all(current is not each for each in self.rounds):
            self.rounds.append(current)
        unread = [each.unread_ms for each in self.rounds]
        held: list[int | None] = [each.get("partitions") for each in self.rounds[0].removed]
        known = [each for each in unread if each is not None]
        now_ms = sum(known) if len(known) == len(unread) and not self.others else None
        gone = None if None in held else sum(each or 0 for each in held) - self.back
        for each in self.rounds if self.has_returns else ():
            each.incident = Incident(now_ms, self.absent_ms, gone)


class Returns:
    """Members that left and may return within `RETURN_MS`. Memory is bounded by periodic sweeps."""

    __slots__ = ("_lost", "_recent", "_sweep_at")

    _lost: dict[_Name, list[Lost]]
    """Lost members by identity, oldest first."""

    def __init__(self) -> None:
        self._lost = {}
        self._recent: list[_Loss] = []
        """Of the last round, for the second one of an incremental assignor."""
        self._sweep_at = SWEEP_AT

    def lose(self, who: Part, lost: Lost) -> None:
        """Add a member that left."""
        self._lost.setdefault(_name(who), []).append(lost)
        if len(self._lost) > self._sweep_at:
            self._sweep(lost.heard_ms - RETURN_MS)

    def take_back(self, who: Part, at_ms: int) -> Lost | None:
        """Remove and return the member that probably was the same client: the last one of this
        identity to leave, within `RETURN_MS`. None if there is none.
        """
        name = _name(who)
        some = self._lost.get(name, [])
        for each in reversed(some):
            if at_ms - each.heard_ms <= RETURN_MS:
                some.remove(each)
                if not some:
                    del self._lost[name]
                return each
        return None

    def _sweep(self, since_ms: int) -> None:
        """Drop members last heard of before `since_ms`."""
        kept = {
            name: [each for each in some if each.heard_ms >= since_ms]
            for name, some in self._lost.items()
        }
        self._lost = {name: some for name, some in kept.items() if some}
        self._sweep_at = 2 * len(self._lost) + SWEEP_AT

    def _is_second(self, current: Round) -> bool:
        """Return whether an incremental assignor needed this round after the last one."""
        if (current.cause or {}).get("code") != SECOND or current.added or current.removed:
            return False
        ended = [each.rounds[-1].ended_at_ms for each in self._recent]
        began_ms = current.started_at_ms
        return began_ms is not None and all(
            each is not None and began_ms - each <= SECOND_MS for each in ended
        )

    def add(self, current: Round) -> None:
        """Add a round, in order: sets its `away_ms` and the `returned_ms` of earlier rounds."""
        stayed = on_one_connection(current)
        loss, current.incident = _Loss([current]), None
        found: list[Lost] = []
        # A killed process may be back before its session ends.
        gone = [(gone_ms(each), each) for each in current.removed]
        came = [(each["at_ms"], each) for each in current.added]
        for at_ms, each in sorted((*gone, *came), key=itemgetter(0)):
            if "cause" in each:
                evidence = (each["cause"] or {}).get("evidence") or {}
                session_ms = number(evidence, "session_timeout_ms") or current.session_timeout_ms
                about = evidence.get("connection"), session_ms
                lost = Lost(heard_ms(each), *about, loss=loss, partitions=each.get("partitions"))
                self.lose(each["who"], lost)
            elif each["who"].get("member") not in stayed:
                back = self.take_back(each["who"], at_ms)
                if back is not None:
                    found.append(back)
                    _tell(current, at_ms, back)
        if self._is_second(current):
            for one in self._recent:
                one.came_in(current, others=bool(current.more_causes))
            return
        loss.others = _has_others(current, len(found))
        returned = [*{id(back.loss): back.loss for back in found if back.loss}.values()]
        for one in returned:
            one.came_in(current, others=loss.others)
        self._recent = [loss, *returned]


def find_returns(entries: Iterable[HistoryEntry]) -> None:
    """Set `returned_ms` and `away_ms` of all rounds in which members left and came back."""
    returns = Returns()
    for each in entries:
        if isinstance(each, Round):
            returns.add(each)


def _has_others(current: Round, back: int) -> bool:
    """Return whether the round had other causes than members that left or came back."""
    codes = {each.get("code") for each in (current.cause or {}, *current.more_causes)}
    return not codes <= OF_ABSENCE or len(current.added) > back


def _tell(current: Round, at_ms: int, lost: Lost) -> None:
    away_ms = at_ms - lost.heard_ms
    current.away_ms = max(current.away_ms or 0, away_ms)
    current.away_connection = lost.connection
    current.session_timeout_ms = lost.session_timeout_ms or current.session_timeout_ms
    if lost.loss is not None:
        lost.loss.take_back(lost, away_ms)
        before = lost.loss.rounds[0]
        before.returned_ms = max(before.returned_ms or 0, away_ms)


def on_one_connection(current: Round) -> set[str | None]:
    """Return the ids of members that left and rejoined on the same connection: no restart."""
    causes = [current.cause or {}, *current.more_causes]
    return {
        (cause.get("who") or {}).get("member")
        for cause in causes
        if (cause.get("evidence") or {}).get("same_connection")
    }


class _Began(Protocol):
    """A session."""

    who: Part
    since_ms: int | None
    away_ms: int | None


S = TypeVar("S", bound=_Began)


def newest_since(at_ms: int, who: Part, sessions: Reversible[S]) -> S | None:
    """Return the session of this client that began after the time, of the last `LOOKED_AT`, oldest
    first, and of those that continue none.
    """
    newest = islice(reversed(sessions), LOOKED_AT)
    return next(
        (
            each
            for each in newest
            if each.away_ms is None and (each.since_ms or -1) > at_ms and is_same(who, each.who)
        ),
        None,
    )


def is_same(gone: Part, come: Part) -> bool:
    """Return whether a joining member is probably a restart of the one that left."""
    return _name(gone) == _name(come)


def _name(who: Part) -> _Name:
    instance = who.get("instance")
    return (instance,) if instance else (who.get("client_id"), who.get("host"))
