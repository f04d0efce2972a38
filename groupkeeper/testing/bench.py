"""A test broker on its event loop: what outlives its restarts, and what is done with it there.

`Broker` and `AsyncBroker` are two ways to call it from other threads.
"""

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from warnings import warn

from groupkeeper.history.rounds import SessionLimits
from groupkeeper.observe.log_writer import Line
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.server.server import Server
from groupkeeper.settings.options import MEMORY, Listen, ServeOptions, format_address
from groupkeeper.settings.table import Settings, load
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.testing import arguments
from groupkeeper.testing.cluster.layer import ClusterLayer
from groupkeeper.testing.cluster.leadership import ANY_PORT, Cluster
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.faults.layer import Faults
from groupkeeper.testing.history import GroupHistories
from groupkeeper.testing.releases import AsRelease
from groupkeeper.testing.running import RunningServer
from groupkeeper.testing.seeding import Seeding
from groupkeeper.testing.time.clock import Time
from groupkeeper.testing.time.control import TimeControl
from groupkeeper.testing.time.presence import Presence
from groupkeeper.testing.views import Sights
from groupkeeper.testing.waiting import LogEnds, Waits
from groupkeeper.testing.wire.tap import Tap
from groupkeeper.testing.wire.transcript import Transcript

T = TypeVar("T")

LOAD_AGAIN_S: Final = 2.0
"""How long the removal of a rule waits for groups to be loaded; if a log is damaged, they never
are."""
LOOK_AGAIN_S: Final = 0.01
"""How often it looks meanwhile whether they are, and lets them be loaded."""
LINES: Final = 2_000
"""Log lines that are kept."""
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions={}"
"""One for each node, so that a start is short; the setting can be given."""
_METADATA_VERSION: Final = 12


class Bench:
    """One test broker."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        data: Path | None = None,
        brokers: int = 1,
        as_version: str | None = None,
        listeners: Sequence[Listen] = (ANY_PORT,),
    ) -> None:
        """`listeners`: see `Cluster`. Raises SettingsError, RequestFailed and WrongArgument.
        Nothing runs yet.
        """
        self._running: RunningServer | None = None
        self._starting: RunningServer | None = None
        self.cluster = Cluster(brokers, listeners)
        self._settings = settings if isinstance(settings, Settings) else _read(settings, brokers)
        self._topics = arguments.topics({} if topics is None else topics)
        self._data = data
        self.time = Time()
        self.lines: deque[Line] = deque(maxlen=LINES)
        self.presence = Presence()
        nodes = [ClusterLayer(self.cluster)] if brokers > 1 else []
        self.waits = Waits(self)
        limits = (
            self._settings.group_min_session_timeout_ms,
            self._settings.group_max_session_timeout_ms,
        )
        self.history = GroupHistories(self.waits.wake, SessionLimits(*limits))
        self.transcript = Transcript(self.time.wall)
        ends = LogEnds(self.waits.wake_for_lag)
        self.faults = Faults(self)
        self.disk_full: tuple[Callable[[], None], ...] = ()
        """Told about calls that fail because the disk is full; empty: it is not."""
        release = () if as_version is None else (AsRelease(as_version),)
        around = self.transcript, *release, self.faults, ends
        self.tap = Tap(*around, *nodes, self.presence)
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode()[:22]
        self.files: Files = self._new_files()
        self.seeding = Seeding(self)
        self.time_control = TimeControl(self)
        self.sights = Sights(self)

    def _new_files(self) -> Files:
        return MemoryFiles(self.time.wall) if self._data is None else Files()

    # -- its life ------------------------------------------------------------------------------

    @property
    def running(self) -> RunningServer:
        """The server's present life. Raises BrokerDown."""
        if self._running is None:
            raise BrokerDown("the broker does not run: start() or restart() starts it")
        if self._running.has_died:
            raise BrokerDown("a fault rule has crashed the broker: restart() starts it again")
        return self._running

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._running is not None and not self._running.has_died

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's loop, and wait for it. Raises BrokerDown, also if the
        broker ends before. Any: asyncio's.
        """
        return self.running.result(work())

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it on the server's loop soon, unless none runs."""
        if self._running is not None:
            self._running.soon(callback)

    def forsake(self) -> None:
        """Nobody can stop it any more: end it soon, and warn. For `weakref.finalize`."""
        if self.is_up and self.running.forsake():
            warn(
                "a test broker was not stopped: use it in a with statement, or call stop()",
                ResourceWarning,
                stacklevel=2,
            )

    @property
    def server(self) -> Server:
        """To be used on its loop. Raises BrokerDown."""
        return self.running.server

    def start(self) -> None:
        """Start, on the files that are there. Raises StorageError, OSError, and RequestFailed if it
        runs.
        """
        if self.is_up:
            raise RequestFailed("the broker runs already: restart() ends it first")
        self._bury()
        self._starting = running = RunningServer(self)
        try:
            running.start()
        finally:
            self._starting = None
        self._running = running
        self.cluster.started()
        self.cluster_id = running.server.topics.cluster_id
        if self._topics:
            try:
                running.result(self.seeding.create_topics(self._topics, {}, or_keep=True))
            except RequestFailed:
                self.stop()
                raise
        self.soon(lambda: self.waits.wake(None))

    def options(self) -> ServeOptions:
        """Of the next life."""
        return ServeOptions(
            self._data or MEMORY,
            listeners=tuple(self.cluster.listeners),
            http=None,
            dev=True,
            memory=self._data is None,
            settings=self._settings,
        )

    def keep(self, line: Line) -> None:
        """Take a line of the log. Any thread may call."""
        self.lines.append(line)

    def created(self, server: Server) -> None:
        """Told about every server before it starts."""
        self.transcript.remark("the broker starts")
        self.cluster.server = server
        self.time_control.created(server)
        self.history.begin_life()
        server.readers.subscribe("testing", self.history.read)

    def stop(self) -> None:
        """End; no error if it does not run. Files on a disk are complete, memory is forgotten."""
        self._bury()
        running, self._running = self._running, None
        if running is not None:
            (running.kill if self._data is None else running.stop)()
            self.transcript.remark("the broker was stopped")

    def _bury(self) -> None:
        """Wait until a server that a fault has crashed is gone."""
        if self._running is not None and self._running.has_died:
            self._running.kill()
            self._running = None

    def crash_here(self) -> None:
        """As `crash`, on the server's loop, for a fault."""
        running = self._running or self._starting
        if running is not None:  # else `crash` is on its way
            self.transcript.remark("a fault crashes the broker")
            running.die()

    def crash(self) -> None:
        """End at once, as by `kill -9`: see `RunningServer.kill`. Raises BrokerDown."""
        running = self.running
        self._running = None
        running.kill()
        self.transcript.remark("the broker crashed")

    def reset(self) -> None:
        """Begin anew with nothing but the topics of the start. Raises BrokerDown, RequestFailed."""
        if self._data is not None:
            raise RequestFailed("reset() empties brokers in memory, and this one has data=")
        self.crash()
        self.time.reset()
        self.files = self._new_files()
        self.lines.clear()
        self.faults.clear()
        self.cluster.forget()
        self.seeding.clear()
        self.history.clear()
        self.transcript.clear()
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        """The nodes that run. Raises BrokerDown before the first start."""
        cluster = self.cluster
        addresses = [cluster.address(node) for node in cluster.up]
        if not all(port for _, port in addresses):
            raise BrokerDown("the broker has no port before its first start")
        return ",".join(map(format_address, addresses))

    def time_of(self, timestamp_ms: int | None) -> int:
        """Of a record, in Unix milliseconds: the one that is given, or now."""
        if timestamp_ms is None:
            return self.time.wall()
        return arguments.whole(timestamp_ms, "timestamp_ms=", 0, arguments.LONGEST)

    # -- for faults ----------------------------------------------------------------------------

    @property
    def topics_by_id(self) -> Mapping[bytes, Any]:
        """Have names; also while the server starts. Any: topics of the server."""
        return self.cluster.server.topics.catalog.by_id

    def disk_has_room(self) -> None:
        """Load the groups again that a full disk has closed; waits until they are loaded, for
        `LOAD_AGAIN_S` at most. Not on the broker's loop.
        """
        if self.is_up:
            with suppress(BrokerDown):  # it ends meanwhile
                self.run(self._load_again)

    async def _load_again(self) -> None:
        partitions = self.server.group_partitions
        for _ in range(int(LOAD_AGAIN_S / LOOK_AGAIN_S)):
            if not any(driver.absence for driver in partitions):
                return
            partitions.load_now()  # one that was loaded meanwhile may have failed just now
            await asyncio.sleep(LOOK_AGAIN_S)

    def described_topics(self) -> list[Any]:
        """All topics as a Metadata response has them now; not on the broker's loop. Raises
        BrokerDown. Any: their rows.
        """
        asked = MetadataRequest(topics=None)
        return list(
            self.run(
                lambda: self.tap.ask(ApiKey.METADATA, _METADATA_VERSION, asked, behind=self.faults)
            ).topics
        )


def _read(settings: Mapping[str, Any] | None, brokers: int) -> Settings:
    """Raises SettingsError. Any: values of settings."""
    if not isinstance(settings, Mapping | None):
        raise TypeError(f"settings= is a dict of Kafka's names and values, not {settings!r}")
    given = (f"{key}={_text(value)}" for key, value in (settings or {}).items())
    found, _ = load(None, {}, (OFFSETS_PARTITIONS.format(brokers), *given), dev=True)
    return found


def _text(value: Any) -> str:
    """As settings are written. Any: a setting's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
