"""The two times."""

import asyncio
import time

from groupkeeper.clock import Clock


class Loop(asyncio.SelectorEventLoop):
    at = 0.0

    def time(self) -> float:
        return self.at


def test_monotonic_time_is_the_loops_rounded_up() -> None:
    loop = Loop()
    clock = Clock(loop)
    for at in (0.0, 1.0, 1.0004, 1.0009, 12345.678):
        loop.at = at
        assert at * 1000 < clock.now() <= at * 1000 + 1
        assert clock.seconds() == at
    loop.close()


def test_a_timer_set_for_a_deadline_finds_it_due() -> None:
    """The alarm is set in seconds, the deadline in milliseconds: neither may be early."""
    loop = Loop()
    clock = Clock(loop)
    for deadline_ms in (1, 7, 999, 1001, 3_600_001, 86_400_003):
        loop.at = deadline_ms / 1000
        assert clock.now() >= deadline_ms
    loop.close()


def test_wall_time_is_unix_time_in_milliseconds() -> None:
    loop = Loop()
    before = time.time_ns() // 1_000_000
    assert before <= Clock(loop).wall() <= time.time_ns() // 1_000_000
    loop.close()
