"""A test broker on its event loop: what outlives its restarts, and what is done with it there.

`Broker` and `AsyncBroker` are two ways to call it from other threads.
"""

import base64
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from groupkeeper.observe.log_writer import Line
from groupkeeper.server.server import Server
from groupkeeper.settings.options import MEMORY, PLAINTEXT, Listen, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.files import Files
from groupkeeper.storage.memory_files import MemoryFiles
from groupkeeper.testing.clock import Time
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.history import History
from groupkeeper.testing.running import RunningServer, Surroundings
from groupkeeper.testing.seeding import Seeding
from groupkeeper.testing.tap import Tap
from groupkeeper.testing.transcript import Transcript
from groupkeeper.testing.views import Round, look, rounds_of, timeline, timeline_now
from groupkeeper.testing.waiting import LogEnds, Waits
from groupkeeper.why.rounds import SessionLimits

T = TypeVar("T")

HOST: Final = "127.0.0.1"
LINES: Final = 2_000
"""Log lines that are kept."""
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions=1"
"""So that a start is short; the setting can be given."""


class Bench:
    """One test broker."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Path | None = None,
    ) -> None:
        """Raises SettingsError. Nothing runs yet."""
        given = (f"{key}={_text(value)}" for key, value in (settings or {}).items())
        self._settings, _ = load(None, {}, (OFFSETS_PARTITIONS, *given), dev=True)
        self._topics = dict(topics or {})
        self._data = data
        self.time = Time()
        self.lines: deque[Line] = deque(maxlen=LINES)
        self.waits = Waits(self)
        limits = (
            self._settings.group_min_session_timeout_ms,
            self._settings.group_max_session_timeout_ms,
        )
        self.history = History(self.waits.wake, SessionLimits(*limits))
        self.transcript = Transcript(self.time.wall)
        self.tap = Tap(self.transcript, LogEnds(self.waits.wake_for_lag))
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode()[:22]
        self._files: Files = self._new_files()
        self._port = 0
        self._running: RunningServer | None = None
        self.seeding = Seeding(self)

    def _new_files(self) -> Files:
        return MemoryFiles(self.time.wall) if self._data is None else Files()

    # -- its life ------------------------------------------------------------------------------

    @property
    def running(self) -> RunningServer:
        """The server's present life. Raises BrokerDown."""
        if self._running is None:
            raise BrokerDown("the broker does not run: start() or restart() starts it")
        return self._running

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._running is not None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's loop, and wait for it. Raises BrokerDown, also if the
        broker ends before. Any: asyncio's.
        """
        return self.running.result(work())

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it on the server's loop soon, unless none runs."""
        if self._running is not None:
            self._running.soon(callback)

    @property
    def server(self) -> Server:
        """To be used on its loop. Raises BrokerDown."""
        return self.running.server

    def start(self) -> None:
        """Start, on the files that are there. Raises StorageError and OSError."""
        options = ServeOptions(
            self._data or MEMORY,
            listeners=(Listen(bind=(HOST, self._port)),),
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
        _, self._port = running.server.address(PLAINTEXT)
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
        self.transcript.remark("the broker starts")
        self.history.begin_life()
        server.readers.subscribe("testing", self.history.read)

    def stop(self) -> None:
        """End; no error if it does not run. Files on a disk are complete, memory is forgotten."""
        running, self._running = self._running, None
        if running is not None:
            (running.kill if self._data is None else running.stop)()
            self.transcript.remark("the broker was stopped")

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
        self._files = self._new_files()
        self.lines.clear()
        self.seeding.clear()
        self.history.clear()
        self.transcript.clear()
        self.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; they stay the same from the first start on. Raises BrokerDown."""
        if not self._port:
            raise BrokerDown("the broker has no port before its first start")
        return HOST, self._port

    # -- groups --------------------------------------------------------------------------------

    def group_ids(self) -> list[str]:
        """The groups that exist now, sorted. Raises BrokerDown."""
        drivers = self.server.group_partitions
        return self.running.call(
            lambda: sorted(id_ for each in drivers for id_ in each.group_ids())
        )

    def rounds_of(self, group: str) -> tuple[tuple[Round, ...], int]:
        """Those that are kept, and how many have begun; also while no server runs."""
        if self._running is not None:
            now = self.run(lambda: look(self, group))
            return now.rounds, now.began
        return rounds_of(self.history, group)

    def timeline(self, group: str) -> str:
        """See `Broker.timeline`."""
        past = timeline(self.history, group) if self._running is None else ""
        return past or self.run(lambda: timeline_now(self, group))


def _text(value: Any) -> str:
    """As settings are written. Any: a setting's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
