"""A catalog of topics whose two copies are both damaged: what is left of it, from both together.

What one copy lacks the other may have: the copies hold the same records, apart from those that
newer ones replace.
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
    """What is left of one copy."""

    newest: _Newest
    losses: Sequence[Loss]
    end: int
    """The offset after its last record."""

    @classmethod
    def of(cls, files: Files, folder: str) -> "_Copy":
        """Open a copy with its losses accepted. Raises StorageError and OSError."""
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
        """Whether it has all records after an offset, but for those that newer ones replace."""
        lost = any(loss.end is None or loss.end > offset for loss in self.losses)
        return offset < self.end and not lost


@dataclass
class LeftOfCatalog:
    """What both copies together still have."""

    newest: _Newest
    losses: list[Loss]
    end: int
    """The offset after all that was ever written, as far as it is known."""

    @classmethod
    def of(cls, files: Files, data_dir: str) -> "LeftOfCatalog":
        """Open both copies with their losses accepted. Raises StorageError and OSError."""
        copies = [_Copy.of(files, f"{data_dir}/{name}") for name in FOLDERS]
        first, second = copies
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for one, other in ((first, second), (second, first)):
            for key, state in one.newest.items():
                # Else it was deleted, and the other copy is compacted.
                if key in other.newest or not other.knows_after(state[0]):
                    newest[key] = max(state, newest.get(key, state), key=lambda each: each[0])
        ends = [loss.end or 0 for copy in copies for loss in copy.losses]
        end = max(first.end, second.end, *ends)
        return cls(newest, _lost_in_both(first.losses, second.losses), end)

    def value(self, key: str) -> Mapping[str, Any]:
        """The newest value of a key; empty if there is none. Any: JSON."""
        _, value = self.newest.get(key.encode(), (0, None))
        return {} if value is None else json.loads(value)

    @property
    def cluster_id(self) -> str:
        """Empty: it is lost."""
        return str(self.value(FIRST_KEY.decode()).get("id", ""))

    def topics(self) -> dict[str, int]:
        """The partition counts of topics, but for those that are being deleted."""
        names = sorted(key.decode() for key in self.newest)
        found = {name: self.value(name) for name in names if name.startswith(TOPIC_PREFIX)}
        return {
            name.removeprefix(TOPIC_PREFIX): value["partitions"]
            for name, value in found.items()
            if value and not value.get("deleted")
        }

    def topics_of(self, folders: Iterable[str]) -> dict[str, int]:
        """The partition counts of topics that have folders, and that nothing readable speaks of.

        None if nothing is lost: then no topic is missing.
        """
        counts: dict[str, int] = {}
        for name in sorted(folders) if self.losses else ():
            topic = topic_of(name)
            known = f"{TOPIC_PREFIX}{topic}".encode() in self.newest
            if not known and topic not in RESERVED and check_name(topic) is None:
                counts[topic] = max(counts.get(topic, 0), partition_of(name) + 1)
        return counts


def _lost_in_both(losses: Iterable[Loss], others: Iterable[Loss]) -> list[Loss]:
    """The offsets that neither copy has."""
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
