"""The topics, the cluster's id and the producer ids that are taken, in a log of its own, twice.

Not the topics' records, and not the rules for creating topics: whoever calls has checked.
The log is a folder of Kafka-format segments, and a copy of it (catalog_log.py); newest value of
every key wins, values are JSON:

    topic:<name>    {"id": hex, "partitions": n, "configs": {...}}
                    with "deleted": true from its deletion until nothing of it is left
    unforgotten:<name>  {"partitions": [...]}
                    of the group topic that may have offsets of a deleted topic of this name
    cluster         {"id": cluster id}
    producer-ids    {"next": first id that was never given out}

A change is on the disk before it is visible in memory; changes are made one at a time, off the
event loop. A change that the disk refused is cut off the log again, durably, before its answer, so
that no later start takes it for good. If the disk refuses that, too, it is tried again before the
next change; only a process that ends before it has worked leaves the change to its successor.

A start that finds more old values than new ones writes the new ones behind them, and lets the old
ones go.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict, TypeVar

from groupkeeper.protocol.record_batch import KeyValue, decode_records, encode_batch, iter_batches
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.opening import NO_END
from groupkeeper.topics.catalog_log import EPOCH, FIRST_KEY, CatalogLog
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES
from groupkeeper.topics.names import GROUP_TOPIC, collision_key
from groupkeeper.topics.slices import each
from groupkeeper.topics.worker import Worker
from groupkeeper.turns import Turns

COMPACTED_BYTES: Final = 1024 * 1024
"""A smaller catalog is read in no time, however old it is."""

PRODUCER_ID_BLOCK: Final = 1_000
"""Producer ids are taken in blocks; a restart wastes the rest of a block, as in Kafka."""

_CLEANUP_POLICY = "cleanup.policy"
_TOPIC_PREFIX = "topic:"
_PENDING_PREFIX = "unforgotten:"
_CLUSTER = FIRST_KEY.decode()
_PRODUCER_IDS = "producer-ids"


class _TopicValue(TypedDict):
    id: str
    partitions: int
    configs: dict[str, str]
    deleted: NotRequired[bool]


Entry = tuple[str, dict[str, object] | None]
"""A key, and its new value or None for a tombstone."""


Changed = TypeVar("Changed")


def _record(entry: Entry) -> KeyValue:
    key, value = entry
    return key.encode(), None if value is None else json.dumps(value).encode()


@dataclass(slots=True, eq=False)
class Topic:
    """One topic. Its partitions and configs change in place, by `Catalog.change` only."""

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str] = field(default_factory=dict)
    internal: bool = False
    deleted: bool = False
    """Gone for clients; its partitions must not be touched any more."""

    @property
    def max_message_bytes(self) -> int | None:
        """The topic's own limit on a batch, if it has one."""
        limit = self.configs.get(MAX_MESSAGE_BYTES)
        return None if limit is None else int(limit)

    @property
    def deletes_records(self) -> bool:
        """Whether records may be deleted from its beginning: compaction alone rules it out."""
        return "delete" in self.configs.get(_CLEANUP_POLICY, "delete").replace(" ", "").split(",")

    def entry(self, *, deleted: bool = False) -> Entry:
        value: dict[str, object] = {
            "id": self.topic_id.hex(),
            "partitions": self.partition_count,
            "configs": self.configs,
        }
        if deleted:
            value["deleted"] = True
        return _TOPIC_PREFIX + self.name, value


def _deletion(topic: Topic) -> Entry:
    return topic.entry(deleted=True)


def _tombstone(topic: Topic) -> Entry:
    return _TOPIC_PREFIX + topic.name, None


def _pending_offset_deletions(of: tuple[str, frozenset[int]]) -> Entry:
    name, partitions = of
    value: dict[str, object] = {"partitions": sorted(partitions)}
    return _PENDING_PREFIX + name, value if partitions else None


def _producer_ids(following: int) -> Entry:
    return _PRODUCER_IDS, {"next": following}


class Catalog:
    """The topics, by name and by id. Reading is a dict lookup, changing a sync."""

    def __init__(
        self,
        open_log: Callable[[int], CatalogLog],
        group_partitions: int,
        worker: Worker,
        turns: Turns,
    ) -> None:
        """`open_log` is given the offset from which on to cut the log off."""
        self._open_log = open_log
        self._group_partitions = group_partitions
        self._worker = worker
        self._turns = turns
        self._log: CatalogLog | None = None
        self._end = NO_END
        """Where the log ends as far as it is durable, and so in memory, too."""
        self._forget()

    def _forget(self) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.counts: dict[str, int] = {}
        """Partitions by topic: asked once per committed topic, so it is one lookup."""
        self.partition_total = 0
        """Of all topics together."""
        self.widest = 0
        """No topic of now has more partitions."""
        self.cluster_id = ""
        self.being_deleted: dict[str, Topic] = {}
        """Topics whose deletion is promised while something of theirs may still be there."""
        self.pending_offset_deletions: dict[str, frozenset[int]] = {}
        """Names of deleted topics, which may be those of new ones by now, and the partitions of the
        group topic that may still have offsets of the old ones."""
        self._next_producer_id = 0
        # Tuples, as there are many, and garbage collection passes over those of strings.
        self._names_by_collision_key: dict[str, tuple[str, ...]] = {}

    def load(self, wall_ms: int, new_cluster_id: Callable[[], str]) -> None:
        """Read the log from its start, blocking; on the very first start the cluster gets its id.

        Raises StorageError and OSError. A catalog that cannot be read is not taken for an empty
        one.
        """
        self._reopen()
        with suppress(StorageError, OSError):  # all is as before, and the next start tries again
            self._compact(wall_ms)
        if not self.cluster_id:
            cluster_id = new_cluster_id()
            self._append([_record((_CLUSTER, {"id": cluster_id}))], wall_ms)
            self.cluster_id = cluster_id
        self._add(
            Topic(
                GROUP_TOPIC,
                hashlib.blake2b(self.cluster_id.encode(), digest_size=16).digest(),
                self._group_partitions,
                internal=True,
            )
        )

    def find_collision(self, name: str) -> str | None:
        """The name of a topic that this one would collide with ('.' against '_')."""
        others = self._names_by_collision_key.get(collision_key(name), ())
        return next((other for other in others if other != name), None)

    async def create(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Make the topics durable, then visible. Raises StorageError: none of them exists then."""
        await self._write(topics, Topic.entry, wall_ms)
        await self._turns.run(each(topics, self._add))

    async def change(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Give existing topics the partition counts and configs of these copies: durable, then
        visible. Raises StorageError: all are then as they were.
        """
        await self._write(topics, Topic.entry, wall_ms)
        await self._turns.run(each(topics, self._become))

    async def delete(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Promise the deletion: the topics are gone for clients, their rests are due."""
        await self._write(topics, _deletion, wall_ms)
        await self._turns.run(each(topics, self._mark_deleted))

    async def purged(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Nothing is left of them. Until this is written, every start ends them again."""
        await self._write(topics, _tombstone, wall_ms)
        await self._turns.run(each(topics, self._remove_deleted))

    async def set_pending_offset_deletions(
        self, changes: Sequence[tuple[str, frozenset[int]]], wall_ms: int
    ) -> None:
        """Which partitions may have offsets of deleted topics of these names: durable, then
        visible. Raises StorageError: all is then as it was.
        """
        await self._write(changes, _pending_offset_deletions, wall_ms)
        await self._turns.run(each(changes, lambda change: self._set_pending(*change)))

    async def reserve_producer_ids(self, wall_ms: int) -> range:
        """The next block of producer ids; no id is ever given out twice, crashes included."""
        first = self._next_producer_id
        following = first + PRODUCER_ID_BLOCK
        await self._write([following], _producer_ids, wall_ms)
        self._next_producer_id = following
        return range(first, following)

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    # ------------------------------------------------------------ memory

    def _add(self, topic: Topic) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        self.counts[topic.name] = topic.partition_count
        key = collision_key(topic.name)
        self._names_by_collision_key[key] = (*self._names_by_collision_key.get(key, ()), topic.name)
        self.partition_total += topic.partition_count
        self.widest = max(self.widest, topic.partition_count)

    def _become(self, changed: Topic) -> None:
        """A topic becomes what its copy is."""
        topic = self.by_name[changed.name]
        self.partition_total += changed.partition_count - topic.partition_count
        self.widest = max(self.widest, changed.partition_count)
        topic.partition_count = changed.partition_count
        topic.configs = changed.configs
        self.counts[topic.name] = topic.partition_count

    def _mark_deleted(self, topic: Topic) -> None:
        self._remove(topic)
        topic.deleted = True
        self.being_deleted[topic.name] = topic

    def _remove_deleted(self, topic: Topic) -> None:
        assert self.being_deleted.get(topic.name) is topic, "nobody else takes it out"
        del self.being_deleted[topic.name]

    def _set_pending(self, name: str, partitions: frozenset[int]) -> None:
        if partitions:
            self.pending_offset_deletions[name] = partitions
        else:
            self.pending_offset_deletions.pop(name, None)

    def _remove(self, topic: Topic) -> None:
        self.partition_total -= topic.partition_count
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        del self.counts[topic.name]
        key = collision_key(topic.name)
        names = self._names_by_collision_key.pop(key)
        if len(names) > 1:
            self._names_by_collision_key[key] = tuple(n for n in names if n != topic.name)

    # ------------------------------------------------------------ disk

    async def _write(
        self, changed: Sequence[Changed], entry: Callable[[Changed], Entry], wall_ms: int
    ) -> None:
        if changed:
            records = await self._turns.run(each(changed, lambda one: _record(entry(one))))
            await self._worker(lambda: self._append(records, wall_ms))

    def _append(self, records: Sequence[KeyValue], wall_ms: int) -> None:
        log = self._opened()
        batch = encode_batch(log.next_offset, EPOCH, wall_ms, records)
        with self._taking_back():
            log.write(batch)
        self._end = log.next_offset

    def _compact(self, wall_ms: int) -> None:
        """Until all values are there once more, durably, nothing goes."""
        log = self._opened()
        if log.size < COMPACTED_BYTES:
            return
        start = log.next_offset
        snapshot = encode_batch(
            start, EPOCH, wall_ms, [_record(entry) for entry in self._entries()]
        )
        if len(snapshot) > log.size // 2:
            return
        with self._taking_back():
            log.write(snapshot, in_new_segment=True)
        self._end = log.next_offset
        with self._taking_back():
            log.forget(start)

    def _entries(self) -> list[Entry]:
        """Everything that a start must find."""
        return [
            (_CLUSTER, {"id": self.cluster_id}),
            (_PRODUCER_IDS, {"next": self._next_producer_id}),
            *(topic.entry() for topic in self.by_name.values() if not topic.internal),
            *(topic.entry(deleted=True) for topic in self.being_deleted.values()),
            *map(_pending_offset_deletions, self.pending_offset_deletions.items()),
        ]

    def _opened(self) -> CatalogLog:
        """The log without anything that was refused, all of it durable."""
        if self._log is None:
            self._log = self._open_log(self._end)
        return self._log

    @contextmanager
    def _taking_back(self) -> Iterator[None]:
        """When a write failed nobody knows how much of it is in the file: leave nothing there."""
        try:
            yield
        except (StorageError, OSError):
            self.close()
            with suppress(
                StorageError, OSError
            ):  # the next write tries again, and fails if it must
                self._opened()
            raise

    def _reopen(self) -> None:
        self.close()
        self._forget()
        self._end = NO_END
        log = self._opened()
        for chunk in log.batches():
            for header in iter_batches(chunk):
                for record in decode_records(chunk, header):
                    self._replay((record.key or b"").decode(), record.value)
        self._end = log.next_offset

    def _replay(self, key: str, data: bytes | None) -> None:
        if key.startswith(_TOPIC_PREFIX):
            self._replay_topic(key.removeprefix(_TOPIC_PREFIX), data)
        elif key.startswith(_PENDING_PREFIX):
            partitions = frozenset[int](json.loads(data)["partitions"] if data else ())
            self._set_pending(key.removeprefix(_PENDING_PREFIX), partitions)
        elif data is not None and key == _CLUSTER:
            self.cluster_id = json.loads(data)["id"]
        elif data is not None and key == _PRODUCER_IDS:
            self._next_producer_id = json.loads(data)["next"]

    def _replay_topic(self, name: str, data: bytes | None) -> None:
        known = self.by_name.get(name)
        if known is not None:
            self._remove(known)
        self.being_deleted.pop(name, None)
        if data is None:
            return
        value: _TopicValue = json.loads(data)
        topic = Topic(name, bytes.fromhex(value["id"]), value["partitions"], value["configs"])
        if value.get("deleted"):
            self.being_deleted[name] = topic
        else:
            self._add(topic)
