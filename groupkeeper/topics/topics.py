"""All topics of a server, over its data directory.

Assembles the parts of this package; the APIs are in `apis`.
"""

import base64
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.clock import Clock
from groupkeeper.settings.table import Settings
from groupkeeper.storage.files.at_once import AtOnce, one_after_another
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.folders import FolderList
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.retention import RetentionLimits
from groupkeeper.storage.store import Store
from groupkeeper.topics.appender import Appender
from groupkeeper.topics.batch_reader import BatchReader
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.catalog_log import SEGMENT_BYTES, CatalogFolders
from groupkeeper.topics.effective_configs import EffectiveConfigs
from groupkeeper.topics.fetch_reader import FetchReader
from groupkeeper.topics.file_jobs import FileJobs, FileThreads
from groupkeeper.topics.limits import OPEN_FILES_MOST
from groupkeeper.topics.log_opener import LogOpener
from groupkeeper.topics.log_positions import LogPositions
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.open_files import OpenFiles
from groupkeeper.topics.partitions import Failed, TopicPartitions
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.topics.producers import ProducerMemory
from groupkeeper.topics.record_deletion import RecordDeletion
from groupkeeper.topics.retention import Retention, RetentionListener
from groupkeeper.topics.time_lookup import TimeLookup
from groupkeeper.topics.topic_admin import TopicAdmin, TopicsDeleted
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.topics.worker import ResponseTasks, WorkerThread
from groupkeeper.turns import Turns


def wall_ms() -> int:
    """Return Unix milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class TopicsWorld:
    """Dependencies on the outside world; tests and simulations replace them."""

    files: Files = field(default_factory=Files)
    worker: WorkerThread = field(default_factory=WorkerThread)
    file_jobs: Callable[[], FileJobs] | None = None
    """Creates the runner of file calls. None: threads, unless the files are in memory."""
    wall_ms: Callable[[], int] = wall_ms
    random_bytes: Callable[[int], bytes] = os.urandom
    cluster_id: str = ""
    """Cluster id of new data; empty: a random one."""
    failed: Failed = lambda where, error: None
    """Called with every failure of the disk and every limit reached, for the log."""
    repaired: Callable[[str], None] = lambda what: None
    """Called with a description of damage that was repaired."""
    retention: RetentionListener = field(default_factory=RetentionListener)
    """Receives the results of retention."""
    folders: FolderList | None = None
    """The partition folders that must exist."""
    open_files_most: int = OPEN_FILES_MOST
    """Descriptors for topic logs; beyond, the least recently used are closed."""

    def new_file_jobs(self) -> FileJobs:
        """Return a runner of file calls beside the event loop."""
        default = FileThreads if self.files.may_block else FileJobs
        return (self.file_jobs or default)()

    def new_cluster_id(self) -> str:
        return self.cluster_id or new_cluster_id(self.random_bytes)


class Topics:
    """The topics of a server.

    The constructor reads the catalog, which may take some milliseconds and needs no event loop.
    Raises StorageError and OSError.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        world: TopicsWorld | None = None,
        turns: Turns | None = None,
    ) -> None:
        world, turns = world or TopicsWorld(), turns or Turns()
        self.settings = settings
        self.wall_ms = world.wall_ms
        self.failed = world.failed
        self.effective = EffectiveConfigs(settings)
        self.worker = world.worker
        self._writes, self._reads = world.new_file_jobs(), world.new_file_jobs()
        self.appender = Appender(self._writes)
        self._files = OpenFiles(world.files, world.open_files_most)
        self.catalog = self._catalog_of(store, world, turns)
        folders = TopicFolders(
            self._files, store.data_dir, world.repaired, self.effective.policy, world.folders
        )
        self.partitions = self._partitions_of(folders, world, turns)
        self.partitions.before_opening += [self._writes.reserve, self._reads.reserve]
        self.record_deletion = RecordDeletion(self.partitions, folders, world.worker, world.failed)
        parts = self.catalog, self.partitions, self.record_deletion, turns
        self.retention = Retention(*parts, self._retention_limits, world.retention)
        self.response_tasks = ResponseTasks(world.failed, turns)
        """Responses that come after their handler has returned."""
        self.admin = TopicAdmin(
            self.catalog, self.partitions, world.wall_ms, world.random_bytes, world.failed, turns
        )
        self.topics_deleted: list[TopicsDeleted] = self.admin.topics_deleted
        """Called on the event loop with the names of deleted topics, and awaited before the client
        is answered; called again after a crash, when it is unknown whether the last call completed.
        """
        self.pending_offset_deletions = PendingOffsetDeletions(self.catalog, turns, world.wall_ms)
        """Offsets to delete in partitions of the group topic that could not be loaded."""
        self.reader = FetchReader(
            self.partitions, settings.fetch_max_bytes, world.failed, self._reads
        )
        self.log_opener = LogOpener(self.partitions, self.response_tasks)
        self.positions = self._positions_of(folders, world, turns)
        self.batch_reader = BatchReader(world.worker, turns)
        self.lookup = TimeLookup(self.batch_reader, self._reads)
        self.waiting_fetches: dict[Any, None] = {}
        self.before_close: list[Callable[[], Awaitable[None]]] = []
        """Awaited before the files are closed."""
        self.catalog.load(world.wall_ms(), world.new_cluster_id)

    def _catalog_of(self, store: Store, world: TopicsWorld, turns: Turns) -> Catalog:
        limits = Limits(segment_bytes=SEGMENT_BYTES)
        must_exist = store.was_used
        folders = CatalogFolders(
            world.files, store.data_dir, limits, world.repaired, must_exist=must_exist
        )
        partitions = self.settings.offsets_topic_num_partitions
        return Catalog(folders.open, partitions, world.worker, turns)

    def _partitions_of(
        self, folders: TopicFolders, world: TopicsWorld, turns: Turns
    ) -> TopicPartitions:
        expiration_ms = self.settings.producer_id_expiration_ms
        producers = ProducerMemory(expiration_ms, world.wall_ms, world.failed)
        return TopicPartitions(self.catalog, folders, world.worker, turns, world.failed, producers)

    def _positions_of(
        self, folders: TopicFolders, world: TopicsWorld, turns: Turns
    ) -> LogPositions:
        parts = self.catalog, self.partitions, folders
        return LogPositions(*parts, world.worker, turns, world.failed)

    def _retention_limits(self, topic: Topic) -> RetentionLimits | None:
        policy = self.effective.policy(topic)
        if not policy.expires:
            return None
        ages = policy.retention_ms, policy.retention_bytes, policy.limits.server_times
        return RetentionLimits(self.wall_ms(), *ages)

    def start_retention(self, clock: Clock) -> None:
        """Delete old segments from now on, first after an interval of the clock."""
        interval_ms = self.settings.log_retention_check_interval_ms
        event_bytes = self.settings.group_events_retention_total_bytes
        self.retention.start(clock, interval_ms, event_bytes=event_bytes)

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    def partition_count(self, topic: str) -> int | None:
        return self.catalog.counts.get(topic)

    def snapshot(self) -> dict[str, int]:
        """Return current sizes, and counts since the start, by the names of the metrics."""
        counts = self.catalog.counts
        return {
            "topics": len(counts) - len(RESERVED),
            "topic_partitions": sum(counts.values()) - sum(counts[name] for name in RESERVED),
            "topic_logs_open": self.partitions.opened(),
            "topic_files_open": len(self._files),
            "fetches_waiting": len(self.waiting_fetches),
            "topic_segments_deleted": self.retention.segments_deleted,
            "topic_log_open_failures": self.partitions.unopened.failures,
            "topic_log_write_failures": self.partitions.unwritten.failures,
        }

    async def close(self) -> None:
        await self.drain()
        await self.close_logs()

    async def drain(self) -> None:
        """Answer the current requests, and end all background work."""
        await self.retention.close()
        for close in self.before_close:
            await close()
        await self.response_tasks.finish()
        await self.admin.close()

    async def close_logs(self, at_once: AtOnce = one_after_another) -> None:
        """After `drain`, sync and close all logs, in parallel if `at_once` can."""
        await self._writes.close()
        await self._reads.close()
        both = lambda: self.partitions.close(at_once), self.catalog.close
        try:
            for error in filter(None, await self.worker(lambda: at_once(both))):
                raise error
        finally:
            self.worker.close()


def new_cluster_id(random_bytes: Callable[[int], bytes]) -> str:
    """Return a random UUID, as in Kafka: 22 URL-safe characters that do not look like an option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id
