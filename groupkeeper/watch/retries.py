"""Groups to ask about again after a failure: after growing pauses, and not for ever."""

from heapq import heappop, heappush
from typing import Final

from groupkeeper.backoff import Backoff

TRIES_MOST: Final = 10
"""How often a group is asked about again without an answer, over some four minutes."""
GROUPS_MOST: Final = 10_000
"""Maximum number of such groups."""
AT_ONCE: Final = 100
"""Maximum number of groups that `due` returns."""
PAUSE_FIRST_S, PAUSE_MOST_S = 1.0, 60.0
"""First and longest pause."""


class GroupRetries:
    """The groups whose last request, or row of a response, failed. Times are seconds of a clock."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[int, Backoff, float]] = {}
        """Group -> number of failures, pauses, and when it is asked about again."""
        self._times: list[tuple[float, str]] = []
        """A heap of these times, and of such that do not count any more."""

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._failed

    def failed(self, group_id: str, now_s: float) -> bool:
        """Note a failure. Returns whether the group is to be asked about again: False if that is
        beyond a limit.
        """
        fresh = 0, Backoff(PAUSE_FIRST_S, PAUSE_MOST_S), now_s
        failures, backoff, _ = self._failed.pop(group_id, fresh)
        if failures >= TRIES_MOST or len(self._failed) >= GROUPS_MOST:
            return False
        at_s = now_s + backoff.failed()
        self._failed[group_id] = failures + 1, backoff, at_s
        heappush(self._times, (at_s, group_id))
        return True

    def drop(self, group_id: str) -> None:
        """Forget the failures of a group."""
        self._failed.pop(group_id, None)

    def due(self, now_s: float) -> list[str]:
        """Return groups whose pause is over. Each is returned once for a failure."""
        found = list[str]()
        while self._times and self._times[0][0] <= now_s and len(found) < AT_ONCE:
            at_s, group_id = heappop(self._times)
            if group_id in self._failed and self._failed[group_id][2] == at_s:
                found.append(group_id)
        return found
