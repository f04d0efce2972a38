"""The test broker behind `Broker` and `AsyncBroker`, with all state that survives its restarts.

`RunningServer` is the server between one start and the next stop or crash.
"""

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from groupkeeper.coordinator.caller import Peer
from groupkeeper.history.rounds import SessionLimits
from groupkeeper.observe.log_writer import Line
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.server.server import Server
from groupkeeper.settings.options import MEMORY, ServeOptions, format_address
from groupkeeper.settings.table import Settings, load
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.testing import arguments
from groupkeeper.testing.client_settings import BrokerEndpoint, endpoint_of
from groupkeeper.testing.cluster.layer import ClusterLayer
from groupkeeper.testing.cluster.leadership import Cluster
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.faults.layer import Faults
from groupkeeper.testing.history import GroupHistories
from groupkeeper.testing.releases import AsRelease
from groupkeeper.testing.running import RunningServer
from groupkeeper.testing.security import SUPER_USER, BrokerSecurity, store, with_super_user
from groupkeeper.testing.seeding import Seeding
from groupkeeper.testing.time.clock import Time
from groupkeeper.testing.time.control import TimeControl
from groupkeeper.testing.time.presence import Presence
from groupkeeper.testing.views import Sights
from groupkeeper.testing.waiting import Waits
from groupkeeper.testing.wire.tap import HOST, INSIDE, Tap
from groupkeeper.testing.wire.transcript import Transcript

T = TypeVar("T")

LOAD_AGAIN_S: Final = 2.0
"""Maximum time that removing a `disk_full` rule waits for groups to load; with a damaged log they
never do."""
LOOK_AGAIN_S: Final = 0.01
"""Interval at which loading is checked and retried during that time."""
LINES: Final = 2_000
"""Maximum number of log lines kept."""
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions={}"
"""Default: one partition per node, for a fast start. A test's settings override it."""
_METADATA_VERSION: Final = 12
NO_SECURITY: Final = BrokerSecurity()


class Bench:
    """A test broker, running or not."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        data: Path | None = None,
        brokers: int = 1,
        as_version: str | None = None,
        security: BrokerSecurity = NO_SECURITY,
    ) -> None:
        """Prepare a broker without starting it. Raises SettingsError, RequestFailed and
        WrongArgument.
        """
        self._running: RunningServer | None = None
        self._starting: RunningServer | None = None
        self.cluster = Cluster(brokers, security.listeners)
        self._security = security
        self._credentials = security.credentials()
        if not isinstance(settings, Settings):
            settings = _read(settings, brokers, security)
        self._settings = with_super_user(settings)
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
        self.faults = Faults(self)
        self.disk_full: tuple[Callable[[], None], ...] = ()
        """Called for each operation that fails with ENOSPC; empty while the disk has space."""
        release = () if as_version is None else (AsRelease(as_version),)
        layers = self.transcript, *release, self.faults, *nodes, self.presence
        self.tap = Tap(self.inside, *layers)
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode()[:22]
        self.files: Files = self._new_files()
        self.seeding = Seeding(self)
        self.time_control = TimeControl(self)
        self.sights = Sights(self)

    def _new_files(self) -> Files:
        return MemoryFiles(self.time.wall) if self._data is None else Files()

    # -- start and stop ------------------------------------------------------------------------

    @property
    def running(self) -> RunningServer:
        """The running server. Raises BrokerDown if there is none."""
        if self._running is None:
            raise BrokerDown("the broker is not running: start() or restart() starts it")
        if self._running.has_died:
            raise BrokerDown("a fault rule has crashed the broker: restart() starts it again")
        return self._running

    @property
    def is_up(self) -> bool:
        """Whether the broker is running."""
        return self._running is not None and not self._running.has_died

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's loop and return its result. Raises BrokerDown if the
        broker is not running, or ends first. Any: as in `Coroutine`'s own definition.
        """
        return self.running.result(work())

    def soon(self, callback: Callable[[], None]) -> None:
        """Schedule a callback on the server's loop; does nothing while no server runs."""
        if self._running is not None:
            self._running.soon(callback)

    @property
    def server(self) -> Server:
        """The running server, for use on its own loop. Raises BrokerDown."""
        return self.running.server

    def start(self) -> None:
        """Start a server on the existing files. Raises StorageError, OSError, and RequestFailed if
        the broker is running.
        """
        if self.is_up:
            raise RequestFailed("the broker is already running: restart() ends it first")
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
                running.result(self.seeding.create_topics(self._topics, {}, at_start=True))
            except RequestFailed:
                self.stop()
                raise
        self.soon(lambda: self.waits.wake(None))

    def options(self) -> ServeOptions:
        """Return the options of the next server."""
        return ServeOptions(
            self._data or MEMORY,
            listeners=tuple(self.cluster.listeners),
            http=None,
            dev=True,
            memory=self._data is None,
            settings=self._settings,
        )

    def keep(self, line: Line) -> None:
        """Store a line of the log. Thread-safe."""
        self.lines.append(line)

    def created(self, server: Server) -> None:
        """Connect a new server to the broker's clock, cluster and history, before it starts."""
        self.transcript.remark("the broker starts")
        self.cluster.server = server
        self.time_control.created(server)
        self.history.begin_life()
        server.readers.subscribe("testing", self.history.read)

    async def prepare(self, server: Server) -> None:
        """Store the users before a client can connect. Raises StorageError."""
        await store(server.topics, self._credentials)

    def stop(self) -> None:
        """Stop if running: cleanly with a data directory, else by killing the server."""
        self._bury()
        running, self._running = self._running, None
        if running is not None:
            (running.kill if self._data is None else running.stop)()
            self.transcript.remark("the broker was stopped")

    def _bury(self) -> None:
        """Wait until a server crashed by a fault rule has ended."""
        if self._running is not None and self._running.has_died:
            self._running.kill()
            self._running = None

    def crash_here(self) -> None:
        """Crash from the server's own loop, for a fault rule."""
        running = self._running or self._starting
        if running is not None:  # else `crash` is already in progress
            self.transcript.remark("a fault crashes the broker")
            running.die()

    def crash(self) -> None:
        """Crash as by `kill -9`; see `RunningServer.kill`. Raises BrokerDown."""
        running = self.running
        self._running = None
        running.kill()
        self.transcript.remark("the broker crashed")

    def reset(self) -> None:
        """Restart empty, with only the initial topics. Raises BrokerDown, RequestFailed."""
        if self._data is not None:
            raise RequestFailed("reset() is only for brokers in memory, and this one has data=")
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

    def inside(self, host: str = HOST) -> Peer:
        """Return the sender of a request of the test itself."""
        return Peer(
            client_id=INSIDE,
            host=host,
            listener=self.cluster.listeners[0].name,
            principal=SUPER_USER if self._settings.authorizer_class_name else "",
        )

    def endpoint(self, user: str | None) -> BrokerEndpoint:
        """Return what a client needs to connect as this user. Raises BrokerDown before the first
        start, and WrongArgument.
        """
        return endpoint_of(self.bootstrap_servers, self._security, self._settings, user)

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        cluster = self.cluster
        addresses = [cluster.address(node) for node in cluster.up]
        if not all(port for _, port in addresses):
            raise BrokerDown("the broker has no port before its first start")
        return ",".join(map(format_address, addresses))

    def time_of(self, timestamp_ms: int | None) -> int:
        """Return a record's timestamp in Unix milliseconds: the given one, or the present time."""
        if timestamp_ms is None:
            return self.time.wall()
        return arguments.whole(timestamp_ms, "timestamp_ms=", 0, arguments.LONGEST)

    # -- for faults ----------------------------------------------------------------------------

    @property
    def topics_by_id(self) -> Mapping[bytes, Any]:
        """The server's topics by topic id; available during startup. Any: `Topic`."""
        return self.cluster.server.topics.catalog.by_id

    def disk_has_room(self) -> None:
        """Reload groups whose log failed on a full disk; wait for them for up to `LOAD_AGAIN_S`.
        Not for the broker's loop.
        """
        if self.is_up:
            with suppress(BrokerDown):  # it ended in the meantime
                self.run(self._load_again)

    async def _load_again(self) -> None:
        partitions = self.server.group_partitions
        for _ in range(int(LOAD_AGAIN_S / LOOK_AGAIN_S)):
            if not any(driver.absence for driver in partitions):
                return
            partitions.load_now()  # a partition may have failed again since the last attempt
            await asyncio.sleep(LOOK_AGAIN_S)

    def described_topics(self) -> list[Any]:
        """Return the topic rows of a Metadata response for all topics. Not for the broker's loop.
        Raises BrokerDown. Any: the rows differ by version.
        """
        asked = MetadataRequest(topics=None)
        return list(
            self.run(
                lambda: self.tap.ask(ApiKey.METADATA, _METADATA_VERSION, asked, behind=self.faults)
            ).topics
        )


def _read(settings: Mapping[str, Any] | None, brokers: int, security: BrokerSecurity) -> Settings:
    """Parse the settings of a test. Raises SettingsError, TypeError and WrongArgument. Any: values
    of settings.
    """
    if not isinstance(settings, Mapping | None):
        raise TypeError(f"settings= is a dict with Kafka's setting names, not {settings!r}")
    security.check(settings or {})
    given = (f"{key}={_text(value)}" for key, value in (settings or {}).items())
    defaults = OFFSETS_PARTITIONS.format(brokers), *security.defaults
    found, _ = load(None, {}, (*defaults, *given), dev=True)
    return found


def _text(value: Any) -> str:
    """Return a setting's value as text. Any: a value of any type."""
    return str(value).lower() if isinstance(value, bool) else str(value)
