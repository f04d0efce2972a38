"""An event loop on which time passes only when nothing else is left to do, and a network in memory.

The production server runs on it unchanged: what waits an hour waits no time at all, and the same
seed gives the same run. Not a mock of asyncio: it *is* asyncio's loop, with another selector,
another clock, and `create_server` and `run_in_executor` that stay inside.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, Self

from tests.support.fake_files import Crash

Address = tuple[str, int]

QUICK_S = 0.0001, 0.0002
"""How long bytes are on their way where the order of several clients does not matter."""


class _IdleSelector(selectors.SelectSelector):
    """Instead of waiting it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is left to happen, and a result is still awaited")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with a clock of its own and listeners that only it knows."""

    def __init__(self, seed: int = 0, latency_s: tuple[float, float] = (0.0001, 0.002)) -> None:
        """`latency_s`: the least and the most that bytes take to the other end."""
        self.idle = _IdleSelector()
        super().__init__(self.idle)
        self.random = Random(seed)
        self.latency_s = latency_s
        self.listeners: dict[Address, VirtualServer] = {}
        self._next_port = 10_000

    def time(self) -> float:
        return self.idle.now

    async def create_server(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Listen in memory; port 0 takes the next free one."""
        if not port:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self.listeners:
            raise OSError(98, f"address in use: {host}:{port}")
        server = self.listeners[host, port] = VirtualServer(self, (host, port), factory)
        return server

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        assert isinstance(executor, VirtualExecutor), "real threads do not know virtual time"
        return executor.run(lambda: func(*args))

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Nothing: a process that has crashed runs no code, and when the collector finds what it
        left depends on the tests before, so the same seed would not give the same run.
        """

    def dial(self, address: Address, client: asyncio.Protocol) -> "Pipe":
        """Connect a client's protocol to a server. Raises ConnectionRefusedError."""
        server = self.listeners.get(address)
        if server is None:
            raise ConnectionRefusedError(f"no server listens on {address}")
        near, far = Pipe(self, client), Pipe(self, server.factory())
        near.peer, far.peer = far, near
        server.pipes.append(far)
        near.protocol.connection_made(near)
        far.protocol.connection_made(far)
        return near


class VirtualServer:
    """What `create_server` returns, as far as it is used."""

    def __init__(
        self, loop: VirtualLoop, address: Address, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        self._loop = loop
        self._address = address
        self.factory = factory
        self.pipes: list[Pipe] = []
        self.sockets = [self]

    def getsockname(self) -> Address:
        return self._address

    def dup(self) -> "VirtualServer":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def listen(self, backlog: int) -> None:
        """Any backlog is enough."""

    def close(self) -> None:
        self._loop.listeners.pop(self._address, None)


class Pipe(asyncio.Transport):
    """One end of a connection. Bytes arrive late, in order, and in pieces."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self._loop = loop
        self.protocol = protocol
        self.peer: Pipe | None = None
        self._arrives = 0.0
        self._flying: deque[bytes | None] = deque()
        """On the way to the peer, None for the end; timers of one instant come in any order, what
        was sent must not."""
        self._inbox: deque[bytes] = deque()
        self._reading = True
        self._closed = False

    def write(self, data: Any) -> None:
        if self._closed or self.peer is None:
            return
        random, data = self._loop.random, bytes(data)
        while data:
            size = len(data) if random.random() < 0.7 else random.randint(1, len(data))
            self._send(data[:size])
            data = data[size:]

    def _send(self, piece: bytes) -> None:
        late = self._loop.random.uniform(*self._loop.latency_s)
        self._arrives = max(self._arrives, self._loop.time() + late)
        self._flying.append(piece)
        self._loop.call_at(self._arrives, self._land)

    def _land(self) -> None:
        assert self.peer is not None
        piece = self._flying.popleft()
        if piece is None:
            self.peer.close()
            return
        self.peer._inbox.append(piece)
        self.peer._drain()

    def _drain(self) -> None:
        while self._inbox and self._reading and not self._closed:
            self.protocol.data_received(self._inbox.popleft())

    def is_reading(self) -> bool:
        return self._reading and not self._closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is written is on its way at once."""

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._loop.call_soon(self._drain)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Hang up: what was written still arrives, then the other end is told."""
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self.protocol.connection_lost, None)
            if self.peer is not None:
                self._arrives = max(self._arrives, self._loop.time() + self._loop.latency_s[0])
                self._flying.append(None)
                self._loop.call_at(self._arrives, self._land)

    def abort(self) -> None:
        self.close()


class VirtualExecutor(Executor):
    """One thread that takes virtual time for every job, and dies with its process."""

    def __init__(self, loop: VirtualLoop, cost_s: tuple[float, float] = (0.0002, 0.003)) -> None:
        self._loop = loop
        self._cost_s = cost_s
        self._free_at = 0.0
        self.alive = True
        self.died: Callable[[], None] | None = None
        """Told when the process dies in the middle of a job."""
        self.jobs = 0
        """How many were handed in."""

    def run(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        return self._start(job, self._loop.create_future())

    def submit(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As a real executor: the callbacks of the future run on its thread, with `_perform`."""
        return self._start(lambda: job(*args, **kwargs), Future())

    def _start(self, job: Callable[[], Any], future: Any) -> Any:
        self.jobs += 1
        starts = max(self._free_at, self._loop.time())
        self._free_at = starts + self._loop.random.uniform(*self._cost_s)
        self._loop.call_at(self._free_at, self._perform, job, future)
        return future

    def _perform(self, job: Callable[[], Any], future: Any) -> None:
        if self.alive and not future.cancelled():
            self._do(job, future.set_result, future.set_exception)

    def _do(
        self, job: Callable[[], Any], done: Callable[[Any], Any], failed: Callable[[Any], Any]
    ) -> None:
        try:
            result = job()
        except Exception as error:  # noqa: BLE001  # what an executor's future is for
            failed(error)
        except Crash:
            if self.died is None:
                raise
            self.died()
        else:
            done(result)

    def __call__(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        """As the data plane's worker."""
        return self.run(job)

    def close(self) -> None:
        self.alive = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.alive = False
