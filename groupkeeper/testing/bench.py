"""A test broker on its event loop: what outlives its restarts, and what is done with it there.

`Broker` and `AsyncBroker` are two ways to call it from other threads.
"""

import base64
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from groupkeeper.observe.log_writer import Line
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.server.server import Server
from groupkeeper.settings.options import MEMORY, PLAINTEXT, Listen, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.files import Files
from groupkeeper.storage.memory_files import MemoryFiles
from groupkeeper.testing.clock import Time
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.faults import Faults
from groupkeeper.testing.releases import AsRelease
from groupkeeper.testing.running import RunningServer, Surroundings
from groupkeeper.testing.tap import Tap

HOST: Final = "127.0.0.1"
LINES: Final = 2_000
"""Log lines that are kept."""
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions=1"
"""So that a start is short; the setting can be given."""
_CREATE_S: Final = 10
_CREATE_VERSION: Final = 7
_METADATA_VERSION: Final = 12


class Bench:
    """One test broker."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Path | None = None,
        as_version: str | None = None,
    ) -> None:
        """Raises SettingsError and WrongArgument. Nothing runs yet."""
        given = (f"{key}={_text(value)}" for key, value in (settings or {}).items())
        self._settings, _ = load(None, {}, (OFFSETS_PARTITIONS, *given), dev=True)
        self._topics = dict(topics or {})
        self._data = data
        self.time = Time()
        self.lines: deque[Line] = deque(maxlen=LINES)
        self.faults = Faults(self)
        self.disk_full: tuple[Callable[[], None], ...] = ()
        """Told about calls that fail because the disk is full; empty: it is not."""
        release = () if as_version is None else (AsRelease(as_version),)
        self.tap = Tap(*release, self.faults)
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode()[:22]
        self._files: Files = self._new_files()
        self._port = 0
        self._running: RunningServer | None = None

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
            lambda: self.disk_full,
        )
        self._bury()
        self._running = running = RunningServer(options, of)
        try:
            running.start()
        except BaseException:
            self._running = None
            raise
        _, self._port = running.server.address(PLAINTEXT)
        self.cluster_id = running.server.topics.cluster_id
        if self._topics:
            try:
                running.later(self.create_topics(self._topics)).result()
            except RequestFailed:
                self.stop()
                raise

    def _created(self, server: Server) -> None:
        """Told about every server before it starts."""

    def stop(self) -> None:
        """End; no error if it does not run. Files on a disk are complete, memory is forgotten."""
        self._bury()
        running, self._running = self._running, None
        if running is not None:
            (running.kill if self._data is None else running.stop)()

    def _bury(self) -> None:
        """Wait until a server that a fault has crashed is gone."""
        if self._running is not None and self._running.has_died:
            self._running.kill()
            self._running = None

    def crash_here(self) -> None:
        """As `crash`, on the server's loop, for a fault."""
        if self._running is not None:  # else `crash` is on its way
            self._running.die()

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
        self.faults.clear()
        self._files = self._new_files()
        self.lines.clear()
        self.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; they stay the same from the first start on. Raises BrokerDown."""
        if not self._port:
            raise BrokerDown("the broker has no port before its first start")
        return HOST, self._port

    # -- for faults ----------------------------------------------------------------------------

    @property
    def topics_by_id(self) -> Mapping[bytes, Any]:
        """Have names. Any: topics of the server."""
        return self.server.topics.catalog.by_id

    @property
    def node_id(self) -> int:
        """The server's."""
        return int(self.server.about()["node"])

    def described_topics(self) -> list[Any]:
        """See `Ground.described_topics`."""
        running = self.running
        asked = self.tap.ask(ApiKey.METADATA, _METADATA_VERSION, MetadataRequest(topics=None))
        return list(running.later(asked).result().topics)

    # -- topics --------------------------------------------------------------------------------

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics with so many partitions, unless they exist. Raises RequestFailed."""
        rows = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics.items()
        ]
        request = CreateTopicsRequest(topics=rows, timeout_ms=_CREATE_S * 1000)
        answer = await self.tap.ask(ApiKey.CREATE_TOPICS, _CREATE_VERSION, request)
        for each in answer.topics:
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise RequestFailed(f"topic '{each.name}' was not created: {each.error_message}")


def _text(value: Any) -> str:
    """As settings are written. Any: a setting's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
