"""A test broker on its event loop: what outlives its restarts, and what is done with it there.

`Broker` and `AsyncBroker` are two ways to call it from other threads.
"""

import base64
import secrets
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from groupkeeper.observe.log_writer import Line
from groupkeeper.server.server import Server
from groupkeeper.settings.options import MEMORY, ServeOptions, format_address
from groupkeeper.settings.table import load
from groupkeeper.storage.files import Files
from groupkeeper.storage.memory_files import MemoryFiles
from groupkeeper.testing.clock import Time
from groupkeeper.testing.cluster import Cluster
from groupkeeper.testing.cluster_layer import ClusterLayer
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.history import History
from groupkeeper.testing.lives import Lives
from groupkeeper.testing.presence import Presence
from groupkeeper.testing.running import RunningServer, Surroundings
from groupkeeper.testing.seeding import Seeding
from groupkeeper.testing.tap import Tap
from groupkeeper.testing.time_control import TimeControl, milliseconds
from groupkeeper.testing.views import Sights
from groupkeeper.testing.waiting import LogEnds, Waits
from groupkeeper.why.rounds import SessionLimits

T = TypeVar("T")

LINES: Final = 2_000
"""Log lines that are kept."""
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions={}"
"""One for each node, so that a start is short; the setting can be given."""


class Bench(Lives):
    """One test broker."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Path | None = None,
        brokers: int = 1,
    ) -> None:
        """Raises SettingsError and RequestFailed. Nothing runs yet."""
        super().__init__()
        self.cluster = Cluster(brokers)
        given = (f"{key}={_text(value)}" for key, value in (settings or {}).items())
        self._settings, _ = load(None, {}, (OFFSETS_PARTITIONS.format(brokers), *given), dev=True)
        self._topics = dict(topics or {})
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
        self.history = History(self.waits.wake, SessionLimits(*limits))
        ends = LogEnds(self.waits.wake_for_lag)
        self.tap = Tap(ends, *nodes, self.presence)
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode()[:22]
        self._files: Files = self._new_files()
        self.seeding = Seeding(self, self.waits.wake_for_lag)
        self.sights = Sights(self, self.history, self.seeding)

    def _new_files(self) -> Files:
        return MemoryFiles(self.time.wall) if self._data is None else Files()

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start, on the files that are there. Raises StorageError and OSError."""
        options = ServeOptions(
            self._data or MEMORY,
            listeners=self.cluster.listeners,
            http=None,
            dev=True,
            memory=self._data is None,
            settings=self._settings,
        )
        of = Surroundings(
            self._files,
            self.time,
            self.cluster_id,
            self.lines.append,
            self.tap.around,
            self._created,
        )
        self._running = running = RunningServer(options, of)
        self.cluster.started()
        self.cluster_id = running.server.topics.cluster_id
        if self._topics:
            try:
                running.result(self.seeding.create_topics(self._topics, {}, or_keep=True))
            except RequestFailed:
                self.stop()
                raise

        self.soon(lambda: self.waits.wake(None))

    def _created(self, server: Server) -> None:
        """Told about every server before it starts."""
        self.cluster.server = server
        self.time_control = TimeControl(self.time, self.presence, server)
        self.history.begin_life()
        server.readers.subscribe("testing", self.history.read)

    def stop(self) -> None:
        """End; no error if it does not run. Files on a disk are complete, memory is forgotten."""
        running, self._running = self._running, None
        if running is not None:
            (running.kill if self._data is None else running.stop)()

    def crash(self) -> None:
        """End at once, as by `kill -9`: see `RunningServer.kill`. Raises BrokerDown."""
        running = self.running
        self._running = None
        running.kill()

    def reset(self) -> None:
        """Begin anew with nothing but the topics of the start. Raises BrokerDown, RequestFailed."""
        if self._data is not None:
            raise RequestFailed("reset() empties brokers in memory, and this one has data=")
        self.crash()
        self._files = self._new_files()
        self.lines.clear()
        self.cluster.forget()
        self.seeding.clear()
        self.history.clear()
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        """The nodes that run. Raises BrokerDown before the first start."""
        cluster = self.cluster
        addresses = [cluster.address(node) for node in cluster.up]
        if not all(port for _, port in addresses):
            raise BrokerDown("the broker has no port before its first start")
        return ",".join(map(format_address, addresses))

    # -- time ----------------------------------------------------------------------------------

    def advance(
        self, seconds: float, silent: Collection[str], everyone: bool, timeout: float
    ) -> "Future[None]":
        """See `Broker.advance`."""
        ms = milliseconds(seconds)
        if self.is_up:
            work = self.time_control.advance(ms, silent, everyone, timeout)
            return self.running.later(work)
        if silent or everyone:
            raise BrokerDown("silent= and all= are about members, and the broker does not run")
        self.time.move_to(self.time.now() + ms)
        return _done()

    def freeze(self) -> "Future[None]":
        """See `Broker.freeze`."""
        if self.is_up:
            return self.running.later(self.time_control.freeze())
        self.time.freeze()
        return _done()

    def resume(self) -> "Future[None]":
        """See `Broker.resume`."""
        if self.is_up:
            return self.running.later(self.time_control.resume())
        self.time.resume()
        return _done()


def _done() -> "Future[None]":
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _text(value: Any) -> str:
    """As settings are written. Any: a setting's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
