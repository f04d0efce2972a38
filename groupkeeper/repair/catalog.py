"""A catalog of topics whose two copies are both damaged: what is left of it, from both together.

What one copy lacks the other may have: the copies hold the same records, apart from those that
newer ones replace. What is left is written as one batch, after everything else.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.record_batch import KeyValue, encode_batch
from groupkeeper.repair.logs import LIMITS, topic_of
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import partition_of
from groupkeeper.storage.opening import accept_loss, open_log
from groupkeeper.topics.catalog import (
    LEADER_EPOCH,
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    TOPIC_PREFIX,
    Topic,
    record_of,
)
from groupkeeper.topics.catalog_log import EPOCH, FIRST_KEY, FOLDERS, CatalogFolders
from groupkeeper.topics.names import RESERVED, check_name

Newest = Mapping[bytes, tuple[int, bytes | None]]


@dataclass
class TopicState:
    """One topic."""

    name: str
    partitions: int
    at: int
    """The offset in the catalog's log of the record that says so."""
    being_deleted: bool = False
    from_folders: bool = False
    """The readable part of the catalog does not know it, but it has partition folders."""


@dataclass
class CatalogContents:
    """What a catalog holds."""

    topics: list[TopicState] = field(default_factory=list)
    cluster_id: str = ""
    """Empty: it is lost."""


def contents_of(newest: Newest) -> CatalogContents:
    """What the newest values of a catalog say."""
    found = CatalogContents()
    for key, (at, value) in sorted(newest.items()):
        name = key.decode()
        if value is not None and name.startswith(TOPIC_PREFIX):
            topic = json.loads(value)
            count, deleted = topic["partitions"], topic.get("deleted", False)
            found.topics.append(TopicState(name.removeprefix(TOPIC_PREFIX), count, at, deleted))
        elif value is not None and key == FIRST_KEY:
            found.cluster_id = json.loads(value)["id"]
    return found


@dataclass
class _Copy:
    """What is left of one copy."""

    newest: Newest
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

    newest: Newest
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

    @property
    def contents(self) -> CatalogContents:
        return contents_of(self.newest)

    def topics_of(self, names: Iterable[str]) -> list[TopicState]:
        """The topics that have these folders, and that nothing readable speaks of.

        None if nothing is lost: then no topic is missing.
        """
        counts: dict[str, int] = {}
        for name in names if self.losses else ():
            topic = topic_of(name)
            known = f"{TOPIC_PREFIX}{topic}".encode() in self.newest
            if not known and topic not in RESERVED and check_name(topic) is None:
                counts[topic] = max(counts.get(topic, 0), partition_of(name) + 1)
        return [TopicState(topic, counts[topic], -1, from_folders=True) for topic in sorted(counts)]

    def write(self, files: Files, data_dir: str, added: "Added") -> None:
        """Write the current values to both copies. Raises StorageError and OSError."""
        folder = f"{data_dir}/{FOLDERS[0]}"
        accept_loss(files, folder)
        log = open_log(files, folder, LIMITS)
        try:
            log.skip_to(self.end)
            log.roll()
            start = log.next_offset
            records = [*self._records(added, files.random_bytes)]
            log.append(encode_batch(start, EPOCH, added.wall_ms, records))
            log.sync()
            log.delete_before(start)
        finally:
            log.close()
        CatalogFolders(files, data_dir, LIMITS, lambda what: None, must_exist=True).open().close()

    def _records(self, added: "Added", random_bytes: Callable[[int], bytes]) -> Iterator[KeyValue]:
        """All current values, that of the cluster first."""
        _, cluster = self.newest.get(FIRST_KEY, (0, None))
        yield FIRST_KEY, cluster or json.dumps({"id": added.cluster_id}).encode()
        producer_ids = max(self._next_producer_id(), added.next_producer_id)
        yield PRODUCER_IDS.encode(), json.dumps({"next": producer_ids}).encode()
        epoch = max(self._number(LEADER_EPOCH, "epoch"), added.leader_epoch)
        if epoch:
            yield LEADER_EPOCH.encode(), json.dumps({"epoch": epoch}).encode()
        written = {FIRST_KEY, PRODUCER_IDS.encode(), LEADER_EPOCH.encode()}
        for key, (_, value) in self.newest.items():
            if value is not None and key not in written:
                yield key, value
        for topic in added.topics:
            yield record_of(Topic(topic.name, random_bytes(16), topic.partitions).entry())

    def _number(self, key: str, name: str) -> int:
        _, value = self.newest.get(key.encode(), (0, None))
        return int(json.loads(value)[name]) if value is not None else 0

    def _next_producer_id(self) -> int:
        """Each record that is lost may have been the allocation of a block of ids."""
        known = self._number(PRODUCER_IDS, "next")
        lost = sum((loss.end or loss.first) - loss.first for loss in self.losses)
        return known + lost * PRODUCER_ID_BLOCK


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


@dataclass(frozen=True)
class Added:
    """What a catalog gets that it does not have itself."""

    wall_ms: int
    cluster_id: str
    """If its own is lost."""
    next_producer_id: int
    """Larger than all that are in the logs of topics."""
    leader_epoch: int
    """The newest one in these logs."""
    topics: Sequence[TopicState]
    """From their folders."""
