"""Tombstones that purge the events of deleted groups from the event log of one partition.

With `group.events.purge`, a group that was deleted by request gets a tombstone before its event
`group_deleted`: the cleaner then removes the group's earlier events. Sums of the group that are not
reported yet go before the tombstone. While the log cannot be written, tombstones are owed; they
come first once it can be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.coordinator.facts import GroupDeleted, NotedFact
from groupkeeper.observe.logs import Logger

OWED_MOST: Final = 10_000
"""Maximum number of tombstones owed by a partition. Events of further groups are not purged."""
NAMED: Final = 20
"""Maximum number of groups named in a log line."""

_log = Logger("events")


@dataclass(slots=True, frozen=True)
class Purge:
    """Becomes a tombstone."""

    group: str
    at_ms: int
    """Unix milliseconds of the deletion."""


class Purges:
    """The tombstones of one partition. Does nothing unless `enabled`."""

    def __init__(self, partition: int, *, enabled: bool) -> None:
        self._partition = partition
        self._enabled = enabled
        self._told = False
        self._noted: list[Purge] = []
        """Tombstones for deletions in the current flush."""
        self.owed: list[Purge] = []
        """Tombstones that are not durable yet, while their deletions are."""

    def deletions(self, facts: Sequence[NotedFact]) -> Mapping[str, int]:
        """Return the groups to be purged by these facts, with the order of the deletion."""
        if not self._enabled:
            return {}
        return {
            noted.fact.group: noted.order
            for noted in facts
            if isinstance(noted.fact, GroupDeleted) and noted.fact.why == "request"
        }

    def note(self, deleted: NotedFact) -> Purge:
        """Return the tombstone for a deletion, to be written with it."""
        purge = Purge(deleted.fact.group, deleted.wall)
        if deleted.with_records:
            self._noted.append(purge)
        else:  # the group was never stored, and is gone: owed from now on
            self._owe([purge])
        return purge

    def miss(self, count: int) -> None:
        """Log that deletions were left out earlier."""
        if self._enabled and count:
            what = "events of deleted groups are not purged"
            _log.error(what, partition=self._partition, count=count, limit="max_deletions")

    def settle(self) -> None:
        """Note that the recorded deletions are durable."""
        if self._noted:
            self._owe(self._noted)
            self._noted = []

    def forget(self) -> None:
        """Drop the recorded deletions, which failed."""
        self._noted.clear()

    def written(self) -> None:
        """Note that all tombstones are durable."""
        self.owed.clear()
        self._told = False

    def tell_owed(self) -> None:
        """Log once that tombstones are owed because the log cannot be written."""
        if self.owed and not self._told:
            self._told = True
            _log.warning(
                "events of deleted groups are not purged yet",
                **self._about(self.owed),
                until="the log can be written; if the process ends before, they are kept",
            )

    def _owe(self, purges: Sequence[Purge]) -> None:
        room = max(0, OWED_MOST - len(self.owed))
        self.owed += purges[:room]
        if len(purges) > room:
            _log.error("events of deleted groups are not purged", **self._about(purges[room:]))

    def _about(self, purges: Sequence[Purge]) -> Mapping[str, Any]:
        names = ", ".join(each.group for each in purges[:NAMED])
        return {"partition": self._partition, "count": len(purges), "groups": names}
