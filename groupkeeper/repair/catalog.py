"""Merges what is readable of both copies of the topic catalog when both are damaged.

The copies hold the same records, apart from superseded ones that compaction has removed, so each
can fill gaps of the other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from groupkeeper.coordinator.replay import Replay
from groupkeeper.repair.logs import LIMITS, topic_of
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.folders import partition_of
from groupkeeper.storage.recovery.opening import accept_loss, open_log
from groupkeeper.topics.catalog import TOPIC_PREFIX
from groupkeeper.topics.catalog_log import FIRST_KEY, FOLDERS
from groupkeeper.topics.names import RESERVED, check_name

_Newest = Mapping[bytes, tuple[int, bytes | None]]


@dataclass
class _Copy:
    """The readable part of one copy."""

    newest: _Newest
    losses: Sequence[Loss]
    end: int
    """The offset after its last record."""

    @classmethod
    def of(cls, files: Files, folder: str) -> "_Copy":
        """Open a copy and accept its losses. Raises StorageError and OSError."""
        accept_loss(files, folder)
        log = open_log(files, folder, LIMITS)
        try:
            replay = Replay()
            for chunk in log.batches(log.start_offset):
                replay.take(chunk)
            losses = [*log.losses]
            if FIRST_KEY not in replay.newest and not losses:
                losses.append(Loss(f"{folder} is missing or empty", 0, None))
            return cls(replay.newest, losses, log.next_offset)
        finally:
            log.close()

    def knows_after(self, offset: int) -> bool:
        """Whether the copy lost nothing after an offset, apart from superseded records."""
        lost = any(loss.end is None or loss.end > offset for loss in self.losses)
        return offset < self.end and not lost


@dataclass
class LeftOfCatalog:
    """The readable part of both copies together."""

    newest: _Newest
    losses: list[Loss]
    end: int
    """The offset after the last record ever written, as far as known."""

    @classmethod
    def of(cls, files: Files, data_dir: str) -> "LeftOfCatalog":
        """Open both copies and accept their losses. Raises StorageError and OSError."""
        copies = [_Copy.of(files, f"{data_dir}/{name}") for name in FOLDERS]
        first, second = copies
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for one, other in ((first, second), (second, first)):
            for key, state in one.newest.items():
                # Otherwise the key was deleted, and the other copy has been compacted.
                if key in other.newest or not other.knows_after(state[0]):
                    newest[key] = max(state, newest.get(key, state), key=lambda each: each[0])
        ends = [loss.end or 0 for copy in copies for loss in copy.losses]
        end = max(first.end, second.end, *ends)
        return cls(newest, _lost_in_both(first.losses, second.losses), end)

    def value(self, key: str) -> Mapping[str, Any]:
        """Return the newest value of a key; empty if there is none. Any: JSON."""
        _, value = self.newest.get(key.encode(), (0, None))
        return {} if value is None else json.loads(value)

    @property
    def cluster_id(self) -> str:
        """The cluster id; empty if it is lost."""
        return str(self.value(FIRST_KEY.decode()).get("id", ""))

    def topics(self) -> dict[str, int]:
        """Return {topic: partition count}, without topics whose deletion is in progress."""
        names = sorted(key.decode() for key in self.newest)
        found = {name: self.value(name) for name in names if name.startswith(TOPIC_PREFIX)}
        return {
            name.removeprefix(TOPIC_PREFIX): value["partitions"]
            for name, value in found.items()
            if value and not value.get("deleted")
        }

    def topics_of(self, folders: Iterable[str]) -> dict[str, int]:
        """Return {topic: partition count} for folders of topics missing in the readable part.

        Empty if nothing is lost, since no topic can be missing then.
        """
        counts: dict[str, int] = {}
        for name in sorted(folders) if self.losses else ():
            topic = topic_of(name)
            known = f"{TOPIC_PREFIX}{topic}".encode() in self.newest
            if not known and topic not in RESERVED and check_name(topic) is None:
                counts[topic] = max(counts.get(topic, 0), partition_of(name) + 1)
        return counts


def _lost_in_both(losses: Iterable[Loss], others: Iterable[Loss]) -> list[Loss]:
    """Return the offset ranges lost in both copies."""
    found: list[Loss] = []
    for one, other in product(losses, others):
        first = max(one.first, other.first)
        ends = [loss.end for loss in (one, other) if loss.end is not None]
        end = min(ends) if ends else None
        if end is None:
            found.append(Loss(f"what followed offset {first} of the catalog", first, None))
        elif end > first:
            found.append(Loss(f"offsets {first} to {end - 1} of the catalog", first, end))
    return found
