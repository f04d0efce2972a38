"""When the join phase of a round began and who was gone by then, as answers of the group's
coordinator show (ListGroups, DescribeGroups); and which partitions were idle, as their leaders say
(ListOffsets): the evidence of an observer beside that of records.

An answer shows a moment between the request and the answer. So what is seen bounds a time from one
side: a phase that is seen began no later than the answer came, and a member that is missing left no
later. Who has rejoined already is not in these answers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from groupkeeper.history.causes import EXPIRED, JOINED, LEFT, REMOVED, STATIC_JOINED, UNKNOWN
from groupkeeper.history.records import RecordedMember
from groupkeeper.history.rows import SEEN


class Sighting(NamedTuple):
    """A group as an answer shows it. The moment is between `from_ms` and `until_ms`, both Unix ms
    of the coordinator's clock. `members` are ids; None if the answer does not list them.
    """

    from_ms: int
    until_ms: int
    is_rebalancing: bool
    members: Collection[str] | None = None


class Asked(NamedTuple):
    """Answers to an observer about a group."""

    sightings: Sequence[Sighting] = ()
    idle: Mapping[tuple[str, int], int] = {}
    """(topic, partition) -> time until which its owner had nothing to commit, in Unix ms."""


NOT_ASKED: Final = Asked()
COMINGS: Final = frozenset({JOINED, STATIC_JOINED})
KNOWN: Final = frozenset({LEFT, EXPIRED, REMOVED})
GOINGS: Final = KNOWN | {UNKNOWN}
"""Codes of members that came, and of those that went."""
_NOBODY: Final[Mapping[str, int]] = {}


class SeenStart(NamedTuple):
    """The start of a join phase as far as it was seen. Times are Unix ms; None is unknown."""

    after_ms: int | None = None
    """The last time at which the group was not in a rebalance."""
    by_ms: int | None = None
    """The first time at which it was."""
    gone: Mapping[str, int] = _NOBODY
    """Time by which members of the last record were missing, by member id."""
    first: Collection[str] | None = None
    """Ids of the members when they were first listed in the phase."""

    def narrowed(self, earliest_ms: int, latest_ms: int) -> tuple[int, int]:
        """Return the bounds of the start, if others are known; those in doubt."""
        later_ms = max(earliest_ms, self.after_ms or 0)
        sooner_ms = latest_ms if self.by_ms is None else min(latest_ms, self.by_ms)
        is_possible = later_ms <= sooner_ms
        return (later_ms, sooner_ms) if is_possible else (earliest_ms, latest_ms)

    def first_code(self, who: Mapping[str, Sequence[RecordedMember]]) -> str | None:
        """Return the only code of which something had happened when the members were first listed.
        None if that is none or several, or unknown. `who`: members that came or went, by code; no
        other code may be in it.
        """
        if self.first is None or not who.keys() <= COMINGS | GOINGS:
            return None
        happened = [
            code
            for code, members in who.items()
            if any((each.member in self.first) == (code in COMINGS) for each in members)
        ]
        return happened[0] if len(happened) == 1 and happened[0] in COMINGS | KNOWN else None

    def surer(self, confidence: float, by: RecordedMember | None) -> float:
        """Return the confidence of a cause, with half of the doubt if the member behind it was seen
        to be gone, or to have come, when the phase was first seen.
        """
        if by is None or self.first is None:
            return confidence
        is_seen = by.member in self.gone or by.member in self.first
        return (confidence + max(SEEN, confidence)) / 2 if is_seen else confidence

    @property
    def fields(self) -> dict[str, int]:
        """Return what is known as fields of `rebalance_started`."""
        known = {"not_before_ms": self.after_ms, "first_seen_ms": self.by_ms}
        return {name: ms for name, ms in known.items() if ms is not None}


UNSEEN: Final = SeenStart()
"""Of a round of which no answer shows anything."""


def seen_start(
    sightings: Iterable[Sighting], members: Collection[str], since_ms: int, end_ms: int
) -> SeenStart:
    """Return what answers show of a join phase that ended at `end_ms`, after the record of
    `since_ms` with these members.
    """
    known = [each for each in sightings if since_ms < each.from_ms and each.until_ms <= end_ms]
    known.sort(key=itemgetter(0))
    after_ms = max((each.from_ms for each in known if not each.is_rebalancing), default=None)
    phase = [each for each in known if each.is_rebalancing and each.from_ms >= (after_ms or 0)]
    listed = [each for each in phase if each.members is not None]
    gone: dict[str, int] = {}
    for each in listed:
        for member in members:
            if member not in (each.members or ()):
                gone.setdefault(member, each.until_ms)
    by_ms = min((each.until_ms for each in phase), default=None)
    return SeenStart(after_ms, by_ms, gone, listed[0].members if listed else None)
