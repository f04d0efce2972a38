"""Shows rebalances under way in the views of groups, as their coordinators told.

A view is made of the group's last record, which is older than a rebalance under way. While an
answer shows one, the view has its state, since the time of the first such answer. The next record
of the group makes a new view.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.clock import Clock
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.watch.sightings import REBALANCING

IDS_SHOWN: Final = 200
"""Maximum number of ids of members that are shown as new, and as gone."""
RENEWED_MS: Final = 60_000
"""How long the time of a new view is kept: longer than a request takes."""
RENEWED_MOST: Final = 2_000
"""Maximum number of such times in a partition; beyond, the oldest is dropped, and answers to
requests from before it do not count for any group whose time is not kept."""
_PHASES: Final = dict(zip(REBALANCING, ("join", "sync"), strict=True))


@dataclass(slots=True)
class SeenPhase:
    """A rebalance under way. Times are Unix ms of the observer's clock, if nothing else is said."""

    group: Group
    first_seen_ms: int
    seen_ms: int
    since_ms: int
    """When it was first seen, in monotonic ms."""
    before: tuple[GroupState, int]
    """State of the group in its record, and since when."""
    members: Collection[str] | None = None
    """Ids of the members in the last answer that listed them."""


class SeenPhases:
    """The rebalances under way in one partition."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, SeenPhase] = {}
        self._renewed: dict[str, int] = {}
        """When the views of groups were made, of the last ones, the oldest first, in monotonic ms:
        the wall clock may be set back."""
        self._dropped_ms = 0
        """The last of these times that is not kept any more."""

    def group_ids(self) -> list[str]:
        """Return the groups that are shown in a rebalance."""
        return [*self._seen]

    def renewed(self, group_id: str) -> None:
        """Note that a group has a new view, which is newer than what was asked before."""
        now_ms = self._clock.now()
        self._seen.pop(group_id, None)
        self._renewed.pop(group_id, None)
        self._renewed[group_id] = now_ms
        oldest = next(iter(self._renewed))
        while len(self._renewed) > RENEWED_MOST or now_ms - self._renewed[oldest] > RENEWED_MS:
            self._dropped_ms = self._renewed.pop(oldest)
            oldest = next(iter(self._renewed))

    def see(self, group: Group, state: str, asked_ms: int) -> bool:
        """Show a group in a state of a rebalance, as an answer says that has just come. `asked_ms`:
        when the request was sent, in monotonic ms. Returns whether that is new.
        """
        if asked_ms <= self._renewed.get(group.group_id, self._dropped_ms):
            return False
        at_ms = self._clock.wall()
        seen = self._seen.get(group.group_id)
        if seen is None:
            before = group.state, group.state_timestamp_ms
            seen = SeenPhase(group, at_ms, at_ms, self._clock.now(), before)
            self._seen[group.group_id] = seen
        seen.seen_ms = at_ms
        if group.state == state:
            return False
        group.state, group.state_timestamp_ms = GroupState(state), at_ms
        return True

    def describe(self, group_id: str, members: Collection[str]) -> None:
        """Note the members of a group, if it is in a rebalance."""
        if group_id in self._seen:
            self._seen[group_id].members = members

    def over(self, group_id: str) -> None:
        """Show a group as its record says: it is not in a rebalance any more."""
        seen = self._seen.pop(group_id, None)
        if seen is not None:
            seen.group.state, seen.group.state_timestamp_ms = seen.before

    def show(self, view: dict[str, Any]) -> None:
        """Fill in a view of `coordinator.live` what is known of the group's rebalance: who has
        rejoined is not.
        """
        seen = self._seen.get(view["group"])
        if seen is None:
            return
        view["rebalance"] = {
            "phase": _PHASES[seen.group.state],
            "since_ms": self._clock.now() - seen.since_ms,
            "initial_delay": False,
            "cause": {},
        }
        view["waiting_for"], view["waiting_for_count"] = [], 0
        known, there = seen.group.members, seen.members
        came = () if there is None else [each for each in there if each not in known]
        gone = () if there is None else [each for each in known if each not in there]
        view["seen"] = {
            "first_ms": seen.first_seen_ms,
            "last_ms": seen.seen_ms,
            "came": [*came[:IDS_SHOWN]],
            "gone": [*gone[:IDS_SHOWN]],
        }
