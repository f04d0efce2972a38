"""Bytes that all connections share."""

import asyncio

from groupkeeper.connections.budget import LEAST_REQUEST_BYTES, LOOK_AGAIN, Budget, limits_of
from groupkeeper.settings.table import load


async def test_those_who_wait_look_again_when_less_is_in_use() -> None:
    budget, looked = Budget(100), []
    budget.change(100)
    budget.wait(lambda: looked.append("first"))
    budget.wait(lambda: looked.append("second"))
    budget.change(10)
    await asyncio.sleep(0)
    assert looked == []
    budget.change(-5)
    await asyncio.sleep(0)
    assert looked == ["first", "second"]
    assert not budget.awaited


async def test_thousands_do_not_look_again_at_once() -> None:
    budget, looked = Budget(100), []
    for number in range(3 * LOOK_AGAIN):
        budget.wait(lambda number=number: looked.append(number))
    budget.change(-1)
    budget.change(-1)
    for turn in (1, 2, 3):
        await asyncio.sleep(0)
        assert len(looked) == turn * LOOK_AGAIN
    assert looked == list(range(3 * LOOK_AGAIN))


async def test_who_finds_no_room_waits_for_the_next_change() -> None:
    budget, looked = Budget(100), []

    def look() -> None:
        looked.append(budget.room)
        budget.wait(look)

    budget.change(100)
    budget.wait(look)
    budget.change(-10)
    for _ in range(5):
        await asyncio.sleep(0)
    assert looked == [10]
    budget.change(-20)
    for _ in range(5):
        await asyncio.sleep(0)
    assert looked == [10, 30]


def test_one_alone_has_room_for_whatever_it_needs() -> None:
    budget = Budget(100)
    assert budget.fits(1_000)
    budget.change(40)
    assert budget.fits(60)
    assert not budget.fits(61)
    assert budget.fits(1_000, mine=40)


def test_the_settings_set_the_limits() -> None:
    settings, _ = load(assignments=["queued.max.request.bytes=1000", "message.max.bytes=2000000"])
    limits = limits_of(settings)
    assert limits.requests.limit == 1_000
    assert limits.request_bytes == 8_000_000
    assert limits.produce_bytes == 104_857_600


def test_no_request_may_be_longer_than_produce() -> None:
    settings, _ = load(assignments=["socket.request.max.bytes=1000"])
    assert limits_of(settings).request_bytes == 1_000
    assert limits_of(load()[0]).request_bytes == max(LEAST_REQUEST_BYTES, 4 * 1_048_588)


def test_minus_one_is_no_limit_as_in_kafka() -> None:
    settings, _ = load(assignments=["queued.max.request.bytes=-1"])
    assert limits_of(settings).requests.limit > 2**60
