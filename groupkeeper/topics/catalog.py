"""The topics, the cluster id and the next producer id, in a dedicated log and a copy of it.

Callers check the rules for topics. The log is a folder of segments in Kafka's format (and a copy,
see catalog_log.py); the newest value of a key counts, values are JSON:

    topic:<name>    {"id": hex, "partitions": n, "configs": {...}}
                    with "deleted": true while it is being deleted
    unforgotten:<name>  {"partitions": [...]}
                    of the group topic that may still have offsets of a deleted topic
    cluster         {"id": cluster id}
    producer-ids    {"next": first id that was never allocated}
    leader-epoch    {"epoch": that of all topics; 0 if the record is missing}
    access:<key>    a user or an ACL: `groupkeeper/access` knows what is in it

A change is durable before it is visible in memory; changes are made one at a time, off the event
loop. A failed change is durably cut off the log before the request is answered, so that no later
start replays it. If that fails, too, it is retried before the next change; a process that ends
before it has succeeded may leave the change to the next start.

Both copies are compacted like other logs (`cleaner`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict, TypeVar

from groupkeeper.protocol.digest import blake2b
from groupkeeper.protocol.record_batch import KeyValue, decode_records, encode_batch, iter_batches
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import NO_END
from groupkeeper.topics.catalog_log import EPOCH, FIRST_KEY, CatalogLog
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES
from groupkeeper.topics.log_policy import KnownPolicy
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC, collision_key
from groupkeeper.topics.slices import each
from groupkeeper.topics.worker import WorkerThread
from groupkeeper.turns import Turns

PRODUCER_ID_BLOCK: Final = 1_000
"""Producer ids are allocated in blocks; a restart wastes the rest of a block, as in Kafka."""

TOPIC_PREFIX = "topic:"
_PENDING_PREFIX = "unforgotten:"
_CLUSTER = FIRST_KEY.decode()
PRODUCER_IDS = "producer-ids"
LEADER_EPOCH = "leader-epoch"
ACCESS_PREFIX = "access:"


class _TopicValue(TypedDict):
    id: str
    partitions: int
    configs: dict[str, str]
    deleted: NotRequired[bool]


_Entry = tuple[str, Mapping[str, object] | None]
"""A key, and its new value or None for a tombstone."""

AccessValue = Mapping[str, object]
"""A user or an ACL, as JSON; never changed in place."""
AccessChange = tuple[str, AccessValue | None]
"""The key of a user or an ACL, and its new value, or None if it is removed."""


Changed = TypeVar("Changed")


def record_of(entry: _Entry) -> KeyValue:
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
    leader_epoch: int = 0
    """The catalog's epoch; partitions of an internal topic have their own."""
    deleted: bool = False
    """Hidden from clients; its partitions must no longer be used."""
    policy: KnownPolicy | None = None
    """For `EffectiveConfigs.policy`, which checks whether it is up to date."""

    @property
    def max_message_bytes(self) -> int | None:
        """The topic's own limit on batches, or None."""
        limit = self.configs.get(MAX_MESSAGE_BYTES)
        return None if limit is None else int(limit)

    def entry(self, *, deleted: bool = False) -> _Entry:
        value: dict[str, object] = {
            "id": self.topic_id.hex(),
            "partitions": self.partition_count,
            "configs": self.configs,
        }
        if deleted:
            value["deleted"] = True
        return TOPIC_PREFIX + self.name, value


def _deletion(topic: Topic) -> _Entry:
    return topic.entry(deleted=True)


def _tombstone(topic: Topic) -> _Entry:
    return TOPIC_PREFIX + topic.name, None


def _pending_offset_deletions(of: tuple[str, frozenset[int]]) -> _Entry:
    name, partitions = of
    value: dict[str, object] = {"partitions": sorted(partitions)}
    return _PENDING_PREFIX + name, value if partitions else None


def _access_entry(change: AccessChange) -> _Entry:
    key, value = change
    return ACCESS_PREFIX + key, value


def _producer_ids(following: int) -> _Entry:
    return PRODUCER_IDS, {"next": following}


class Catalog:
    """The topics, by name and by id. Reading is a dict lookup, changing requires a sync."""

    def __init__(
        self,
        open_log: Callable[[int], CatalogLog],
        group_partitions: int,
        worker: WorkerThread,
        turns: Turns,
    ) -> None:
        """`open_log` takes the offset from which on to cut the log off."""
        self._open_log = open_log
        self._group_partitions = group_partitions
        self._worker = worker
        self._turns = turns
        self._log: CatalogLog | None = None
        self._end = NO_END
        """Next offset of the durable part of the log, which memory reflects."""
        self._clear()

    @property
    def end_offset(self) -> int:
        """The offset after the last durable change."""
        return self._end

    def _clear(self) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.counts: dict[str, int] = {}
        """Partitions by topic: a single lookup, as every committed topic needs one."""
        self.partition_total = 0
        """Total over all topics."""
        self.widest = 0
        """Largest number of partitions that a topic has, or had since the start."""
        self.cluster_id = ""
        self.being_deleted: dict[str, Topic] = {}
        """Topics whose deletion is durable, but not complete: files or offsets may remain."""
        self.pending_offset_deletions: dict[str, frozenset[int]] = {}
        """Partitions of the group topic that may still have offsets of deleted topics, by the name
        of the topic, which a new topic may have again."""
        self.leader_epoch = 0
        """The leader epoch of all topics. 0, unless data was copied from a broker: a client that
        has seen a later epoch of a partition than Metadata has waits for it."""
        self._next_producer_id = 0
        self.access: dict[str, AccessValue] = {}
        """Users and ACLs, by keys that `groupkeeper/access` makes."""
        # Tuples: there are many, and the garbage collector does not track tuples of strings.
        self._names_by_collision_key: dict[str, tuple[str, ...]] = {}

    def load(self, wall_ms: int, new_cluster_id: Callable[[], str]) -> None:
        """Read the log, blocking; the very first start gives the cluster its id.

        Raises StorageError and OSError: an unreadable catalog must not be treated as an empty one.
        """
        self._reopen()
        if not self.cluster_id:
            cluster_id = new_cluster_id()
            self._append([record_of((_CLUSTER, {"id": cluster_id}))], wall_ms)
            self.cluster_id = cluster_id
        for name, salt in ((GROUP_TOPIC, b""), (EVENT_TOPIC, b"events")):
            digest = blake2b(self.cluster_id.encode(), digest_size=16, salt=salt).digest()
            self._add(Topic(name, digest, self._group_partitions, internal=True))

    def raise_leader_epoch(self, epoch: int, wall_ms: int) -> None:
        """Durably give all topics this leader epoch, if it is newer; blocking.

        Raises StorageError and OSError.
        """
        if epoch <= self.leader_epoch:
            return
        self._append([record_of((LEADER_EPOCH, {"epoch": epoch}))], wall_ms)
        self._set_leader_epoch(epoch)

    def find_collision(self, name: str) -> str | None:
        """Return the name of an existing topic that collides with this one (`.` and `_`)."""
        others = self._names_by_collision_key.get(collision_key(name), ())
        return next((other for other in others if other != name), None)

    async def create(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Make the topics durable, then visible. Raises StorageError: none of them exists then."""
        await self._write(topics, Topic.entry, wall_ms)
        await self._turns.run(each(topics, self._add))

    async def change(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Give existing topics the partition counts and configs of these copies. Durable, then
        visible. Raises StorageError: nothing has changed then.
        """
        await self._write(topics, Topic.entry, wall_ms)
        await self._turns.run(each(topics, self._apply_change))

    async def delete(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Make the deletion durable: clients no longer see the topics; files and offsets remain."""
        await self._write(topics, _deletion, wall_ms)
        await self._turns.run(each(topics, self._mark_deleted))

    async def purged(self, topics: Sequence[Topic], wall_ms: int) -> None:
        """Note that files and offsets are gone. Until durable, each start deletes them again."""
        await self._write(topics, _tombstone, wall_ms)
        await self._turns.run(each(topics, self._remove_deleted))

    async def set_pending_offset_deletions(
        self, changes: Sequence[tuple[str, frozenset[int]]], wall_ms: int
    ) -> None:
        """Set the partitions that may have offsets of deleted topics with these names. Durable,
        then visible. Raises StorageError: nothing has changed then.
        """
        await self._write(changes, _pending_offset_deletions, wall_ms)
        await self._turns.run(each(changes, lambda change: self._set_pending(*change)))

    async def change_access(self, changes: Sequence[AccessChange], wall_ms: int) -> None:
        """Set or remove users and ACLs. Durable, then visible, all of them or none. Raises
        StorageError: nothing has changed then.
        """
        await self._write(changes, _access_entry, wall_ms)
        await self._turns.run(each(changes, lambda change: self._set_access(*change)))

    async def reserve_producer_ids(self, wall_ms: int) -> range:
        """Return the next block of producer ids; no id is allocated twice, even after a crash."""
        first = self._next_producer_id
        following = first + PRODUCER_ID_BLOCK
        await self._write([following], _producer_ids, wall_ms)
        self._next_producer_id = following
        return range(first, following)

    def logs(self) -> Sequence[Log]:
        """Return the open copies, for the cleaner."""
        return self._log.logs if self._log is not None else ()

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    # -- memory

    def _set_leader_epoch(self, epoch: int) -> None:
        self.leader_epoch = epoch
        for topic in self.by_name.values():
            topic.leader_epoch = epoch

    def _add(self, topic: Topic) -> None:
        topic.leader_epoch = self.leader_epoch
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        self.counts[topic.name] = topic.partition_count
        key = collision_key(topic.name)
        self._names_by_collision_key[key] = (*self._names_by_collision_key.get(key, ()), topic.name)
        self.partition_total += topic.partition_count
        self.widest = max(self.widest, topic.partition_count)

    def _apply_change(self, changed: Topic) -> None:
        """Copy the partition count and configs to the topic."""
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
        assert self.being_deleted.get(topic.name) is topic, "removed by another deletion"
        del self.being_deleted[topic.name]

    def _set_pending(self, name: str, partitions: frozenset[int]) -> None:
        if partitions:
            self.pending_offset_deletions[name] = partitions
        else:
            self.pending_offset_deletions.pop(name, None)

    def _set_access(self, key: str, value: AccessValue | None) -> None:
        if value is None:
            self.access.pop(key, None)
        else:
            self.access[key] = value

    def _remove(self, topic: Topic) -> None:
        self.partition_total -= topic.partition_count
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        del self.counts[topic.name]
        key = collision_key(topic.name)
        names = self._names_by_collision_key.pop(key)
        if len(names) > 1:
            self._names_by_collision_key[key] = tuple(n for n in names if n != topic.name)

    # -- disk

    async def _write(
        self, changed: Sequence[Changed], entry: Callable[[Changed], _Entry], wall_ms: int
    ) -> None:
        if changed:
            records = await self._turns.run(each(changed, lambda one: record_of(entry(one))))
            await self._worker(lambda: self._append(records, wall_ms))

    def _append(self, records: Sequence[KeyValue], wall_ms: int) -> None:
        log = self._opened()
        batch = encode_batch(log.next_offset, EPOCH, wall_ms, records)
        with self._cutting_off():
            log.write(batch)
        self._end = log.next_offset

    def _opened(self) -> CatalogLog:
        """Return the log without failed changes, all of it durable."""
        if self._log is None:
            self._log = self._open_log(self._end)
        return self._log

    @contextmanager
    def _cutting_off(self) -> Iterator[None]:
        """After a failed write, cut it off the log: any part of it may be in the file."""
        try:
            yield
        except (StorageError, OSError):
            self.close()
            with suppress(StorageError, OSError):  # the next write retries
                self._opened()
            raise

    def _reopen(self) -> None:
        self.close()
        self._clear()
        self._end = NO_END
        log = self._opened()
        for chunk in log.batches():
            for header in iter_batches(chunk):
                for record in decode_records(chunk, header):
                    self._replay((record.key or b"").decode(), record.value)
        self._end = log.next_offset

    def _replay(self, key: str, data: bytes | None) -> None:
        if key.startswith(TOPIC_PREFIX):
            self._replay_topic(key.removeprefix(TOPIC_PREFIX), data)
        elif key.startswith(_PENDING_PREFIX):
            partitions = frozenset[int](json.loads(data)["partitions"] if data else ())
            self._set_pending(key.removeprefix(_PENDING_PREFIX), partitions)
        elif key.startswith(ACCESS_PREFIX):
            value = None if data is None else json.loads(data)
            self._set_access(key.removeprefix(ACCESS_PREFIX), value)
        elif data is not None and key == _CLUSTER:
            self.cluster_id = json.loads(data)["id"]
        elif data is not None and key == PRODUCER_IDS:
            self._next_producer_id = json.loads(data)["next"]
        elif data is not None and key == LEADER_EPOCH:
            self._set_leader_epoch(json.loads(data)["epoch"])

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
