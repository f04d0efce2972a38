"""The alarm of a partition: with a timer for later, in the next turn for what is due already."""

import asyncio
from typing import Any

from groupkeeper.coordinator.deadlines import Deadlines, Timer, TimerKind
from groupkeeper.groups.deadline_alarm import LATE_MS, DeadlineAlarm
from groupkeeper.turns import Turns


class Clock:
    """Stands still, and notes the timers that it is asked for."""

    def __init__(self) -> None:
        self.timers: list[int] = []

    def now(self) -> int:
        return 1_000

    def call_at(self, due_ms: int, callback: object) -> Any:
        self.timers.append(due_ms)
        return asyncio.get_running_loop().call_later(60, print)


class Partition:
    """It has one deadline."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.deadlines = Deadlines()
        self.deadlines.set(Timer(TimerKind.OFFSET_EXPIRY), due)

    def next_deadline(self) -> int:
        return self.due


async def rings(due: int, *, cancel: bool = False, iterations: int = 2) -> tuple[int, list[int]]:
    """How often it rings in some iterations of the loop, and its timers."""
    clock, rung = Clock(), list[int]()
    alarm = DeadlineAlarm(clock, Turns(), lambda: rung.append(1))  # type: ignore[arg-type]
    partition: Any = Partition(due)
    alarm.set(partition)
    alarm.set(partition)
    if cancel:
        alarm.cancel()
    for _ in range(iterations):
        await asyncio.sleep(0)
    alarm.cancel()
    return len(rung), clock.timers


async def test_what_is_due_rings_without_a_timer() -> None:
    assert await rings(1_000) == (1, [])


async def test_what_is_due_for_long_rings_when_the_sockets_were_read() -> None:
    late = 1_000 - LATE_MS - 1
    assert await rings(late) == (0, [])
    assert await rings(late, iterations=9) == (1, [])


async def test_a_later_deadline_has_a_timer() -> None:
    assert await rings(1_001) == (0, [1_001])


async def test_a_cancelled_alarm_does_not_ring() -> None:
    assert await rings(1_000, cancel=True) == (0, [])
