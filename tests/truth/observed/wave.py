"""Plays side by side to which the same happens at the same time: their broker is killed."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.clients.scene import Group
from tests.truth.observed.cluster import Cluster

_MEET_S: Final = 400.0
_NAMES: Final = 200


def _nothing() -> None:
    """What is done at a meeting that is only waited for."""


class Wave:
    """`plays` plays, which meet: each waits for all others, one does what is to be done, all go on.
    `broker` coordinates the groups of all.
    """

    def __init__(self, plays: int) -> None:
        self.broker = 0
        self._plays, self._waiting, self._meeting = plays, 0, 0
        self._act: Callable[[], None] = _nothing
        self._changed = threading.Condition()
        self._is_placed = False

    def place(self, group: Group, cluster: Cluster) -> None:
        """Give a group a name that the broker of the wave coordinates. Raises AssertionError."""
        names = [group.name, *(f"{group.name}-{number}" for number in range(_NAMES))]
        with self._changed:
            if not self._is_placed:
                counts = Counter(cluster.coordinator_of(name) for name in names[:20])
                [(self.broker, _)] = counts.most_common(1)
                self._is_placed = True
        fitting = (name for name in names if cluster.coordinator_of(name) == self.broker)
        found = next(fitting, None)
        assert found is not None, f"broker {self.broker} coordinates none of {_NAMES} names"
        group.name = found

    def meet(self, act: Callable[[], None] = _nothing) -> None:
        """Wait until all plays of the wave are here; one of them does `act`. Raises
        AssertionError if they do not come.
        """
        with self._changed:
            self._act = act
            self._waiting += 1
            number = self._meeting
            self._begin()
            if not self._changed.wait_for(lambda: self._meeting != number, _MEET_S):
                self._waiting -= 1
                raise AssertionError(f"the other plays did not come within {_MEET_S} s")

    def leave(self) -> None:
        """Let the others not wait for this play any more."""
        with self._changed:
            self._plays -= 1
            self._begin()

    def _begin(self) -> None:
        if self._waiting and self._waiting >= self._plays:
            self._waiting = 0
            self._meeting += 1
            self._changed.notify_all()
            self._act()
