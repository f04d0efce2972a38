"""Measures how long members were away: matches members that join with earlier ones that left.

A joining member is taken for a restart if it has the same instance id or, without one, the same
client id and host, and joins within `RETURN_MS`. Of several candidates the last to leave is taken,
and each only once. This works for stored and inferred events alike: clients of one process that
leave together return together, and in the same number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import HistoryEntry, Round

RETURN_MS: Final = 900_000
"""Longest absence, in ms, of a member that is still taken for the same client."""
SWEEP_AT: Final = 64
"""Expired entries are dropped after this many additions."""

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
    before: Round | None = None
    """The round in which the member left; None if rounds are not kept."""


class Returns:
    """Members that left and may return within `RETURN_MS`. Memory is bounded by periodic sweeps."""

    __slots__ = ("_lost", "_sweep_at")

    _lost: dict[_Name, list[Lost]]
    """Lost members by identity, oldest first."""

    def __init__(self) -> None:
        self._lost = {}
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

    def add(self, current: Round) -> None:
        """Add a round, in order: sets its `away_ms` and the `returned_ms` of earlier rounds."""
        stayed = on_one_connection(current)
        evidence = (current.cause or {}).get("evidence") or {}
        about = evidence.get("connection"), current.session_timeout_ms
        gone = [(each["at_ms"], each["who"], heard(each)) for each in current.removed]
        came = [(each["at_ms"], each["who"], None) for each in current.added]
        for at_ms, who, heard_ms in sorted((*gone, *came), key=itemgetter(0)):
            if heard_ms is not None:
                self.lose(who, Lost(heard_ms, *about, before=current))
            elif who.get("member") not in stayed:
                _tell(current, at_ms, self.take_back(who, at_ms))


def find_returns(entries: Iterable[HistoryEntry]) -> None:
    """Set `returned_ms` and `away_ms` of all rounds in which members left and came back."""
    returns = Returns()
    for each in entries:
        if isinstance(each, Round):
            returns.add(each)


def _tell(current: Round, at_ms: int, lost: Lost | None) -> None:
    if lost is None:
        return
    away_ms = at_ms - lost.heard_ms
    current.away_ms = max(current.away_ms or 0, away_ms)
    current.away_connection = lost.connection
    current.session_timeout_ms = lost.session_timeout_ms
    if lost.before is not None:
        lost.before.returned_ms = max(lost.before.returned_ms or 0, away_ms)


def on_one_connection(current: Round) -> set[str | None]:
    """Return the ids of members that left and rejoined on the same connection: no restart."""
    causes = [current.cause or {}, *current.more_causes]
    return {
        (cause.get("who") or {}).get("member")
        for cause in causes
        if (cause.get("evidence") or {}).get("same_connection")
    }


def heard(removed: Mapping[str, Any]) -> int:
    """Return the time of a removed member's last request, in Unix ms."""
    evidence = removed.get("cause", {}).get("evidence", {})
    at_ms: int = removed["at_ms"]
    return at_ms - (number(evidence, "silent_ms") or 0)


def is_same(gone: Part, come: Part) -> bool:
    """Return whether a joining member is probably a restart of the one that left."""
    return _name(gone) == _name(come)


def _name(who: Part) -> _Name:
    instance = who.get("instance")
    return (instance,) if instance else (who.get("client_id"), who.get("host"))
