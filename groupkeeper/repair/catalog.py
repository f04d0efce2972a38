"""A catalog of topics whose two copies are both damaged: what is left of it, from both together.

What one copy lacks the other may have: the copies hold the same batches. What is left is written as
one batch with all current values, as a compaction of the catalog does it, behind everything else.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.record_batch import KeyValue, decode_records, encode_batch, iter_batches
from groupkeeper.repair.logs import LIMITS, topic_of
from groupkeeper.storage.errors import Loss
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import partition_of
from groupkeeper.storage.opening import accept_loss, open_log
from groupkeeper.topics.catalog import (
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    TOPIC_PREFIX,
    Topic,
    record_of,
)
from groupkeeper.topics.catalog_log import EPOCH, FIRST_KEY, FOLDERS, CatalogFolders
from groupkeeper.topics.names import RESERVED, check_name

_CONTENT: Final = 17
"""From this byte on, a batch is the same whatever its offset and epoch."""

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
class LeftOfCatalog:
    """What both copies together still have."""

    newest: Newest
    losses: list[Loss]
    end: int
    """The offset after all that was ever written, as far as it is known."""

    @classmethod
    def of(cls, files: Files, data_dir: str) -> "LeftOfCatalog":
        """Open both copies with their losses accepted. Raises StorageError and OSError."""
        batches: dict[bytes, tuple[int, bytes]] = {}
        end, is_end_known = 0, False
        for name in FOLDERS:
            accept_loss(files, f"{data_dir}/{name}")
            log = open_log(files, f"{data_dir}/{name}", LIMITS)
            for chunk in log.batches(log.start_offset):
                for header in iter_batches(chunk):
                    batch = chunk[header.position : header.end]
                    one = header.base_offset, batch
                    # A batch that is there at two offsets has the wrong one at the end of a copy.
                    batches[batch[_CONTENT:]] = min(batches.get(batch[_CONTENT:], one), one)
            end = max(end, log.next_offset, *(loss.end or 0 for loss in log.losses))
            is_end_known |= bool(log.next_offset) and all(loss.end for loss in log.losses)
            log.close()
        return cls._from(sorted(batches.values()), end, is_end_known=is_end_known)

    @classmethod
    def _from(
        cls, batches: list[tuple[int, bytes]], end: int, *, is_end_known: bool
    ) -> "LeftOfCatalog":
        replay, due = Replay(), 0
        losses: list[Loss] = []
        for base, batch in batches:
            [header] = iter_batches(batch)
            if next(decode_records(batch, header)).key == FIRST_KEY:
                replay, losses = Replay(), []  # all current values, or the very first one
            elif base > due:
                losses.append(Loss(f"offsets {due} to {base - 1} of the catalog", due, base))
            replay.take(batch)
            due = header.next_offset
        if not is_end_known:
            losses.append(Loss(f"what followed offset {due} of the catalog", due, None))
        elif end > due:
            losses.append(Loss(f"offsets {due} to {end - 1} of the catalog", due, end))
        return cls(replay.newest, losses, end)

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
        for key, (_, value) in self.newest.items():
            if value is not None and key not in (FIRST_KEY, PRODUCER_IDS.encode()):
                yield key, value
        for topic in added.topics:
            yield record_of(Topic(topic.name, random_bytes(16), topic.partitions).entry())

    def _next_producer_id(self) -> int:
        """Each record that is lost may have been the allocation of a block of ids."""
        _, value = self.newest.get(PRODUCER_IDS.encode(), (0, None))
        known: int = json.loads(value)["next"] if value is not None else 0
        lost = sum((loss.end or loss.first) - loss.first for loss in self.losses)
        return known + lost * PRODUCER_ID_BLOCK


@dataclass(frozen=True)
class Added:
    """What a catalog gets that it does not have itself."""

    wall_ms: int
    cluster_id: str
    """If its own is lost."""
    next_producer_id: int
    """Larger than all that are in the logs of topics."""
    topics: Sequence[TopicState]
    """From their folders."""
