"""The clock of a test broker: it runs with the machine's clock, is stopped, or is moved forward.

Groups, offsets, retention and records use it. Everything tied to sockets and disks (Fetch waits,
idle connections, the writer) uses real time.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from groupkeeper.clock import Clock


class Time:
    """The time of a broker, which survives restarts. Any thread may read it."""

    def __init__(self) -> None:
        self._unix_ms = int(time.time() * 1000) - _monotonic_ms()
        """Unix milliseconds at monotonic time 0; fixed, so both times differ by a constant."""
        self._ahead_ms = 0
        """Difference to the machine's clocks, in milliseconds."""
        self._stands_at: int | None = None
        """Monotonic milliseconds of a stopped clock; None while it runs."""
        self.moved: Callable[[], None] = lambda: None
        """Called after each change, on the same thread."""

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is stopped."""
        return self._stands_at is not None

    def now(self) -> int:
        """Return monotonic milliseconds; see `Clock.now`."""
        return _monotonic_ms() + self._ahead_ms if self._stands_at is None else self._stands_at

    def wall(self) -> int:
        """Return Unix milliseconds."""
        return self.now() + self._unix_ms

    def freeze(self) -> None:
        """Stop the clock; does nothing if it is stopped."""
        self._stands_at = self.now()
        self.moved()

    def resume(self) -> None:
        """Let the clock run again from its present time; does nothing if it is running."""
        if self._stands_at is not None:
            self._ahead_ms, self._stands_at = self._stands_at - _monotonic_ms(), None
            self.moved()

    def reset(self) -> None:
        """Follow the machine's clock again. For a broker that is not running, before a reset."""
        self._ahead_ms, self._stands_at = 0, None

    def move_to(self, now_ms: int, *, ring: bool = True) -> None:
        """Move forward to a time; the clock stays running or stopped. Without `ring`, alarms do not
        take notice until `moved` is called.
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
    """The clock of one server: reads a `Time`, and rearms its alarms when the time is changed, on
    the thread of the server's loop or, while the server starts or ends, on another thread.
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
        with suppress(RuntimeError):  # the loop is closed; the next server has its own clock
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
    """A callback scheduled on a `MovableClock`."""

    def __init__(
        self, alarms: "dict[MovableAlarm, None]", due_ms: int, callback: Callable[[], None]
    ) -> None:
        self._alarms = alarms
        self.due_ms = due_ms
        self._callback = callback
        self.handle: asyncio.TimerHandle | None = None
        """None while the clock is stopped before `due_ms`."""

    def ring(self) -> None:
        """Run the callback."""
        self._alarms.pop(self, None)
        self._callback()

    def cancel(self) -> None:
        self._alarms.pop(self, None)
        if self.handle is not None:
            self.handle.cancel()
