"""The topics that the members of a group subscribe to, read from their metadata.

Needed only for offsets: offsets of a topic that a member reads are not deleted and do not expire.

Source: `ClassicGroup.computeSubscribedTopics`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from groupkeeper.protocol.embedded import read_topics

MAX_TOPICS_READ: Final = 20_000
"""How many topics of a group's members are read; equal subscriptions count once."""
SUBSCRIPTION_OVERHEAD: Final = 40
"""Count of each different subscription in addition to its topics: metadata is compared with all of
them, so at most 488 are kept."""
SETS_SHARED: Final = 256
SHARED_CHARACTERS: Final = 256
"""Sets of topics that groups have in common, and the most characters of the names in each."""


@lru_cache(maxsize=SETS_SHARED)
def _shared_small(topics: frozenset[str]) -> frozenset[str]:
    return topics


def _shared(topics: frozenset[str]) -> frozenset[str]:
    """Return an equal set that other groups have too, if it is small: many subscribe alike."""
    return _shared_small(topics) if sum(map(len, topics)) <= SHARED_CHARACTERS else topics


class SubscribedTopics:
    """Reads subscriptions. Equal lists of topics begin with the same bytes, and are read once."""

    __slots__ = ("_heads", "_left", "_topics")

    def __init__(self) -> None:
        self._topics: set[str] | None = set()
        self._heads: tuple[bytes, ...] = ()
        self._left = MAX_TOPICS_READ

    def add(self, metadata: bytes) -> None:
        """Read the subscription of a member."""
        if metadata.startswith(self._heads) or self._topics is None:
            return
        found = read_topics(metadata, self._left)
        if found is None:
            self._topics = None
            return
        topics, end = found
        self._topics.update(topics)
        self._heads += (metadata[:end],)
        self._left -= len(topics) + SUBSCRIPTION_OVERHEAD

    def all(self) -> frozenset[str] | None:
        """Return the topics of all; None when one could not be read, or they are too many."""
        return None if self._topics is None else _shared(frozenset(self._topics))


def subscribe_alike(metadata: Iterable[bytes]) -> bool:
    """Return whether all subscriptions are to the same topics; False if one cannot be read."""
    heads: tuple[bytes, ...] = ()
    topics: frozenset[str] | None = None
    for each in metadata:
        if each.startswith(heads):  # nearly always
            continue
        found = read_topics(each, MAX_TOPICS_READ)
        if found is None or topics not in (None, frozenset(found[0])):
            return False
        topics = frozenset(found[0])
        heads += (each[: found[1]],)
    return True


def topics_of_all(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of several subscriptions, as `SubscribedTopics.all` does."""
    subscribed = SubscribedTopics()
    for each in metadata:
        subscribed.add(each)
    return subscribed.all()
