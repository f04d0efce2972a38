"""Deleted groups whose events are to be purged: tombstones for the event log of one partition.

With `group.events.purge`, a group that was deleted by request gets a tombstone before its event
`group_deleted`: the cleaner removes what the log has of the group before it. What was counted of
the group and not told yet goes before the tombstone. While the log cannot be written, tombstones
are owed, and come first when it can be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.coordinator.facts import GroupDeleted, NotedFact
from groupkeeper.observe.logs import Logger

OWED_MOST: Final = 10_000
"""The most tombstones that are owed by a partition. The events of further groups are not purged."""
NAMED: Final = 20
"""How many groups a line names."""

_log = Logger("events")


@dataclass(slots=True, frozen=True)
class Purge:
    """Becomes a tombstone."""

    group: str
    at_ms: int
    """Unix milliseconds of the deletion."""


class Purges:
    """The tombstones of one partition. Does nothing unless it is `enabled`."""

    def __init__(self, partition: int, *, enabled: bool) -> None:
        self._partition = partition
        self._enabled = enabled
        self._told = False
        self._noted: list[Purge] = []
        """Of deletions in the round under way."""
        self.owed: list[Purge] = []
        """Of deletions that are durable, while the tombstones are not."""

    def deletions(self, facts: Sequence[NotedFact]) -> Mapping[str, int]:
        """The groups that are to be purged by these facts, with the order of the deletion."""
        if not self._enabled:
            return {}
        return {
            noted.fact.group: noted.order
            for noted in facts
            if isinstance(noted.fact, GroupDeleted) and noted.fact.why == "request"
        }

    def note(self, deleted: NotedFact) -> Purge:
        """The tombstone for a deletion, to be written with it."""
        purge = Purge(deleted.fact.group, deleted.wall)
        if deleted.with_records:
            self._noted.append(purge)
        else:  # the group was never stored, and is gone: owed from now on
            self._owe([purge])
        return purge

    def miss(self, count: int) -> None:
        """So many deletions were left out before they came here."""
        if self._enabled and count:
            what = "events of deleted groups are not purged"
            _log.error(what, partition=self._partition, count=count, limit="DELETIONS_MOST")

    def settle(self) -> None:
        """The deletions that were noted are durable."""
        if self._noted:
            self._owe(self._noted)
            self._noted = []

    def forget(self) -> None:
        """The deletions that were noted failed."""
        self._noted.clear()

    def written(self) -> None:
        """All tombstones are durable."""
        self.owed.clear()
        self._told = False

    def tell_owed(self) -> None:
        """The log cannot be written: say so once if tombstones are owed."""
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
