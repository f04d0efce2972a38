"""The event loop of the simulation: what a crash has left runs no more."""

import gc
from collections.abc import AsyncIterator

from tests.support.served import Served
from tests.support.virtual_loop import VirtualLoop


def test_a_generator_that_was_left_runs_no_more() -> None:
    ran = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ran.append("late")

    async def leave() -> None:
        async for _ in numbers():
            break
        gc.collect()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(leave())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
    assert ran == []


def test_two_servers_whose_lives_overlap_leave_nothing_behind() -> None:
    """Else the same seed would not give the same hour after other tests."""
    before = VirtualLoop().latency_s
    first, second = Served(), Served()
    first.close()
    second.close()
    assert VirtualLoop().latency_s == before
