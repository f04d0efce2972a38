"""The interface of `bench.Bench` for the parts of a test broker, which cannot import `bench`."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from groupkeeper.observe.log_writer import Line
from groupkeeper.server.server import Server
from groupkeeper.settings.options import ServeOptions
from groupkeeper.storage.files.files import Files
from groupkeeper.testing.cluster.leadership import Cluster
from groupkeeper.testing.history import GroupHistories
from groupkeeper.testing.time.clock import Time
from groupkeeper.testing.time.presence import Presence
from groupkeeper.testing.wire.tap import Tap

T = TypeVar("T")


# Any: parts whose modules import this one; asyncio's send type; the server's topics.
class Host(Protocol):
    """The members of `Bench`, documented there."""

    time: Time
    tap: Tap
    presence: Presence
    files: Files
    cluster_id: str
    disk_full: tuple[Callable[[], None], ...]
    cluster: Cluster
    history: GroupHistories
    faults: Any
    seeding: Any
    sights: Any
    waits: Any

    @property
    def running(self) -> Any: ...
    @property
    def server(self) -> Server: ...
    @property
    def is_up(self) -> bool: ...
    @property
    def topics_by_id(self) -> Mapping[bytes, Any]: ...
    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    def soon(self, callback: Callable[[], None]) -> None: ...
    def options(self) -> ServeOptions: ...
    def keep(self, line: Line) -> None: ...
    def created(self, server: Server) -> None: ...
    def crash_here(self) -> None: ...
    def disk_has_room(self) -> None: ...
    def described_topics(self) -> list[Any]: ...
