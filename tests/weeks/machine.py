"""A machine with real files under virtual time: the production server, killed and started again,
and connections that come from hosts of their own.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from groupkeeper.storage.files.files import Files
from tests.simulation.cluster import ADDRESS, Machine
from tests.support.fake_files import Crash
from tests.support.virtual_loop import Pipe, VirtualLoop

LATENCY_S = 0.0002
SETTINGS = (
    "log.cleaner.enable=false",
    "group.events.retention.ms=-1",
    "group.events.retention.bytes=-1",
    "group.events.retention.total.bytes=-1",
    "offsets.retention.minutes=5256000",
    "connections.max.idle.ms=2000000000",
)
"""Nothing is compacted or deleted by age: what happened is in the log from its beginning. And as
heartbeats of quiet times are left out, connections are idle that would not be."""


class ProcessFiles(Files):
    """The files of one process that can be killed. Syncs are left out: power is never cut.

    Handles are numbers of its own, so that what a killed process still does fails, and does not
    reach a file of the next one.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._numbers: dict[int, int] = {}
        self._next = 0

    def kill(self) -> None:
        """Every file is closed, and its lock freed."""
        for handle in list(self._numbers):
            self.close(handle)

    def process_id(self) -> int:
        return 1

    def boot_id(self) -> str:
        return "weeks"

    def random_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def open(self, path: str, *, create: bool = False) -> int:
        self._next += 1
        self._numbers[self._next] = super().open(path, create=create)
        return self._next

    def close(self, handle: int) -> None:
        """No error after the process was killed."""
        number = self._numbers.pop(handle, None)
        if number is not None:
            super().close(number)

    def is_at(self, handle: int, path: str) -> bool:
        """Nothing else moves the files of a run, and this is asked before each write."""
        return handle in self._numbers

    def size(self, handle: int) -> int:
        return super().size(self._number(handle))

    def read(self, handle: int, size: int, position: int) -> bytes:
        return super().read(self._number(handle), size, position)

    def write(self, handle: int, data: bytes, position: int) -> None:
        super().write(self._number(handle), data, position)

    def truncate(self, handle: int, size: int) -> None:
        super().truncate(self._number(handle), size)

    def lock(self, handle: int) -> bool:
        return super().lock(self._number(handle))

    def sync(self, handle: int) -> None:
        self._number(handle)

    def sync_folder(self, path: str) -> None:
        """Nothing."""

    def write_back(self) -> None:
        """Nothing."""

    def _number(self, handle: int) -> int:
        if handle not in self._numbers:
            raise Crash
        return self._numbers[handle]


class Line(Pipe):
    """One end of a connection that delivers what is written whole."""

    def write(self, data: Any) -> None:
        if not self._closed and self.peer is not None:
            self._arrives = max(self._arrives, self._loop.time() + LATENCY_S)
            self._flying.append(bytes(data))
            self._loop.call_at(self._arrives, self._land)


def dial(loop: VirtualLoop, client: asyncio.Protocol, host: str) -> None:
    """Connect a client that has this address. Raises ConnectionRefusedError."""
    server = loop.listeners.get(ADDRESS)
    if server is None:
        raise ConnectionRefusedError("the server is down")
    near, far = Line(loop, client), Line(loop, server.factory())
    near.peer, far.peer = far, near
    far._extra["peername"] = (host, 40_000)
    server.pipes.append(far)
    client.connection_made(near)
    far.protocol.connection_made(far)


class WeeksMachine(Machine):
    """Files are in a folder."""

    def __init__(self, loop: VirtualLoop, folder: Path, *assignments: str) -> None:
        super().__init__(loop, lambda line: None, *SETTINGS, *assignments)
        self.data_dir = folder
        self.random = Random(loop.random.random())
        self.make_files = lambda disk: ProcessFiles(self.random)  # type: ignore[assignment,return-value]
