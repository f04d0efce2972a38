"""Run queues of the event loop: long work is cut into slices, and takes turns with other work.

A *slice* is about a millisecond of work at most, up to a bare `yield` of a generator. A *turn* is
as many slices as fit into `TURN_S`. Work that needs more is queued for another turn, after work
that has not had one yet.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from math import inf
from typing import Final, Generic, TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]
"""Work that yields after every slice and returns its result."""

TURN_S: Final = 0.003
"""The longest turn, in seconds. A slice that begins in it is finished, so that a callback of the
loop takes 5 ms at most."""

FIRST_S: Final = 0.0015
"""How long first turns are begun in one callback, in seconds. The last one may take `TURN_S`."""

PACED_TURN_S: Final = 0.002
"""The longest turn of `PacedTurns`, in seconds."""

ITERATION_S: Final = 0.012
"""How long after the start of an iteration of the loop new work is begun in it, in seconds. With a
turn that begins just before, an iteration stays under 20 ms."""


class Work(Generic[T]):
    """A generator of slices, and its result when it is done."""

    __slots__ = ("_slices", "result")

    result: T

    def __init__(self, slices: Slices[T]) -> None:
        self._slices = slices

    def run(self, seconds: Callable[[], float], deadline: float) -> bool:
        """Run one slice, and more until the deadline. True if done: `result` is set.

        Raises what the generator raises.
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
        """Close the generator: its result is not needed."""
        self._slices.close()


class Turns:
    """The work that waits for a turn on one event loop."""

    def __init__(self) -> None:
        self.until: float = inf
        """Loop time after which this iteration begins nothing new; set by `server/loop.py`, else
        infinite."""
        self.members: set[int] = set()
        """Sockets (file descriptors) of clients that send heartbeats: read first under load."""
        self.bulk: set[int] = set()
        """Sockets of clients that are sending a long request: read last under load."""
        self.has_more = False
        """Whether some readable sockets are not read in this iteration."""
        self._first: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()
        self._first_scheduled = self._again_scheduled = False

    @property
    def turn_s(self) -> float:
        """The longest turn of a coroutine's work, in seconds."""
        return TURN_S

    @property
    def waiting(self) -> int:
        """How many turns are queued."""
        return len(self._first) + len(self._again)

    def first(self, turn: Callable[[], None]) -> None:
        """Queue the first turn of some work."""
        self._first.append(turn)
        if not self._first_scheduled:
            self._first_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_first)

    def again(self, turn: Callable[[], None]) -> None:
        """Queue another turn of work that has used one up."""
        self._again.append(turn)
        if not self._again_scheduled:
            self._again_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_again)

    def _serve_first(self) -> None:
        """Call as many first turns as can be begun within `FIRST_S`: most are short."""
        loop, queue = asyncio.get_running_loop(), self._first
        deadline = loop.time() + FIRST_S
        self._first_scheduled = False
        try:
            for _ in range(len(queue)):
                queue.popleft()()
                if loop.time() >= deadline:
                    break
        finally:  # also if one raises
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
        """Run work that does not raise, and call `done` with its result: for callers that are no
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
        """Wait for another turn: for coroutines that have used one up."""
        turn = asyncio.get_running_loop().create_future()
        self.again(partial(_grant, turn))
        await turn

    async def run(self, slices: Slices[T]) -> T:
        """Run work in turns and return its result: for coroutines. Raises what the work raises."""
        loop = asyncio.get_running_loop()
        work = Work(slices)
        try:
            while not work.run(loop.time, loop.time() + self.turn_s):
                await self.wait()
        finally:
            work.drop()
        return work.result


class PacedTurns(Turns):
    """For what people and monitoring ask. Each piece of work has a turn of its own: an answer is
    made of several, and together they would be one long callback. Turns are short: nobody waits for
    such an answer as a client does for its heartbeat.
    """

    @property
    def turn_s(self) -> float:
        return PACED_TURN_S

    async def run(self, slices: Slices[T]) -> T:
        await self.wait()
        return await super().run(slices)


def _grant(turn: "asyncio.Future[None]") -> None:
    if not turn.done():  # cancelled meanwhile
        turn.set_result(None)


def when_read(turns: Turns, then: Callable[[], None], most_s: float) -> None:
    """Call `then` when all that is in the sockets now has been read and served, or after `most_s`
    seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + most_s
    quiet = 0

    def look() -> None:
        nonlocal quiet
        quiet = 0 if turns.waiting or turns.has_more else quiet + 1
        # What the selector returned in this iteration is read after this call: check once more.
        if quiet > 1 or loop.time() >= deadline:
            then()
        else:
            loop.call_soon(look)

    loop.call_soon(look)
