"""What was acknowledged to whom, and when each client got its last acknowledgement.

Threads of many clients write to it; who checks a server takes a copy first.
"""

import threading
import time
from collections.abc import Mapping
from copy import deepcopy

from tests.chaos.damage.truth import Group, Place, Stored, Truth

NO_MOST = 2**62
"""Of clients that are asked to commit whatever they have read by then."""


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._truth = Truth()
        self._waiting: dict[str, float] = {}
        """Since when each client has waited for its first acknowledgement by this server."""
        self.acknowledged: dict[str, int] = {}
        """Commits by client."""
        self.slowest: dict[str, float] = {}
        """Longest time in seconds from a ready line to a commit, by client."""
        self.errors: dict[str, dict[str, int]] = {}
        """What clients told their users meanwhile, counted."""

    # -- told by clients -------------------------------------------------------------------------

    def sends(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        with self._lock:
            self._truth.groups.setdefault(group_id, Group()).sent.update(offsets)

    def commits(
        self, client: str, group_id: str, offsets: Mapping[Place, int], *, bounded: bool = False
    ) -> None:
        """Acknowledged. `bounded`: what can be there at most was told by `sends`."""
        with self._lock:
            group = self._truth.groups.setdefault(group_id, Group())
            if not bounded:
                group.sent.update(dict.fromkeys(offsets, NO_MOST))
            for place, offset in offsets.items():
                group.acknowledged[place] = max(offset, group.acknowledged.get(place, 0))
            self.acknowledged[client] = self.acknowledged.get(client, 0) + 1
            since = self._waiting.pop(client, None)
            if since is not None:
                took = time.monotonic() - since
                self.slowest[client] = max(took, self.slowest.get(client, 0.0))

    def gives_up(self, group_id: str) -> None:
        """The group may be deleted from now on, and may be there as well."""
        with self._lock:
            self._truth.groups[group_id].acknowledged.clear()

    def deletes(self, group_id: str) -> None:
        """The deletion was acknowledged."""
        with self._lock:
            del self._truth.groups[group_id]

    def stores(self, place: Place, offset: int, stored: Stored) -> None:
        with self._lock:
            self._truth.records.setdefault(place, {})[offset] = stored

    def fails(self, client: str, error: str) -> None:
        with self._lock:
            counted = self.errors.setdefault(client, {})
            counted[error] = counted.get(error, 0) + 1

    # -- told by who checks ----------------------------------------------------------------------

    def settles(self, group_id: str, group: Group) -> None:
        """These are its members, in this generation."""
        with self._lock:
            mine = self._truth.groups.setdefault(group_id, Group())
            mine.members, mine.generation = group.members, group.generation

    def begins(self, truth: Truth) -> None:
        """Topics and the cluster id, before any client runs."""
        with self._lock:
            self._truth.cluster_id = truth.cluster_id
            self._truth.topics = truth.topics
            self._truth.offsets_partitions = truth.offsets_partitions

    def ready(self, clients: list[str]) -> None:
        """A server is ready: each client is waited for, one that waits since before from then."""
        now = time.monotonic()
        with self._lock:
            for client in clients:
                self._waiting.setdefault(client, now)

    @property
    def silent(self) -> list[str]:
        """Clients that got nothing from this server yet."""
        with self._lock:
            return list(self._waiting)

    @property
    def total(self) -> int:
        with self._lock:
            return sum(self.acknowledged.values())

    def copy(self, *, over: bool = False) -> Truth:
        """What is promised by now. `over`: nobody works any more, so that it is also all that can
        be there, and records of topics are part of it.
        """
        with self._lock:
            kept, self._truth.records = self._truth.records, {}
            try:
                copied = deepcopy(self._truth)
                if over:
                    copied.records = deepcopy(kept)
            finally:
                self._truth.records = kept
        if not over:
            for group in copied.groups.values():
                group.sent = dict.fromkeys(group.sent, NO_MOST)
        return copied
