"""Run queues of the event loop: long work is split into slices, which alternate with other work.

A *slice* is at most about a millisecond of work, up to a bare `yield` of a generator. A *turn* is
as many slices as fit into `TURN_S`. First turns have a queue of their own: work that needs more
than one gets its later turns from a second queue, one in each iteration of the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from math import inf
from typing import Final, Generic, TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]
"""A generator that yields after each slice and returns the result."""

TURN_S: Final = 0.003
"""Maximum turn length in seconds. The last slice is finished, so a callback of the loop takes at
most 5 ms."""

FIRST_S: Final = 0.0015
"""Time in seconds during which one callback starts first turns. The last turn that it starts may
take `TURN_S`."""

PACED_TURN_S: Final = 0.002
"""Maximum turn length of `PacedTurns`, in seconds."""

ITERATION_S: Final = 0.012
"""Time in seconds after which an iteration of the loop starts no more work. Including a turn that
starts just before, an iteration stays under 20 ms."""


class Work(Generic[T]):
    """A generator of slices, and its result once it is done."""

    __slots__ = ("_slices", "result")

    result: T

    def __init__(self, slices: Slices[T]) -> None:
        self._slices = slices

    def run(self, seconds: Callable[[], float], deadline: float) -> bool:
        """Run at least one slice, until the deadline. Returns True if done, with `result` set.

        Raises the generator's exceptions.
        """
        try:
            next(self._slices)
            while seconds() < deadline:
                next(self._slices)
        except StopIteration as end:
            self.result = end.value
            return True
        return False

    def drop(self) -> None:
        """Close the generator without a result."""
        self._slices.close()


class Turns:
    """The work queued for turns on one event loop."""

    def __init__(self) -> None:
        self.until: float = inf
        """Loop time after which this iteration starts no more work. Set by `server/loop.py`, and
        infinite without it."""
        self.members: set[int] = set()
        """Sockets (file descriptors) of clients that send heartbeats; read first under load."""
        self.bulk: set[int] = set()
        """Sockets of clients that are sending a long request; read last under load."""
        self.has_more = False
        """Whether readable sockets remain unread in this iteration."""
        self._first: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()
        self._first_scheduled = self._again_scheduled = False

    @property
    def turn_s(self) -> float:
        """Maximum turn length of a coroutine's work, in seconds."""
        return TURN_S

    @property
    def waiting(self) -> int:
        """Number of queued turns."""
        return len(self._first) + len(self._again)

    def first(self, turn: Callable[[], None]) -> None:
        """Queue the first turn of some work."""
        self._first.append(turn)
        if not self._first_scheduled:
            self._first_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_first)

    def again(self, turn: Callable[[], None]) -> None:
        """Queue another turn of work that has used up a turn."""
        self._again.append(turn)
        if not self._again_scheduled:
            self._again_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_again)

    def _serve_first(self) -> None:
        """Run as many first turns as can start within `FIRST_S`; most are short."""
        loop, queue = asyncio.get_running_loop(), self._first
        deadline = loop.time() + FIRST_S
        self._first_scheduled = False
        try:
            for _ in range(len(queue)):
                queue.popleft()()
                if loop.time() >= deadline:
                    break
        finally:  # also if a turn raises
            if queue and not self._first_scheduled:
                self._first_scheduled = True
                loop.call_soon(self._serve_first)

    def _serve_again(self) -> None:
        turn = self._again.popleft()
        self._again_scheduled = bool(self._again)
        if self._again_scheduled:
            asyncio.get_running_loop().call_soon(self._serve_again)
        turn()

    def start(self, slices: Slices[T], done: Callable[[T], None] | None = None) -> None:
        """Run work that does not raise, and call `done` with its result. For callers that are not
        coroutines.
        """
        work = Work(slices)

        def turn() -> None:
            loop = asyncio.get_running_loop()
            if not work.run(loop.time, loop.time() + TURN_S):
                self.again(turn)
            elif done is not None:
                done(work.result)

        self.first(turn)

    async def wait(self) -> None:
        """Wait for another turn, in a coroutine that has used up its turn."""
        turn = asyncio.get_running_loop().create_future()
        self.again(partial(_grant, turn))
        await turn

    async def run(self, slices: Slices[T]) -> T:
        """Run work in turns and return its result. Raises the exceptions of the work."""
        loop = asyncio.get_running_loop()
        work = Work(slices)
        try:
            while not work.run(loop.time, loop.time() + self.turn_s):
                await self.wait()
        finally:
            work.drop()
        return work.result


class PacedTurns(Turns):
    """Turns for HTTP requests of people and monitoring. A response consists of several pieces of
    work; each gets its own turn, so that they do not form one long callback. Turns are short, since
    such a response is less urgent than a client's heartbeat.
    """

    @property
    def turn_s(self) -> float:
        return PACED_TURN_S

    async def run(self, slices: Slices[T]) -> T:
        await self.wait()
        return await super().run(slices)


def _grant(turn: "asyncio.Future[None]") -> None:
    if not turn.done():  # cancelled in the meantime
        turn.set_result(None)


def when_read(turns: Turns, then: Callable[[], None], most_s: float) -> None:
    """Call `then` when everything now in the sockets has been read and handled, or after `most_s`
    seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + most_s
    quiet = 0

    def look() -> None:
        nonlocal quiet
        quiet = 0 if turns.waiting or turns.has_more else quiet + 1
        # Sockets selected in this iteration are read after this call: check once more.
        if quiet > 1 or loop.time() >= deadline:
            then()
        else:
            loop.call_soon(look)

    loop.call_soon(look)
