"""An observer of a Kafka cluster, from its first look at the topic to its end.

The thread `watch` folds and stores what is read; the event loop reads from the cluster, and serves
the HTTP port. Nothing is written to the cluster.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from groupkeeper.client import Client
from groupkeeper.client.partitions import EARLIEST, list_offsets
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.lag import GroupLags
from groupkeeper.groups.sight import ScrapeLook
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.server.retention_lines import RetentionLines, topics_failed
from groupkeeper.server.tls import ListenersTls
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import Settings
from groupkeeper.storage.errors import LockLost
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.store import Store
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC
from groupkeeper.topics.partitions import InternalLogs
from groupkeeper.topics.topics import Topics, TopicsWorld
from groupkeeper.turns import PacedTurns
from groupkeeper.watch.asking import Asker
from groupkeeper.watch.cluster_asking import ClusterAsker
from groupkeeper.watch.ends import LogEnds
from groupkeeper.watch.options import ObserveOptions, ObserverWorld
from groupkeeper.watch.partition import FoldStep, PartitionWatch
from groupkeeper.watch.report import AskCounts, Report, answered, numbers
from groupkeeper.watch.store import WatchStore
from groupkeeper.watch.tail import RECREATED, Tail
from groupkeeper.watch.topic import UNTOLD_ID, TopicSeen, is_other
from groupkeeper.watch.views import WRITTEN, WatchedGroup, WatchedGroups, counts_of, view_of

if TYPE_CHECKING:
    from groupkeeper.web.parts import Parts

CHECKPOINT_S: Final = 30.0
"""Interval of checkpoints: after a crash, what was read since the last one is read again."""
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""Bytes read of a partition after which a checkpoint comes earlier."""
CARE_S: Final = 1.0
"""Interval at which due checkpoints and the locks are looked at."""
STOP_S: Final = 0.5
"""Time for checkpoints at the end; what they lack is read again at the next start."""

VIEWS_IN_A_SLICE: Final = 200
"""Groups whose views are replaced in one iteration of the event loop."""

T = TypeVar("T")
_log = Logger("observer")


class Taken(NamedTuple):
    """The result of a job with the fold of a partition."""

    position: int
    epoch: int
    """Leader epoch of the record before `position`; -1 if it is unknown."""
    views: list[tuple[str, WatchedGroup | None]]
    counts: Counter[tuple[str, ...]]
    """Counts of the stored events, by name and labels."""
    grown: int
    """Bytes by which the event log has grown."""


class Observer:
    """One observer. Call `start`, then `run`, then `stop`."""

    def __init__(
        self,
        client: Client,
        seen: TopicSeen,
        cluster: str,
        options: ObserveOptions,
        world: ObserverWorld | None = None,
    ) -> None:
        """Raises SettingsError: TLS of the HTTP port reads files."""
        self.metrics = Metrics()
        self._client, self._seen, self._cluster = client, seen, cluster
        self._world = world or ObserverWorld()
        self._settings = replace(options.settings, offsets_topic_num_partitions=seen.partitions)
        self.options = ServeOptions(
            options.data_dir,
            http=options.http,
            settings=self._settings,
            unused_keys=options.unused_keys,
        )
        self._bootstrap, self._is_asking = options.bootstrap, options.ask
        self.tls = ListenersTls((), self._settings, self.metrics)
        self._cluster_asker = ClusterAsker(client.apart(), is_on=options.ask)
        self.folds: list[PartitionWatch] = []
        self._positions: list[int] = []
        self._epochs = [-1] * seen.partitions
        self._locks = [asyncio.Lock() for _ in range(seen.partitions)]
        self._unsaved_bytes = [0] * seen.partitions
        self._loop = asyncio.get_running_loop()
        # Their first checkpoints are spread over the interval: all at once would take seconds.
        apart_s, now_s = CHECKPOINT_S / seen.partitions, self._loop.time()
        self._saved_s = [now_s - number * apart_s for number in range(seen.partitions)]
        self.clock = self._world.clock(self._loop)
        self.groups = WatchedGroups(seen.partitions, self.clock)
        self._executor = self._world.executor()

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the data directory. Raises StorageError, OSError and CallFailed."""
        store = self.watch_store = await self.call(self._open_store)
        self.topics = self._topics()
        policy = self.topics.effective.policy(self.topics.catalog.by_name[EVENT_TOPIC])
        store.event_limits = policy.limits
        mode = self._settings.group_events_personal
        store.personal = Personal(mode, store.directory_id)
        logs = InternalLogs(store.log_of, self.call, store.is_new)
        self.topics.partitions.internal[EVENT_TOPIC] = logs
        await self._cluster_asker.ask_all_names()
        for number in range(self._seen.partitions):
            fold, views = await self.call(self._open, number)
            self.folds.append(fold)
            self.groups.partitions[number].offsets = fold.offsets.groups
            self._positions.append(fold.position)
            for group_id, view in views:
                self.groups.partitions[number].set(group_id, view)
        self._report = Report(self.folds)
        await self._begin()
        self._serve_metrics()
        self.topics.start_retention(self.clock)
        self.tail = Tail(self._client, GROUP_TOPIC, self._seen, self)
        leaders, asking = (lambda: self.tail.leaders), self._client.apart()
        self.asker = Asker(asking, self.groups, leaders, self.clock, self.ends.idle)
        for fold in self.folds:
            fold.asked = self.asker.asked
        asked = AskCounts(self.asker.requests, self.ends, self._cluster_asker.requests)
        parts = self.folds, self.groups, self.watch_store, self.tail.stats, asked
        self.metrics.observer = partial(numbers, *parts)
        self.tls.watch()

    def _open_store(self) -> WatchStore:
        where = self._world.files, str(self.options.data_dir)
        return WatchStore(*where, self._seen.partitions, self._cluster, self.clock.wall)

    def _open(self, number: int) -> tuple[PartitionWatch, list[tuple[str, WatchedGroup | None]]]:
        fold = self.watch_store.open(number, self._cluster_asker.answers)
        return fold, [(name, view_of(name, group)) for name, group in fold.groups.items()]

    def _topics(self) -> Topics:
        world = self._world.topics or TopicsWorld(
            files=self._world.files,
            failed=topics_failed,
            repaired=lambda what: _log.warning("topics: repaired", what=what),
            retention=RetentionLines(),
            folders=self.watch_store.store.folders,
        )
        return Topics(self.watch_store.store, self._settings, world)

    async def _begin(self) -> None:
        """Begin at the start of the logs that were never read, and of those created anew."""
        known = {each.topic_id for each in self.folds} - {"", UNTOLD_ID}
        if self._seen.topic_id == UNTOLD_ID and known:  # the broker that answered is older
            self._seen = replace(self._seen, topic_id=min(known))
        new = [each.partition for each in self.folds if not each.has_begun]
        other = [
            each.partition
            for each in self.folds
            if each.has_begun and is_other(each.topic_id, self._seen.topic_id)
        ]
        places = [(GROUP_TOPIC, number) for number in (*new, *other)]
        starts = await list_offsets(self._client, places, EARLIEST) if places else {}
        for number in new:
            start = starts[GROUP_TOPIC, number] or 0
            await self.call(self.folds[number].begin, start, self._seen.topic_id)
            self._positions[number] = start
        self.identified(self._seen.topic_id)
        for number in other:
            start = starts[GROUP_TOPIC, number] or 0
            await self.lost(number, start, RECREATED, self._seen.topic_id)

    def _serve_metrics(self) -> None:
        groups, metrics, turns = self.groups, self.metrics, PacedTurns()
        metrics.snapshots, metrics.counted = groups.snapshots, groups.counted
        metrics.topics = self.topics.snapshot
        metrics.series_most = self._settings.metrics_max_series
        self.ends = LogEnds(self._client.apart(), groups.offsets, self.clock, turns)
        self._lags = GroupLags(groups, self.ends, turns)
        brokers = lambda: len(self._client.nodes)  # noqa: E731
        ends, lags = self.ends, self._lags
        look_at = ScrapeLook(0, groups, ends, lags, turns, self.clock, brokers, ends.replicas)
        metrics.look = look_at.look

    async def run(self) -> None:
        """Observe until cancelled. Raises TopicChanged, StorageError and OSError."""
        parts = [self._care(), self.tail.run()]
        if self._is_asking:
            parts += [self.asker.run(), self.ends.run(), self._cluster_asker.run()]
        tasks = [asyncio.create_task(each) for each in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Store the state and release the directory. Raises StorageError."""
        end = self._loop.time() + STOP_S
        for fold in self.folds:
            if fold.is_dirty and self._loop.time() < end:
                await self.call(self.watch_store.checkpoint, fold)
        await self.close()

    async def close(self) -> None:
        """Release the directory; the next start reads what was not stored."""
        self.tls.stop()
        try:
            await self.topics.drain()
            await self.topics.close_logs()
        finally:
            try:
                await self.call(self.watch_store.close)
            finally:
                self._executor.shutdown()

    def call(self, job: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Run a job on the thread that folds and stores."""
        return self._loop.run_in_executor(self._executor, job, *arguments)

    # -- what is read ----------------------------------------------------------------------------

    def position(self, partition: int) -> int:
        """Implements `Sink.position`."""
        return self._positions[partition]

    def epoch(self, partition: int) -> int:
        """Implements `Sink.epoch`."""
        return self._epochs[partition]

    async def take(self, partition: int, start: int, data: bytes, end: int) -> None:
        """Implements `Sink.take`. Raises StorageError and OSError, too."""
        received_ms = self.clock.now()
        async with self._locks[partition]:
            if start != self._positions[partition]:
                return
            if data:
                taken = await self.call(self._feed, self.folds[partition], data, end)
                await self._publish(partition, taken)
                if taken.position == start:
                    raise CorruptBatch(f"no batch is whole in {len(data)} bytes")
                self._unsaved_bytes[partition] += len(data)
                if self._unsaved_bytes[partition] >= CHECKPOINT_BYTES:
                    await self._save(partition)
            view = self.groups.partitions[partition]
            view.left = max(0, end - self._positions[partition])
            if not view.left:
                was_ready, view.is_ready = view.is_ready, True
                if self._is_asking and not was_ready:
                    await self.asker.began(view)
                self.folds[partition].reached_end()
                if data and was_ready:  # else its records are old, and show no difference of clocks
                    last_ms = self.folds[partition].last_ms
                    self.asker.received(partition, last_ms, received_ms)

    async def lost(self, partition: int, offset: int, why: str, topic_id: str) -> None:
        """Implements `Sink.lost`."""
        async with self._locks[partition]:
            fold = self.folds[partition]
            fold.topic_id = topic_id
            at_ms = self.clock.wall()
            taken = await self.call(self._lose, fold, offset, why, at_ms)
            await self._publish(partition, taken)

    def identified(self, topic_id: str) -> None:
        """Implements `Sink.identified`."""
        for each in self.folds:
            each.topic_id = topic_id

    def _feed(self, fold: PartitionWatch, data: bytes, end: int) -> Taken:
        return self._taken(fold, lambda: self.watch_store.feed(fold, data, end))

    def _lose(self, fold: PartitionWatch, offset: int, why: str, at_ms: int) -> Taken:
        return self._taken(fold, lambda: self.watch_store.lose(fold, offset, why, at_ms))

    def _taken(self, fold: PartitionWatch, job: Callable[[], FoldStep]) -> Taken:
        """Do a job with a fold. On the thread."""
        log = self.watch_store.log_of(fold.partition)
        before = 0 if log is None else log.uncompacted_size
        step = job()
        if step.events:
            self.watch_store.catch_up()
        log = self.watch_store.log_of(fold.partition)
        after = 0 if log is None else log.uncompacted_size
        views = [(name, view_of(name, fold.groups.get(name))) for name in step.changed]
        place = step.position, fold.reader.epoch
        return Taken(*place, views, counts_of(step.events), after - before)

    async def _publish(self, partition: int, taken: Taken) -> None:
        self._positions[partition], self._epochs[partition] = taken.position, taken.epoch
        view = self.groups.partitions[partition]
        for number, (group_id, one) in enumerate(taken.views, 1):
            view.set(group_id, one)
            if self._is_asking and view.is_ready:
                self.asker.changed(group_id)
            if not number % VIEWS_IN_A_SLICE:
                await asyncio.sleep(0)
        written = taken.counts.pop(WRITTEN, 0)
        if view.is_ready:  # else it is history
            self.metrics.counts.update(taken.counts)
        self.metrics.counts[WRITTEN] += written
        self._report.look(partition)
        if taken.grown:
            self.topics.partitions.grew(EVENT_TOPIC, partition, taken.grown)

    # -- care ------------------------------------------------------------------------------------

    async def _care(self) -> None:
        while True:
            await asyncio.sleep(CARE_S)
            if lost := await answered(self.call(self.watch_store.store.verify)):
                raise LockLost(f"the locks of shards {lost} were removed")
            now = self._loop.time()
            for number, fold in enumerate(self.folds):
                if now - self._saved_s[number] >= CHECKPOINT_S and fold.is_dirty:
                    async with self._locks[number]:
                        await self._save(number)

    async def _save(self, partition: int) -> None:
        await self.call(self.watch_store.checkpoint, self.folds[partition])
        self._unsaved_bytes[partition], self._saved_s[partition] = 0, self._loop.time()

    # -- the HTTP port ---------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The data directory."""
        return self.watch_store.store

    @property
    def files(self) -> Files:
        """The file system of the data directory."""
        return self._world.files

    @property
    def settings(self) -> Settings:
        """The settings of the data directory and of the HTTP port."""
        return self._settings

    @property
    def hosts(self) -> list[str]:
        """Names of the HTTP port."""
        return self.options.hosts

    def about(self) -> dict[str, Any]:
        """Return which cluster is observed, and what of it cannot be read."""
        about = {"cluster": self._cluster, "node": -1, "observes": self._bootstrap}
        return about | {"unread": self.tail.unread}

    def web_parts(self) -> "Parts":
        """Return the dependencies of the JSON API."""
        from groupkeeper.web.lag_history import LagHistory
        from groupkeeper.web.parts import Parts

        turns = PacedTurns()
        return Parts(
            options=self.options,
            groups=self.groups,
            topics=self.topics,
            metrics=self.metrics,
            clock=self.clock,
            turns=turns,
            personal=self.watch_store.personal,
            about=self.about,
            lags=self._lags,
            history=LagHistory(self._lags, turns, self.clock),
            inferred_cause=self.groups.inferred_cause,
            knows_lag=self._is_asking,
        )
