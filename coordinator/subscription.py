"""The topics that the members of a group subscribe to, read from their metadata.

Needed only for offsets: offsets of a topic that a member reads are not deleted and do not expire.

Source: `ClassicGroup.computeSubscribedTopics`.
"""

from collections.abc import Iterable
from typing import Final

from groupkeeper.protocol.embedded import read_topics

MAX_TOPICS_READ: Final = 20_000
"""How many topics of a group's members are read; equal subscriptions count once."""
SUBSCRIPTION_OVERHEAD: Final = 40
"""Count of each different subscription in addition to its topics: metadata is compared with all of
them, so at most 488 are kept."""


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
        return None if self._topics is None else frozenset(self._topics)


def topics_of_all(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of several subscriptions, as `SubscribedTopics.all` does."""
    subscribed = SubscribedTopics()
    for each in metadata:
        subscribed.add(each)
    return subscribed.all()
