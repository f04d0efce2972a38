"""Offsets of deleted topics in partitions of the group topic that could not be loaded at that time.

Such a partition does not delay the deletion, nor a new topic of the same name. The catalog records
that its offsets have to be deleted when it is loaded. That must happen before it is served, as
later commits may be for the new topic.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from groupkeeper.topics.catalog import Catalog
from groupkeeper.topics.limits import OverLimitError
from groupkeeper.topics.slices import each
from groupkeeper.turns import Turns

MAX_PENDING_OFFSET_DELETIONS: Final = 200_000
"""Pairs of a deleted topic's name and a partition that has to delete its offsets. Beyond the limit,
a deletion does not finish before those partitions can be loaded."""


class PendingOffsetDeletions:
    """Which partitions have to delete the offsets of which topics."""

    def __init__(self, catalog: Catalog, turns: Turns, wall_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._turns = turns
        self._wall_ms = wall_ms
        self._changing = asyncio.Lock()
        self._under_way: list[tuple[set[str], frozenset[int]]] = []
        """Being written to the catalog; they count even if that fails."""

    def of(self, partition: int) -> set[str]:
        """Return the topics whose offsets a partition has to delete before it is served."""
        found = {
            name
            for name, partitions in self._catalog.pending_offset_deletions.items()
            if partition in partitions
        }
        return found.union(*(names for names, where in self._under_way if partition in where))

    async def add(self, names: set[str], partitions: Iterable[int]) -> None:
        """Durably add topics for partitions; `of` includes them immediately. Raises StorageError,
        OSError and OverLimitError: nothing has changed then.
        """
        added = names, frozenset(partitions)
        self._under_way.append(added)
        try:
            await self._change(names, lambda before: before | added[1])
        finally:
            self._under_way.remove(added)

    async def remove(self, names: set[str], partition: int) -> None:
        """Note that the partition has deleted them durably. Raises StorageError and OSError."""
        await self._change(names, lambda before: before - {partition})

    async def _change(
        self, names: set[str], changed: Callable[[frozenset[int]], frozenset[int]]
    ) -> None:
        async with self._changing:
            before = self._catalog.pending_offset_deletions
            none = frozenset[int]()
            work = each(names, lambda name: (name, changed(before.get(name, none))))
            changes = await self._turns.run(work)
            changes = [each for each in changes if each[1] != before.get(each[0], none)]
            grown = sum(len(now) - len(before.get(name, none)) for name, now in changes)
            if grown > 0 and grown + sum(map(len, before.values())) > MAX_PENDING_OFFSET_DELETIONS:
                raise OverLimitError(
                    "partitions of the group topic that cannot be loaded have yet to delete the "
                    f"offsets of {MAX_PENDING_OFFSET_DELETIONS} deleted topics "
                    "(MAX_PENDING_OFFSET_DELETIONS)"
                )
            await self._catalog.set_pending_offset_deletions(changes, self._wall_ms())
