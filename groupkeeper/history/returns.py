"""Members that were lost and came back: how long they were gone.

A member is taken for a restart of one that is gone if it has the same instance id or, without one,
the same client id and host, and comes soon: of several that are gone, of the one that went last,
and each comes back once. That holds for stored events and inferred ones alike: clients of one
process that go together also come back together, and are as many as are found.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import HistoryEntry, Round

RETURN_MS: Final = 900_000
"""A member that joins later than this after another one is gone is not taken for the same one."""
SWEEP_AT: Final = 64
"""With so many more than were kept, those that are gone for too long are forgotten."""

_Name = tuple[str | None, ...]
"""Name of a client, whatever its member id."""


@dataclass(slots=True)
class Lost:
    """A member that is gone."""

    heard_ms: int
    """When its last request came, in Unix milliseconds; if that is not known, when it was gone."""
    connection: str | None = None
    session_timeout_ms: int | None = None
    is_exact: bool = True
    """Its last request is known."""
    before: Round | None = None
    """The round in which it went; None if that is not kept."""


class Returns:
    """Members that are gone, and may come back within `RETURN_MS`: hardly more are remembered."""

    __slots__ = ("_lost", "_sweep_at")

    _lost: dict[_Name, list[Lost]]
    """By who it is; the one that went first is the first."""

    def __init__(self) -> None:
        self._lost = {}
        self._sweep_at = SWEEP_AT

    def lose(self, who: Part, lost: Lost) -> None:
        """A member is gone."""
        self._lost.setdefault(_name(who), []).append(lost)
        if len(self._lost) > self._sweep_at:
            self._sweep(lost.heard_ms - RETURN_MS)

    def take_back(self, who: Part, at_ms: int) -> Lost | None:
        """The member that probably was the same client, which is forgotten: the last one that went.
        None if there is none.
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
        """Forget those that went before that."""
        kept = {
            name: [each for each in some if each.heard_ms >= since_ms]
            for name, some in self._lost.items()
        }
        self._lost = {name: some for name, some in kept.items() if some}
        self._sweep_at = 2 * len(self._lost) + SWEEP_AT

    def add(self, current: Round) -> None:
        """A round, in their order: set its `away_ms`, and `returned_ms` of the ones before."""
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
    """Set `returned_ms` and `away_ms` of rounds in which members were lost and came back."""
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
    """Ids of members that left and came back without a restart."""
    causes = [current.cause or {}, *current.more_causes]
    return {
        (cause.get("who") or {}).get("member")
        for cause in causes
        if (cause.get("evidence") or {}).get("same_connection")
    }


def heard(removed: Mapping[str, Any]) -> int:
    """When the last request of a removed member came, in Unix milliseconds."""
    evidence = removed.get("cause", {}).get("evidence", {})
    at_ms: int = removed["at_ms"]
    return at_ms - (number(evidence, "silent_ms") or 0)


def is_same(gone: Part, come: Part) -> bool:
    """Whether a member is probably a restart of one that is gone."""
    return _name(gone) == _name(come)


def _name(who: Part) -> _Name:
    instance = who.get("instance")
    return (instance,) if instance else (who.get("client_id"), who.get("host"))
