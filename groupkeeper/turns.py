"""The run queue of the event loop: what takes long is done in slices, and everybody takes turns.

A *slice* is at most about a millisecond of work, up to a bare ``yield`` of a generator. A *turn* is
as many slices as fit into :data:`TURN_S`. Whoever needs more queues up for another turn, behind
those that have not had one yet. Nothing here knows what the work is.
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

TURN_S: Final = 0.005
"""The longest uninterrupted piece of work on the event loop, in seconds."""

ITERATION_S: Final = 0.012
"""So long after the beginning of an iteration of the loop nothing new is begun in it, in seconds.
With a turn that begins just before, an iteration stays under 20 ms."""


class Work(Generic[T]):
    """A generator of slices on its way to its result."""

    __slots__ = ("_slices", "result")

    result: T

    def __init__(self, slices: Slices[T]) -> None:
        self._slices = slices

    def run(self, seconds: Callable[[], float], deadline: float) -> bool:
        """At least one slice, and more until the deadline; True when :attr:`result` is there.

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
        """Nobody wants the result any more."""
        self._slices.close()


class Turns:
    """Who waits for a turn on one event loop."""

    def __init__(self) -> None:
        self.until: float = inf
        """Time of the loop from which on nothing new is begun in this iteration; whoever watches
        the loop sets it (``server.loop``). Without a watch, iterations have no limit."""
        self.members: set[int] = set()
        """Descriptors of clients that send heartbeats: read first, when there is much to read."""
        self.bulk: set[int] = set()
        """Descriptors of clients that are sending something long: read last then."""
        self.has_more = False
        """Sockets had something that was not read in this iteration."""
        self._first: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()
        self._first_scheduled = self._again_scheduled = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._first) + len(self._again)

    def first(self, turn: Callable[[], None]) -> None:
        """Call ``turn`` soon; it has not had a turn yet."""
        self._first.append(turn)
        if not self._first_scheduled:
            self._first_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_first)

    def again(self, turn: Callable[[], None]) -> None:
        """Call ``turn`` when it is its turn again: it has used one up and needs more."""
        self._again.append(turn)
        if not self._again_scheduled:
            self._again_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_again)

    def _serve_first(self) -> None:
        """As many as fit into one turn: most of them need little."""
        loop, queue = asyncio.get_running_loop(), self._first
        deadline = loop.time() + TURN_S
        self._first_scheduled = False
        try:
            for _ in range(len(queue)):
                queue.popleft()()
                if loop.time() >= deadline:
                    break
        finally:  # one that raises must not take the others' turns with it
            if queue and not self._first_scheduled:
                self._first_scheduled = True
                loop.call_soon(self._serve_first)

    def _serve_again(self) -> None:
        turn = self._again.popleft()
        self._again_scheduled = bool(self._again)
        if self._again_scheduled:
            asyncio.get_running_loop().call_soon(self._serve_again)
        turn()

    def start(self, slices: Slices[T], done: Callable[[T], None]) -> None:
        """Do work that raises nothing, where there is no coroutine; ``done`` gets its result."""
        work = Work(slices)

        def turn() -> None:
            loop = asyncio.get_running_loop()
            if work.run(loop.time, loop.time() + TURN_S):
                done(work.result)
            else:
                self.again(turn)

        self.first(turn)

    async def wait(self) -> None:
        """Wait for another turn: for coroutines that have used theirs up."""
        turn = asyncio.get_running_loop().create_future()
        self.again(partial(_grant, turn))
        await turn

    async def run(self, slices: Slices[T]) -> T:
        """The result of work that may be long: for coroutines. Raises what the work raises."""
        loop = asyncio.get_running_loop()
        work = Work(slices)
        try:
            while not work.run(loop.time, loop.time() + TURN_S):
                await self.wait()
        finally:
            work.drop()
        return work.result


def _grant(turn: "asyncio.Future[None]") -> None:
    if not turn.done():  # cancelled meanwhile
        turn.set_result(None)


def when_read(turns: Turns, then: Callable[[], None], most_s: float) -> None:
    """Call back when everything has been read and served that was in the sockets by now; when that
    takes longer than ``most_s``, then at once.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + most_s
    settled = 0

    def look() -> None:
        nonlocal settled
        settled = 0 if turns.waiting or turns.has_more else settled + 1
        # What the selector gave this iteration is read behind this: only the next one may tell.
        if settled > 1 or loop.time() >= deadline:
            then()
        else:
            loop.call_soon(look)

    loop.call_soon(look)
