"""Keeps the committed offsets of the groups of one partition of `__consumer_offsets`.

Values are the beginnings of an OffsetCommitValue, as in the log, up to the offset: metadata of
clients may be long. A mark behind it says that the same offset was committed again at some time:
such a client commits while it has nothing to read. A commit of a transaction counts when it is
written.
"""

import json
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final

from groupkeeper.coordinator.records import offset_in
from groupkeeper.watch.commit_heads import CommitPlace

OFFSETS_MOST: Final = 200_000
"""Maximum number of offsets of one partition; others are not kept until some are deleted."""
_HEAD: Final = Struct(">hq")
"""Version and offset, which all versions begin with."""

AGAIN: Final = b"\1"
"""The mark."""

TopicOffsets = dict[str, dict[int, bytes]]
"""Topic -> partition -> beginning of the value."""


class CommittedOffsets:
    """The offsets. Another thread may read `groups`, by looking up keys and copying rows."""

    def __init__(self, most: int = OFFSETS_MOST) -> None:
        self.groups: dict[str, TopicOffsets] = {}
        self.dropped = 0
        """Number of commits for further partitions that were not kept because of the limit."""
        self.count = 0
        self._most = most
        self._dirty: dict[str, None] = {}

    def put(self, commits: Iterable[tuple[CommitPlace, bytes | None]]) -> None:
        """Add commits in the order of the log; None deletes an offset."""
        for (group, topic, partition), value in commits:
            if value is None:
                self._delete(group, topic, partition)
            elif len(value) >= _HEAD.size:  # else it is damaged
                self._put(group, topic, partition, value[: _HEAD.size])

    def _put(self, group: str, topic: str, partition: int, head: bytes) -> None:
        partitions = self.groups.get(group, {}).get(topic, {})
        if partition not in partitions:
            if self.count >= self._most:
                self.dropped += 1
                return
            self.count += 1
            partitions = self.groups.setdefault(group, {}).setdefault(topic, partitions)
        before = partitions.get(partition, b"")
        is_again = len(before) > _HEAD.size or before[2:] == head[2:]
        partitions[partition] = head + AGAIN if is_again else head
        self._dirty[group] = None

    def _delete(self, group: str, topic: str, partition: int) -> None:
        topics = self.groups.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        self.count -= 1
        self._dirty[group] = None
        if not partitions:
            del topics[topic]
        if not topics:
            del self.groups[group]

    def clear(self) -> None:
        """Forget all offsets, as the log begins anew."""
        self._dirty |= dict.fromkeys(self.groups)
        self.groups.clear()
        self.count = 0

    # -- state -----------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether `take_changed` would return anything."""
        return bool(self._dirty)

    def take_changed(self, *, whole: bool = False) -> list[tuple[str, bytes | None]]:
        """Return the states of groups that changed since the last call, or of all; None if a group
        has no offset any more.
        """
        names = [*(self._dirty | dict.fromkeys(self.groups))] if whole else [*self._dirty]
        self._dirty.clear()
        return [
            (name, encoded(_rows(self.groups[name])) if name in self.groups else None)
            for name in names
        ]

    def restore(self, group: str, state: bytes) -> None:
        """Restore the offsets of a group. Raises ValueError for other data."""
        topics: Mapping[str, list[list[int]]] = json.loads(state)
        self.groups[group] = {
            topic: {each[0]: _HEAD.pack(0, each[1]) + AGAIN * (len(each) - 2) for each in some}
            for topic, some in topics.items()
        }
        self.count += sum(map(len, self.groups[group].values()))


def commits_again(head: bytes) -> bool:
    """Return whether a value has the mark."""
    return len(head) > _HEAD.size


# Any: JSON.
def encoded(state: Any) -> bytes:
    """Return a state as it is stored."""
    return json.dumps(state, separators=(",", ":")).encode()


def _rows(topics: TopicOffsets) -> dict[str, list[list[int]]]:
    return {
        topic: [
            [number, offset_in(head), *([1] if commits_again(head) else [])]
            for number, head in some.items()
        ]
        for topic, some in topics.items()
    }
