"""When the join phase of a round began and who was gone by then, as answers of the group's
coordinator show (ListGroups, DescribeGroups): the evidence of an observer beside that of records.

An answer shows a moment between the request and the answer. So what is seen bounds a time from one
side: a phase that is seen began no later than the answer came, and a member that is missing left no
later. Who has rejoined already is not in these answers.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple


class Sight(NamedTuple):
    """What an answer shows of a group. The moment is between `from_ms` and `until_ms`, both Unix ms
    of the coordinator's clock. `members` are ids; None if the answer does not list them.
    """

    from_ms: int
    until_ms: int
    is_rebalancing: bool
    members: Collection[str] | None = None


_NOBODY: Final[Mapping[str, int]] = {}


class SeenStart(NamedTuple):
    """Bounds of the start of a join phase, in Unix ms; None is unknown."""

    after_ms: int | None = None
    """The group was not in a rebalance then: the last time before the phase."""
    by_ms: int | None = None
    """The group was in the phase then: the first time."""
    gone: Mapping[str, int] = _NOBODY
    """Member id -> time at which the member was missing already, of members of the last record."""
    came_ms: int | None = None
    """First time at which a member was there that is not in the last record."""
    there: Mapping[str, int] = _NOBODY
    """Member id -> last time at which the member was still there, of members of the last record."""


UNSEEN: Final = SeenStart()
"""Of a round of which no answer shows anything."""


def seen_start(
    sights: Iterable[Sight], members: Collection[str], since_ms: int, end_ms: int
) -> SeenStart:
    """Return what answers show of a join phase that ended at `end_ms`, after the record of
    `since_ms` with these members.
    """
    some = sorted(each for each in sights if since_ms < each.from_ms and each.until_ms <= end_ms)
    after_ms = max((each.from_ms for each in some if not each.is_rebalancing), default=None)
    phase = [each for each in some if each.is_rebalancing and each.from_ms >= (after_ms or 0)]
    gone, there, came_ms = dict[str, int](), dict[str, int](), None
    for each in phase:
        if each.members is None:
            continue
        for member in members:
            if member in each.members:
                there[member] = each.from_ms
            else:
                gone.setdefault(member, each.until_ms)
        if came_ms is None and any(member not in members for member in each.members):
            came_ms = each.until_ms
    by_ms = min((each.until_ms for each in phase), default=None)
    return SeenStart(after_ms, by_ms, gone, came_ms, there)
