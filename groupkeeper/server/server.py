"""Assembles the server: store, writer, partitions, topics, handlers, Kafka port.

It has no behaviour of its own. Everything that comes from outside is in `World`, so that a
simulation runs the same server in memory, under virtual time.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any

from groupkeeper.apis.table import Dependencies, handlers, long_answers, run_of_produce
from groupkeeper.clock import Clock
from groupkeeper.connections.budget import limits_of
from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection_table import ConnectionTable
from groupkeeper.connections.listener import Listener
from groupkeeper.connections.steady import Driver
from groupkeeper.coordinator.member_bytes import Total
from groupkeeper.exchange import Handler
from groupkeeper.groups.embedded_log import EmbeddedLogs, LogServices
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.event_room import EventLimits
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.groups.late_offset_deleter import LateOffsetDeleter
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.offset_deleter import OffsetDeleter
from groupkeeper.groups.reply_queue import ReplyQueue
from groupkeeper.groups.services import DriverServices, EventServices
from groupkeeper.groups.topic_check import Moment
from groupkeeper.groups.writer import Writer
from groupkeeper.node import Node
from groupkeeper.observe.fact_lines import CHANGE_KINDS, LINE_KINDS, AuditReader, write_line
from groupkeeper.observe.fact_readers import FactReaders
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.server.access import rights_of
from groupkeeper.server.cleaning import Cleaning, Compact, Threads
from groupkeeper.server.descriptors import limit_of_open_files, share
from groupkeeper.server.directory import Directory, DirectoryWatch, log_unknown_folders
from groupkeeper.server.group_config import group_config
from groupkeeper.server.retention_lines import RetentionLines, topics_failed
from groupkeeper.server.stopping import StopStage, complete_segments
from groupkeeper.server.sync_threads import sync_threads
from groupkeeper.server.tls import ListenersTls
from groupkeeper.server.unusable import listening_at
from groupkeeper.settings.options import Address, ServeOptions
from groupkeeper.storage.errors import AppendFailed, Locked
from groupkeeper.storage.files.at_once import AtOnce, one_after_another
from groupkeeper.storage.files.files import Files
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC
from groupkeeper.topics.partitions import InternalLogs
from groupkeeper.topics.topics import Topics, TopicsWorld, wall_ms
from groupkeeper.turns import PacedTurns, Turns

if TYPE_CHECKING:
    from groupkeeper.groups.lag import GroupLags
    from groupkeeper.groups.sight import ScrapeLook
    from groupkeeper.observe.group_rows import Sight
    from groupkeeper.web.parts import Parts

_log = Logger("server")


Around = Callable[[Mapping[int, Handler]], Mapping[int, Handler]]
"""Maps the handlers of APIs, by key, to others that are called instead."""


def _uuid_member_id(prefix: str) -> str:
    """Return `<prefix>-<uuid>`, as in Kafka."""
    return f"{prefix}-{uuid.uuid4()}"


def _thread(name: str) -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix=name)


@dataclass(slots=True)
class World:
    """External dependencies of the server; a simulation has its own."""

    files: Files = field(default_factory=Files)
    clock: Callable[[asyncio.AbstractEventLoop], Clock] = Clock
    new_member_id: Callable[[str], str] = _uuid_member_id
    executor: Callable[[str], Executor] = _thread
    """Creates an executor with one thread of this name."""
    topics: TopicsWorld | None = None
    compact: Compact | None = None
    """Runs a compaction. None: in a separate process."""
    wall_ms: Callable[[], int] = wall_ms
    """Unix time for topics; groups use the clock's."""
    cluster_id: str = ""
    """Cluster id of new data; empty: a random one."""
    at_once: AtOnce = one_after_another
    """Closes the logs."""
    around: Around | None = None
    """Wraps the handlers of all APIs. Heartbeats then take no fast path."""


class Server:
    """The server of one process, from locks to ports."""

    def __init__(self, options: ServeOptions, world: World | None = None) -> None:
        """Take the lock, read the catalog. Raises StorageError (Locked), OSError, SettingsError."""
        self._options = options
        self.metrics = Metrics()
        self.tls = ListenersTls(options.listeners, options.settings, self.metrics)
        self._world = world or World(at_once=sync_threads)
        self.stage = StopStage()
        self._directory = Directory(self._world.files, options)
        self.store = self._directory.store
        self._settings = settings = self._directory.settings
        # First, and all at once: without all of them the server must not touch anything else.
        self._epochs = self._claim(settings.offsets_topic_num_partitions)
        self._advertised: dict[str, Address] = {}
        self.bound: dict[str, Address] = {}
        """The bound address of each listener, by name."""
        self.turns = Turns()
        self.readers = FactReaders(self.turns, self.metrics.counts)
        self.readers.subscribe("metrics", self.metrics.observe)
        self.readers.subscribe("lines", write_line, LINE_KINDS)
        self.readers.subscribe("audit", AuditReader().read, CHANGE_KINDS)
        self._connections_most, topic_logs = share(
            limit_of_open_files(), settings.offsets_topic_num_partitions
        )
        topics = self._world.topics or TopicsWorld(
            files=self._world.files,
            failed=topics_failed,
            repaired=lambda what: _log.warning("topics: repaired", what=what),
            retention=RetentionLines(),
            folders=self.store.folders,
            open_files_most=topic_logs,
            wall_ms=self._world.wall_ms,
            cluster_id=self._world.cluster_id,
        )
        self._node = Node(options.node_id, self.address)
        self.topics = Topics(self.store, settings, topics, self.turns)
        catalog = self.topics.catalog
        catalog.raise_leader_epoch(self._directory.leader_epoch(catalog), topics.wall_ms())
        self._directory.write_format()
        self._rights = rights_of(settings, catalog.access, self.metrics.denied)

    def _claim(self, shards: int) -> list[int]:
        try:
            return [self.store.claim(shard) for shard in range(shards)]
        except Locked as error:
            self.store.close()
            where = self._options.data_dir
            raise Locked(f"{where} is in use: {error}; choose another --data-dir") from None

    async def _listen(self) -> None:
        for each in self._options.listeners:
            tls = self.tls.by_name.get(each.name)
            with listening_at(each.bind, "--listen"):
                bound = await self.listener.start(each.bind, each.name, tls)
            self.bound[each.name] = bound
            self._advertised[each.name] = each.advertised or bound
        self.tls.watch()

    def address(self, listener: str) -> Address:
        """Return the address for clients of a listener, in Metadata responses and the like."""
        return self._advertised[listener]

    @property
    def files(self) -> Files:
        return self._world.files

    def about(self) -> dict[str, Any]:
        """Return which server this is, for people and commands."""
        return {"cluster": self.topics.cluster_id, "node": self._options.node_id}

    async def start(self) -> None:
        """Open the port. Partitions with a log are loaded in the background. Raises OSError."""
        settings, loop = self._options.settings, asyncio.get_running_loop()
        self.clock = clock = self._world.clock(loop)
        self.failed: asyncio.Future[BaseException] = loop.create_future()
        """Done when the disk can no longer be trusted: the process has to end."""
        self._executor = self._world.executor("writer")
        self._loader = Loader(self._world.executor("loader"))
        self.store.write_back_on(self._loader.call_from_thread)
        self._writer = Writer(self.store, clock, self._executor, self.metrics.appends)
        services = DriverServices(
            clock=clock,
            loader=self._loader,
            metrics=self.metrics,
            config=group_config(settings),
            new_member_id=self._world.new_member_id,
            readers=self.readers,
            give_up=self._give_up,
            turns=self.turns,
            replies=ReplyQueue(self.turns),
            late_offset_deleter=LateOffsetDeleter(
                self.turns, clock, self.topics.pending_offset_deletions
            ),
            member_bytes=Total(),
            partition_counts=self.topics.catalog.counts,
            events=self._event_services(clock),
        )
        self.logs = self._logs_of(GROUP_TOPIC, self._epochs)
        self.event_logs = self._logs_of(EVENT_TOPIC, [None] * len(self._epochs))
        self.group_partitions = GroupPartitions(
            self.logs.by_partition, self.event_logs.by_partition, services
        )
        self._serve_metrics()
        deleter = OffsetDeleter(
            self.group_partitions, self.turns, self.topics.pending_offset_deletions
        )
        self.topics.topics_deleted.append(deleter)
        self.listener = self._listener(clock)
        await self._listen()
        self.group_partitions.start()
        self.topics.admin.finish_deletions()
        self.topics.start_retention(clock)
        self._watch = DirectoryWatch(self._writer, self._shard_lost, self._give_up)
        threads = Threads(
            self._writer, self._loader, self._world.executor("cleaner"), self._world.compact
        )
        parts = self._world.files, self.logs, self.topics
        self._cleaning = Cleaning(*parts, threads, self.metrics)
        self._cleaning.start()

    def _serve_metrics(self) -> None:
        self.metrics.snapshots = self.group_partitions.snapshots
        self.metrics.counted = self.group_partitions.counted
        self.metrics.topics = self.topics.snapshot
        self.metrics.look = self._look
        self.metrics.series_most = self._settings.metrics_max_series

    async def _look(self, first: Collection[str]) -> "Sight":
        return await self._scrape_look.look(first)

    # Created on first use, so that a start does not import them.

    @cached_property
    def lags(self) -> "GroupLags":
        from groupkeeper.groups.lag import GroupLags

        return GroupLags(self.group_partitions, self.topics, PacedTurns())

    @cached_property
    def _scrape_look(self) -> "ScrapeLook":
        from groupkeeper.groups.sight import ScrapeLook

        parts = self.group_partitions, self.topics, self.lags
        return ScrapeLook(self._options.node_id, *parts, PacedTurns(), self.clock)

    @property
    def personal(self) -> Personal:
        """The treatment of addresses and free text, in stored events and in live views."""
        assert self.store.format is not None, "written before"
        mode = self._options.settings.group_events_personal
        return Personal(mode, self.store.format.directory_id)

    def web_parts(self) -> "Parts":
        """Return the dependencies of the JSON API."""
        from groupkeeper.web.lag_history import LagHistory
        from groupkeeper.web.parts import Parts

        turns = PacedTurns()
        return Parts(
            options=self._options,
            groups=self.group_partitions,
            topics=self.topics,
            metrics=self.metrics,
            clock=self.clock,
            turns=turns,
            personal=self.personal,
            about=self.about,
            lags=self.lags,
            history=LagHistory(self.lags, turns, self.clock),
        )

    def _event_services(self, clock: Clock) -> EventServices:
        settings = self._settings
        return EventServices(
            clock=clock,
            metrics=self.metrics,
            give_up=self._give_up,
            enabled=settings.group_events_enabled,
            node_id=self._options.node_id,
            message_max_bytes=settings.message_max_bytes,
            personal=self.personal,
            limits=EventLimits(settings, clock, lambda: self.files.space(self.store.data_dir)[1]),
        )

    def _logs_of(self, topic: str, epochs: Sequence[int | None]) -> EmbeddedLogs:
        """Return the logs of an internal topic, which are served to clients as well."""
        policy = self.topics.effective.policy(self.topics.catalog.by_name[topic])
        grew = partial(self.topics.partitions.grew, topic)
        services = LogServices(self._writer, self._loader, grew, policy.limits)
        logs = EmbeddedLogs(services, topic, epochs)
        served = InternalLogs(logs.log_of, self._writer.call, logs.is_new)
        self.topics.partitions.internal[topic] = served
        return logs

    async def log_findings(self) -> None:
        """Log notable facts about the data directory, once clients are served: logging is slow."""
        self._directory.log_findings(self.topics.cluster_id)
        await log_unknown_folders(self.topics.partitions.unknown_folders())

    def _listener(self, clock: Clock) -> Listener:
        settings = self._options.settings
        shared = self._node, self._settings, self._rights
        parts = Dependencies(self.group_partitions, self.topics, *shared)
        limits = limits_of(settings)
        self.topics.reader.room = lambda: limits.unsent.room
        idle_ms = settings.connections_max_idle_ms
        connections = ConnectionTable(
            limits,
            self.metrics.connections,
            most=min(settings.max_connections, self._connections_most),
            most_per_host=settings.max_connections_per_ip,
            max_idle_s=idle_ms / 1000 if idle_ms >= 0 else inf,
        )
        routes: Mapping[int, Handler] = handlers(parts)
        if self._world.around is not None:
            routes = self._world.around(routes)
        for key in routes:
            self.metrics.requests[key]  # its series exist from the start
        services = ConnectionServices(
            routes=routes,
            long_answers=long_answers(),
            unknown_version=parts.api_versions.unknown_version,
            steady=self._steady,
            clock=clock,
            turns=self.turns,
            limits=limits,
            requests=self.metrics.requests,
            answer_errors=self.metrics.answer_errors,
            connections=connections,
            authorizer=self._rights.authorizer if self._rights else None,
        )
        if self._world.around is None:
            services.produce_run = run_of_produce(parts)
        if any(each.protocol.has_sasl for each in self._options.listeners):
            from groupkeeper.server.logins import logins_of

            world = self._world.executor, self.metrics.authentications
            services.logins = logins_of(self._options, self.topics, clock, *world)
        return Listener(services)

    async def stop(self) -> None:
        """Refuse new requests, finish current ones, close connections, release the locks.

        Raises AppendFailed, after all of that, if segments lack records that the journal has.
        `stage` has the current step.
        """
        stage = self.stage
        self.listener.stop()
        self.tls.stop()
        self._watch.stop()
        stage.name = "the running compaction"
        await self._cleaning.stop()
        stage.name = "the journal"
        self.group_partitions.stop()
        await self._writer.drain()
        self._writer.stop()
        self.group_partitions.close()
        self.readers.flush()
        stage.name = "requests about topics"
        await self.topics.drain()
        self.listener.close()
        await asyncio.sleep(0)  # transports close in the next iteration of the loop
        stage.name = "segments of logs that were not open"
        await self._writer.call(self.store.write_back_on, None)
        await self._loader.close()
        lacking = await complete_segments(self.store, self._writer.call, self.clock)
        try:
            stage.name = "segments"
            of_groups = self._writer.call(self.store.close_logs, self._world.at_once)
            await asyncio.gather(self.topics.close_logs(self._world.at_once), of_groups)
            stage.name = "the last journal"
        finally:
            try:
                await self._writer.call(self.store.close)
            finally:
                self._executor.shutdown()
        if lacking:
            raise AppendFailed(lacking)

    # -- callbacks of the parts ----------------------------------------------------------------

    def _steady(self, group_id: str) -> tuple[Driver, Moment] | None:
        if self._world.around is not None:  # its handlers have to see every request
            return None
        partitions = self.group_partitions
        return partitions.of(group_id), partitions.deleted_topics.now()

    def _shard_lost(self, shard: int) -> None:
        """Notify the event log first: it must not be written to after the shard is claimed."""
        self.event_logs.lost(shard)
        self.logs.lost(shard)

    def _give_up(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
