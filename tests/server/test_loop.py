"""The watch over the event loop: when an iteration began, how long it took, what is read first."""

import asyncio
import errno
import selectors
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from groupkeeper.observe.metrics import ConnectionStats
from groupkeeper.server.descriptors import raise_limit
from groupkeeper.server.loop import (
    FEW_EVENTS,
    LOOK_S,
    MEMBERS,
    OTHERS,
    STALL_S,
    WatchedSelector,
    count_failed_accepts,
    watched_loop,
)
from groupkeeper.turns import ITERATION_S, Turns, when_read
from tests.support.served import Lines


def test_every_iteration_sets_its_limit_and_is_measured() -> None:
    loop, watch = watched_loop()
    turns = watch.turns

    async def main() -> None:
        began = time.monotonic()
        await asyncio.sleep(0)
        first = turns.until
        assert began < first <= time.monotonic() + ITERATION_S
        before = watch.iterations.count()
        time.sleep(0.002)  # noqa: ASYNC251  # the loop is held up on purpose
        await asyncio.sleep(0)
        assert turns.until > first
        assert watch.iterations.count() == before + 1

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert sum(watch.iterations.counts[1:]) >= 1, "one took more than a millisecond"


class Sockets:
    """Pairs of sockets, of which the near ends always have something to read."""

    def __init__(self, watch: WatchedSelector, count: int) -> None:
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.watch = watch
        for near, far in self.pairs:
            watch.register(near, selectors.EVENT_READ)
            far.send(b"x")

    def fds(self, start: int, stop: int) -> set[int]:
        return {near.fileno() for near, _ in self.pairs[start:stop]}

    def read(self) -> set[int]:
        return {key.fd for key, _ in self.watch.select(0)}

    def close(self) -> None:
        for pair in self.pairs:
            for each in pair:
                each.close()


@pytest.fixture
def watch() -> Iterator[WatchedSelector]:
    loop, watch = watched_loop()
    yield watch
    loop.close()


def test_thousands_of_events_are_seen_to_in_turn(watch: WatchedSelector) -> None:
    raise_limit()
    sockets = Sockets(watch, OTHERS + 100)
    seen: set[int] = set()
    for _ in range(20):
        read = sockets.read()
        assert len(read) == OTHERS
        seen |= read
    assert len(seen) == OTHERS + 100, "those that always have something are not always first"
    sockets.close()


def test_members_are_read_first_and_long_requests_last(watch: WatchedSelector) -> None:
    raise_limit()
    sockets = Sockets(watch, OTHERS + 300)
    members, bulk = sockets.fds(0, 50), sockets.fds(200, 400)
    watch.turns.members, watch.turns.bulk = members, bulk
    seen: set[int] = set()
    for _ in range(20):
        read = sockets.read()
        assert members <= read
        assert len(read & bulk) == FEW_EVENTS
        seen |= read
    assert seen == sockets.fds(0, OTHERS + 300)
    sockets.close()


def test_many_members_leave_room_for_others(watch: WatchedSelector) -> None:
    raise_limit()
    sockets = Sockets(watch, MEMBERS + 200)
    watch.turns.members = sockets.fds(0, MEMBERS + 100)
    read = sockets.read()
    assert len(read & watch.turns.members) == MEMBERS
    assert len(read - watch.turns.members) == 100
    sockets.close()


async def test_what_is_in_the_sockets_is_read_before_a_late_alarm() -> None:
    near, far = socket.socketpair()
    log: list[str] = []

    class Reader(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            log.append("read")

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(Reader, sock=near)
    await asyncio.sleep(0)
    far.send(b"x")
    done = asyncio.Event()
    when_read(Turns(), lambda: (log.append("alarm"), done.set()), 1.0)
    await done.wait()
    assert log == ["read", "alarm"]
    transport.close()
    far.close()


async def test_what_waits_for_its_turn_is_served_before_a_late_alarm() -> None:
    turns, log, done = Turns(), [], asyncio.Event()
    for _ in range(4):
        turns.again(lambda: log.append("turn"))
    when_read(turns, lambda: (log.append("alarm"), done.set()), 1.0)
    await done.wait()
    assert log == ["turn"] * 4 + ["alarm"]


async def test_a_late_alarm_does_not_wait_for_ever() -> None:
    turns, done = Turns(), asyncio.Event()

    def endless() -> None:
        if not done.is_set():
            turns.again(endless)

    endless()
    when_read(turns, done.set, 0.01)
    async with asyncio.timeout(10):
        await done.wait()


async def test_a_connection_that_cannot_be_accepted_is_a_line_and_a_number(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, stats = asyncio.get_running_loop(), ConnectionStats()
    count_failed_accepts(loop, stats)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, backlog=4)
    failed = asyncio.Event()
    tries = 0

    def accept(_: socket.socket) -> Any:
        nonlocal tries
        tries += 1
        failed.set()
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", accept)
    with socket.create_connection(server.sockets[0].getsockname()):
        await failed.wait()
        await asyncio.sleep(0)
    server.close()
    assert (tries, stats.unaccepted) == (4, 1)
    assert [line["event"] for line in lines()] == ["connection cannot be accepted"]


async def test_what_else_goes_wrong_on_the_loop_is_told_as_before(lines: Lines) -> None:
    loop, stats = asyncio.get_running_loop(), ConnectionStats()
    count_failed_accepts(loop, stats)
    loop.call_exception_handler({"message": "something else"})
    assert stats.unaccepted == 0
    assert [line["event"] for line in lines()] == ["something else"]


class Times:
    """Both clocks, and a selector that waits as long as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.wall = 100.0, 1_000.0
        self.waits: float | None = None
        """Seconds of the next wait; None for as long as was asked for."""
        self.stops: list[tuple[float, float]] = []
        self.moved: list[float] = []
        clocks = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.wall + self.now)
        monkeypatch.setattr("groupkeeper.server.loop.time", clocks)
        monkeypatch.setattr(selectors.DefaultSelector, "select", self._select)
        self.watch = WatchedSelector()
        self.watch.stopped = lambda began, ended: self.stops.append((began, ended))
        self.watch.clock_moved = self.moved.append

    def _select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "every wait has an end"
        self.now += timeout if self.waits is None else self.waits
        return []


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


def test_a_callback_that_takes_too_long_is_a_stop_and_a_short_one_is_not(times: Times) -> None:
    times.watch.select(0)
    times.now += STALL_S - 0.001
    times.watch.select(0)
    assert times.stops == []
    times.now += 2 * STALL_S
    times.watch.select(0)
    assert times.stops == [(times.now - 2 * STALL_S, times.now)]


def test_a_wait_that_lasts_longer_than_was_asked_for_is_a_stop(times: Times) -> None:
    times.watch.select(0.5)
    times.waits = 0.5 + STALL_S - 0.001
    times.watch.select(0.5)
    assert times.stops == []
    times.waits = 20.0
    times.watch.select(0.5)
    [(began, ended)] = times.stops
    assert ended - began == 20.0


@pytest.mark.parametrize("timeout", [None, 3_600.0])
def test_no_wait_is_so_long_that_a_stop_is_not_noticed(times: Times, timeout: float | None) -> None:
    before = times.now
    assert times.watch.select(timeout) == []
    assert times.now - before == LOOK_S


def test_a_wall_clock_that_is_moved_is_told_once(times: Times) -> None:
    times.watch.select(0)
    times.wall += 3_600.0
    for _ in range(2):
        times.watch.select(0)
    times.wall -= 3_600.0
    times.watch.select(0)
    assert times.moved == [3_600.0, -3_600.0]
    assert times.stops == []
