"""Keeps which partitions the groups of an observed cluster have committed offsets for, by topic.

A partition stays among them while it has an offset, whatever else comes: so beyond the limit it is
the same ones that are left out in each round, and no end that is known is forgotten for another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from groupkeeper.topics.log_positions import LogName
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices
from groupkeeper.watch.offsets import TopicOffsets

PARTITIONS_MOST: Final = 100_000
"""Maximum number of partitions."""
BEYOND_MOST: Final = 100_000
"""Maximum number of further partitions that are counted."""


class CommittedPlaces:
    """The partitions, as of the last `renew`. `offsets` returns committed offsets by group."""

    def __init__(self, offsets: Callable[[], Iterable[Mapping[str, TopicOffsets]]]) -> None:
        self.beyond = 0
        """Number of partitions that are left out because of `PARTITIONS_MOST`, up to
        `BEYOND_MOST`."""
        self._offsets = offsets
        self._rounds: dict[str, dict[int, int]] = {}
        """Topic -> partition -> number of the last round in which it had an offset."""
        self._round = self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, topic: str) -> Iterable[int]:
        """Return the partitions of a topic."""
        return self._rounds.get(topic, ())

    def chunks(self, size: int) -> Iterator[list[LogName]]:
        """Yield all in lists of `size`, those of a topic together; the last one may be shorter. Not
        to be used any more after `renew`.
        """
        some = list[LogName]()
        for topic, rounds in self._rounds.items():
            for number in rounds:
                some.append((topic, number))
                if len(some) == size:
                    yield some
                    some = []
        if some:
            yield some

    def renew(self, drop: Callable[[LogName], None]) -> Slices[None]:
        """Look at all committed offsets. Calls `drop` for partitions that have none any more; those
        in whose place they were left out come with the next call.
        """
        self._round += 1
        beyond, pace = set[LogName](), Pace()
        for groups in self._offsets():
            for topics in [*groups.values()]:
                for topic, partitions in [*topics.items()]:
                    for number in [*partitions]:
                        if not self._has_room(topic, number) and len(beyond) < BEYOND_MOST:
                            beyond.add((topic, number))
                        if pace.spent():
                            yield
        self.beyond = len(beyond)
        yield from self._drop_old(drop, pace)
        while beyond:  # to free them all at once would take long
            beyond.pop()
            if pace.spent():
                yield

    def _has_room(self, topic: str, number: int) -> bool:
        """Note that a partition has an offset. Returns whether it is among those kept."""
        rounds = self._rounds.get(topic)
        if rounds is None or number not in rounds:
            if self._count >= PARTITIONS_MOST:
                return False
            self._count += 1
            rounds = self._rounds.setdefault(topic, {})
        rounds[number] = self._round
        return True

    def _drop_old(self, drop: Callable[[LogName], None], pace: Pace) -> Slices[None]:
        old = list[LogName]()
        for topic, rounds in self._rounds.items():
            for number, last in rounds.items():
                if last != self._round:
                    old.append((topic, number))
                if pace.spent():
                    yield
        while old:
            topic, number = place = old.pop()
            del self._rounds[topic][number]
            if not self._rounds[topic]:
                del self._rounds[topic]
            self._count -= 1
            drop(place)
            if pace.spent():
                yield
