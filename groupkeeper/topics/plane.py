"""The data plane behind one interface, and the embedded one put together.

No behaviour of its own: each request has a module. `DataPlane` is all that the server knows, so
that a gateway could put an upstream cluster in its place.
"""

import base64
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from groupkeeper.apis.configs.alter import AlteringConfigs
from groupkeeper.apis.configs.describe import DescribingConfigs
from groupkeeper.apis.create_partitions import CreatingPartitions
from groupkeeper.apis.create_topics import CreatingTopics
from groupkeeper.apis.delete_records import DeletingRecords
from groupkeeper.apis.delete_topics import DeletingTopics
from groupkeeper.apis.describe_topic_partitions import DescribingPartitions
from groupkeeper.apis.fetch import Fetching
from groupkeeper.apis.init_producer_id import ProducerIds
from groupkeeper.apis.list_offsets import ListingOffsets
from groupkeeper.apis.metadata import Describing, Node
from groupkeeper.apis.offset_for_leader_epoch import EndingEpochs
from groupkeeper.apis.produce import Producing
from groupkeeper.exchange import Handler
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import FolderList
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.log import Log
from groupkeeper.topics.catalog import Catalog
from groupkeeper.topics.catalog_log import CatalogFolders
from groupkeeper.topics.effective_configs import EffectiveConfigs
from groupkeeper.topics.limits import OPEN_FILES_MOST
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.topics.offload import LateAnswers, OffLoop, WorkerThread
from groupkeeper.topics.open_files import OpenFiles
from groupkeeper.topics.opening import Opening
from groupkeeper.topics.partitions import Failed, Partitions, TopicFolders
from groupkeeper.topics.producers import ProducerMemory
from groupkeeper.topics.read import Reader
from groupkeeper.topics.time_lookup import TimeLookup
from groupkeeper.topics.topic_admin import Outside, TopicAdmin, TopicsDeleted
from groupkeeper.topics.unforgotten import Unforgotten
from groupkeeper.turns import Turns

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
CREATE_PARTITIONS: Final = 37
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75


class DataPlane(Protocol):
    """What the server needs of whatever serves the topics."""

    handlers: dict[int, Handler]
    """By API key: Produce, Fetch, ListOffsets, Metadata, InitProducerId and the administration of
    topics. Those of configs are asked for topics only.

    A handler that returns None answers later. The later answer may be NO_REPLY, too (Produce with
    acks 0).
    """
    topics_deleted: list[TopicsDeleted]
    """Called on the event loop with the names of topics that are gone, and awaited before the
    client hears; again, after a crash, when nobody knows whether it was done."""
    unforgotten: Unforgotten
    """What partitions of the group topic that could not be loaded then have to forget."""

    @property
    def cluster_id(self) -> str: ...

    def partition_count(self, topic: str) -> int | None:
        """None if there is no such topic. One lookup: called for every topic of every commit."""

    def snapshot(self) -> "Snapshot": ...

    async def close(self) -> None:
        """Answer every Fetch that waits, then let go of the files."""


class TopicSettings(Protocol):
    """The settings that the embedded data plane reads, under Kafka's names."""

    @property
    def auto_create_topics_enable(self) -> bool: ...
    @property
    def num_partitions(self) -> int: ...
    @property
    def message_max_bytes(self) -> int: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def log_segment_bytes(self) -> int: ...
    @property
    def offsets_topic_segment_bytes(self) -> int: ...
    @property
    def offsets_topic_num_partitions(self) -> int: ...
    @property
    def producer_id_expiration_ms(self) -> int: ...


class DataDirectory(Protocol):
    """Where the folders go: a ``storage.store.Store`` has one and holds its lock."""

    @property
    def data_dir(self) -> str: ...
    @property
    def was_used(self) -> bool:
        """A server has run on it before: there must be a catalog."""


@dataclass(slots=True)
class Snapshot:
    """Gauges, as plain numbers of now."""

    topics: int
    """Without internal ones."""
    partitions: int
    open_logs: int
    open_files: int
    """Descriptors of topic logs."""
    waiting_fetches: int


@dataclass(slots=True)
class TopicsWorld:
    """What the data plane takes from outside; a test or a simulation puts its own there."""

    files: Files = field(default_factory=Files)
    worker: OffLoop = field(default_factory=WorkerThread)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    random_bytes: Callable[[int], bytes] = os.urandom
    failed: Failed = lambda where, error: None
    """Told about every failure of the disk, and of every limit reached, for the log."""
    told: Callable[[str], None] = lambda what: None
    """Told what was damaged and could be put right."""
    folders: FolderList | None = None
    """Which partition folders must be there."""
    open_files_most: int = OPEN_FILES_MOST
    """Descriptors for topic logs; with more, those used longest ago are closed meanwhile."""


class EmbeddedTopics:
    """The data plane of one process, over its data directory.

    Making it reads the catalog, which may take some milliseconds and needs no event loop. Raises
    StorageError and OSError.
    """

    def __init__(
        self,
        store: DataDirectory,
        settings: TopicSettings,
        node: Node,
        world: TopicsWorld | None = None,
        turns: Turns | None = None,
    ) -> None:
        world, turns = world or TopicsWorld(), turns or Turns()
        self._worker = world.worker
        limits = Limits(segment_bytes=settings.log_segment_bytes)
        self._files = OpenFiles(world.files, world.open_files_most)
        folders = TopicFolders(self._files, store.data_dir, limits, world.told, world.folders)
        catalog_folders = CatalogFolders(
            world.files, store.data_dir, limits, world.told, must_exist=store.was_used
        )
        self._catalog = Catalog(
            catalog_folders.open,
            settings.offsets_topic_num_partitions,
            world.worker,
            turns,
        )
        producers = ProducerMemory(settings.producer_id_expiration_ms, world.wall_ms, world.failed)
        self._partitions = Partitions(
            self._catalog, folders, world.worker, turns, world.failed, producers
        )
        self._late = LateAnswers(world.failed, turns)
        self._admin = admin = TopicAdmin(
            self._catalog,
            self._partitions,
            Outside(world.wall_ms, lambda: world.random_bytes(16)),
            world.failed,
            turns,
        )
        self.topics_deleted = admin.topics_deleted
        self.unforgotten = Unforgotten(self._catalog, turns, world.wall_ms)
        self._wire(settings, node, world, admin)
        self._catalog.load(world.wall_ms(), lambda: _cluster_id(world.random_bytes))

    def _wire(
        self, settings: TopicSettings, node: Node, world: TopicsWorld, admin: TopicAdmin
    ) -> None:
        late, partitions = self._late, self._partitions
        self._reader = Reader(partitions, settings.fetch_max_bytes, world.failed)
        opening = Opening(partitions, late)
        self._fetching = Fetching(self._reader, late, world.failed)
        lookup = TimeLookup(world.worker, late.turns)
        auto_create = settings.num_partitions if settings.auto_create_topics_enable else None
        producing = Producing(partitions, opening, settings.message_max_bytes, world.failed)
        configs = EffectiveConfigs(settings)
        creating = CreatingTopics(admin, node.node_id, settings.num_partitions, configs, late)
        describing = DescribingConfigs(admin.catalog, configs)
        altering = AlteringConfigs(admin, late)
        self.handlers: dict[int, Handler] = {
            PRODUCE: producing.handle,
            FETCH: self._fetching.handle,
            LIST_OFFSETS: ListingOffsets(partitions, opening, lookup, world.failed).handle,
            METADATA: Describing(admin, node, auto_create, late).handle,
            CREATE_TOPICS: creating.handle,
            DELETE_TOPICS: DeletingTopics(admin, late).handle,
            DESCRIBE_CONFIGS: describing.handle,
            ALTER_CONFIGS: altering.handle,
            INCREMENTAL_ALTER_CONFIGS: altering.handle,
            LIST_CONFIG_RESOURCES: describing.list_topics,
            DELETE_RECORDS: DeletingRecords(partitions, opening, late).handle,
            INIT_PRODUCER_ID: ProducerIds(self._catalog, late, world.wall_ms).handle,
            OFFSET_FOR_LEADER_EPOCH: EndingEpochs(partitions, opening).handle,
            DESCRIBE_TOPIC_PARTITIONS: DescribingPartitions(admin, node.node_id).handle,
            CREATE_PARTITIONS: CreatingPartitions(admin, node.node_id, late).handle,
        }

    def answer_room(self, room: Callable[[], int]) -> None:
        """Whom Fetch asks how many bytes of answers may still be held for clients."""
        self._reader.room = room

    def finish_deletions(self) -> None:
        """Finish in the background what a crash interrupted. To be called when the event loop runs
        and everybody is in `topics_deleted`.
        """
        self._admin.finish_deletions()

    async def strange_folders(self) -> list[str]:
        """Names of partition folders that are no topic's, as of now. Raises OSError."""
        return await self._partitions.strangers()

    @property
    def cluster_id(self) -> str:
        return self._catalog.cluster_id

    def partition_count(self, topic: str) -> int | None:
        return self._catalog.counts.get(topic)

    def serve_group_logs(self, group_log: Callable[[int], Log | None]) -> None:
        """Where to read partitions of the group topic; None for one that has no open log."""
        self._partitions.group_log = group_log

    def group_log_grew(self, index: int, size: int) -> None:
        """So many bytes are new and durable in a partition of the group topic."""
        self._partitions.grew(GROUP_TOPIC, index, size)

    def snapshot(self) -> Snapshot:
        internal = 1
        counts = self._catalog.counts
        return Snapshot(
            topics=len(counts) - internal,
            partitions=sum(counts.values()) - counts[GROUP_TOPIC],
            open_logs=self._partitions.opened(),
            open_files=len(self._files),
            waiting_fetches=len(self._fetching.waiting),
        )

    async def close(self) -> None:
        await self._fetching.close()
        await self._late.finish()
        await self._admin.close()
        await self._worker(self._partitions.close)
        await self._worker(self._catalog.close)
        self._worker.close()


def _cluster_id(random_bytes: Callable[[int], bytes]) -> str:
    """Like Kafka's: a random UUID in 22 URL-safe characters that look like no option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
