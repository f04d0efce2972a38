"""What must hold of reserved seats in the hour, as readers of facts are told of them."""

from typing import Final

from groupkeeper.coordinator.facts import MemberRemoved, MemberReplaced, NotedFact, SeatReserved
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.server.server import Server

SETTINGS: Final = {
    "group.classic.scheduled.rebalance.max.delay.ms": 20_000,
    "group.classic.reserve.on": "lost,left",
}
MISHAPS: Final = ("freeze", "freeze", "die", "leave")
"""In addition to those of every hour."""
EVERY_HOUR: Final = ("seat reserved", "seat taken", "seat ended", "member taken at once")
LONGEST_FREEZE_S: Final = 45.0


class Reserved:
    """The seats of all processes of a data directory."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(EVERY_HOUR, 0)
        self._reserved: set[tuple[str, str]] = set()
        self._taken: dict[tuple[str, str], tuple[int, bool]] = {}
        """Who was replaced: in which epoch, and whether its new id was stored at once."""

    def watch(self, server: Server) -> None:
        """Listen to a new process."""
        server.readers.subscribe("seats", self._note)

    def _note(self, origin: Origin, noted: NotedFact) -> None:
        match noted.fact:
            case SeatReserved(group=group, who=who):
                self._reserved.add((group, who.member))
                self.counts["seat reserved"] += 1
            case MemberReplaced(group=group, old_member=old, quick=quick):
                self._replaced((group, old), origin.leader_epoch, quick)
            case MemberRemoved(group=group, who=who, cause=cause):
                if (group, who.member) in self._reserved:
                    assert cause.code is CauseCode.SEAT_EXPIRED, cause
                    self._reserved.discard((group, who.member))
                    self.counts["seat ended"] += 1

    def _replaced(self, who: tuple[str, str], epoch: int, quick: bool) -> None:
        """Twice only if a crash came before a plan had the first one, which nobody has then."""
        before, stored = self._taken.get(who, (epoch - 1, False))
        assert not stored, (who, "is taken twice")
        assert before < epoch, (who, "is taken twice in a life")
        self._taken[who] = epoch, quick
        self.counts["seat taken" if who in self._reserved else "member taken at once"] += 1
        self._reserved.discard(who)
