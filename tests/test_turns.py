"""The run queue: what is long is cut into turns, and the others get theirs."""

import asyncio

import pytest

from groupkeeper.turns import FIRST_S, PACED_TURN_S, TURN_S, PacedTurns, Slices, Turns, Work


class Stopwatch:
    """A clock that moves when work is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def seconds(self) -> float:
        return self.now

    def work(self, slices: int, took: float, log: list[str], name: str) -> Slices[str]:
        for _ in range(slices):
            self.now += took
            log.append(name)
            yield
        return name


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


def test_work_runs_until_its_deadline_and_goes_on_later(stopwatch: Stopwatch) -> None:
    log: list[str] = []
    work = Work(stopwatch.work(10, 0.001, log, "a"))
    assert not work.run(stopwatch.seconds, stopwatch.now + TURN_S)
    assert len(log) == 3
    assert not work.run(stopwatch.seconds, stopwatch.now + TURN_S)
    assert not work.run(stopwatch.seconds, stopwatch.now + TURN_S)
    assert work.run(stopwatch.seconds, stopwatch.now + TURN_S)
    assert (work.result, len(log)) == ("a", 10)


def test_a_late_turn_still_gets_on(stopwatch: Stopwatch) -> None:
    log: list[str] = []
    work = Work(stopwatch.work(3, 1.0, log, "a"))
    assert not work.run(stopwatch.seconds, stopwatch.now)
    assert log == ["a"]


def test_what_the_work_raises_is_raised(stopwatch: Stopwatch) -> None:
    def broken() -> Slices[None]:
        yield
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        Work(broken()).run(stopwatch.seconds, 1.0)


async def test_those_who_wait_are_served_in_their_order() -> None:
    turns, log = Turns(), []
    for name in "abc":
        turns.first(lambda name=name: log.append(name))
    assert turns.waiting == 3
    await asyncio.sleep(0)
    assert log == ["a", "b", "c"]
    assert turns.waiting == 0


async def test_one_that_wants_more_has_one_turn_in_an_iteration() -> None:
    turns, log = Turns(), []
    for name in "ab":
        turns.again(lambda name=name: log.append(name))
    await asyncio.sleep(0)
    assert log == ["a"]
    turns.first(lambda: log.append("first"))
    await asyncio.sleep(0)
    assert log == ["a", "b", "first"]


async def test_a_full_turn_of_the_others_ends_the_callback(
    stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, log = Turns(), []

    def turn() -> None:
        stopwatch.now += FIRST_S / 2
        log.append("turn")

    monkeypatch.setattr(asyncio.get_running_loop(), "time", stopwatch.seconds)
    for _ in range(5):
        turns.first(turn)
    await asyncio.sleep(0)
    assert len(log) == 2
    await asyncio.sleep(0)
    assert len(log) == 4


async def test_coroutines_share_the_loop(
    stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, log = Turns(), []
    monkeypatch.setattr(asyncio.get_running_loop(), "time", stopwatch.seconds)
    results = await asyncio.gather(
        turns.run(stopwatch.work(10, 0.001, log, "a")),
        turns.run(stopwatch.work(10, 0.001, log, "b")),
    )
    assert results == ["a", "b"]
    assert "".join(log) == "aaabbbaaabbbaaabbbab"


async def test_a_coroutine_that_is_cancelled_ends_its_work(
    stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, ended = Turns(), []

    def endless() -> Slices[None]:
        try:
            while True:
                stopwatch.now += TURN_S
                yield
        finally:
            ended.append(True)

    monkeypatch.setattr(asyncio.get_running_loop(), "time", stopwatch.seconds)
    task = asyncio.create_task(turns.run(endless()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert ended == [True]
    assert turns.waiting == 0


async def test_work_without_a_coroutine_takes_turns_and_tells_its_result() -> None:
    turns, told = Turns(), []
    turns.start(counting(3), told.append)
    assert told == []
    await asyncio.sleep(0)
    assert told == [3]


async def test_a_coroutine_waits_for_another_turn() -> None:
    turns, order = Turns(), []
    turns.again(lambda: order.append("other"))
    await turns.wait()
    order.append("waited")
    assert order == ["other", "waited"]


def counting(count: int) -> Slices[int]:
    for _ in range(count):
        yield
    return count


async def test_one_that_raises_takes_nobody_elses_turn() -> None:
    turns, log, told = Turns(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def broken() -> None:
        raise ValueError("broken")

    for queue in (turns.first, turns.again):
        queue(broken)
        queue(lambda: log.append("served"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert log == ["served", "served"]
    assert len(told) == 2


async def test_paced_turns_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is over when it has taken `PACED_TURN_S`, and other work comes in between."""
    loop, watch, between = asyncio.get_running_loop(), Stopwatch(), 0
    monkeypatch.setattr(loop, "time", watch.seconds)

    def count() -> None:
        nonlocal between
        between += 1
        loop.call_soon(count)

    loop.call_soon(count)
    await PacedTurns().run(watch.work(50, PACED_TURN_S / 10, [], ""))
    assert between >= 5
