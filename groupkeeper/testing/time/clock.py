"""The clock of a test broker: it runs with the machine's, stands still, or is moved ahead.

Groups, offsets, retention and records use it. What belongs to sockets and disks (how long a Fetch
waits, idle connections, the writer) uses the real time, and never stands still.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from groupkeeper.clock import Clock


class Time:
    """The time of a broker, which goes on over its restarts; any thread may read it."""

    def __init__(self) -> None:
        self._unix_ms = int(time.time() * 1000) - _monotonic_ms()
        """The Unix time of 0: both times are as far ahead, to the millisecond."""
        self._ahead_ms = 0
        """How far it is ahead of the machine's clocks."""
        self._stands_at: int | None = None
        """Monotonic milliseconds at which it stands; None: it runs."""
        self.moved: Callable[[], None] = lambda: None
        """Called after every change, on the thread that made it."""

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._stands_at is not None

    def now(self) -> int:
        """Monotonic milliseconds; see `Clock.now`."""
        return _monotonic_ms() + self._ahead_ms if self._stands_at is None else self._stands_at

    def wall(self) -> int:
        """Unix milliseconds."""
        return self.now() + self._unix_ms

    def freeze(self) -> None:
        """Stand still; no error if it does."""
        self._stands_at = self.now()
        self.moved()

    def resume(self) -> None:
        """Run again, from where it stands; no error if it runs."""
        if self._stands_at is not None:
            self._ahead_ms, self._stands_at = self._stands_at - _monotonic_ms(), None
            self.moved()

    def reset(self) -> None:
        """Be the machine's time again, and run: for a broker that begins anew and does not run."""
        self._ahead_ms, self._stands_at = 0, None

    def move_to(self, now_ms: int, *, ring: bool = True) -> None:
        """Go ahead to a later time, and stand or run on from there. Without `ring` alarms do not
        notice it before `moved` is called.
        """
        ahead = max(now_ms - self.now(), 0)
        if self._stands_at is None:
            self._ahead_ms += ahead
        else:
            self._stands_at += ahead
        if ring:
            self.moved()


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000) + 1


class MovableClock(Clock):
    """The clock of one server: reads a `Time`, and moves its alarms with it. `Time` is changed on
    the thread of the server's loop, while it runs; while it starts or ends, on others, too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: Time) -> None:
        super().__init__(loop)
        self._time = source
        self._alarms: dict[MovableAlarm, None] = {}
        self._thread = threading.get_ident()
        source.moved = self._moved

    def now(self) -> int:
        return self._time.now()

    def wall(self) -> int:
        return self._time.wall()

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> "MovableAlarm":
        alarm = MovableAlarm(self._alarms, due_ms, callback)
        self._alarms[alarm] = None
        self._arm(alarm)
        return alarm

    def _moved(self) -> None:
        if threading.get_ident() == self._thread:
            self._arm_all()
            return
        with suppress(RuntimeError):  # closed: the next server's clock is told from its start on
            self._loop.call_soon_threadsafe(self._arm_all)

    def _arm_all(self) -> None:
        for alarm in list(self._alarms):
            self._arm(alarm)

    def _arm(self, alarm: "MovableAlarm") -> None:
        if alarm.handle is not None:
            alarm.handle.cancel()
            alarm.handle = None
        left_ms = alarm.due_ms - self._time.now()
        if left_ms <= 0 or not self._time.is_frozen:
            alarm.handle = self._loop.call_later(left_ms / 1000, alarm.ring)


class MovableAlarm:
    """One call at a time of a `MovableClock`."""

    def __init__(
        self, alarms: "dict[MovableAlarm, None]", due_ms: int, callback: Callable[[], None]
    ) -> None:
        self._alarms = alarms
        self.due_ms = due_ms
        self._callback = callback
        self.handle: asyncio.TimerHandle | None = None
        """None: time stands still before it."""

    def ring(self) -> None:
        """It is due."""
        self._alarms.pop(self, None)
        self._callback()

    def cancel(self) -> None:
        self._alarms.pop(self, None)
        if self.handle is not None:
            self.handle.cancel()
