"""The single alarm of a partition, which fires at the next deadline."""

from collections.abc import Callable
from typing import Final

from groupkeeper.clock import Alarm, Clock
from groupkeeper.coordinator.partition import Partition
from groupkeeper.turns import Turns, when_read

LATE_MS: Final = 1_000
"""An alarm that is later than this waits until the sockets have been read."""
READ_FIRST_S: Final = 1.0
"""Maximum time to wait for that."""


class _Soon:
    """An alarm that fires in the next turn."""

    def __init__(self, rung: Callable[[], None]) -> None:
        self._rung: Callable[[], None] | None = rung

    def cancel(self) -> None:
        self._rung = None

    def ring(self) -> None:
        if self._rung is not None:
            self._rung()


class DeadlineAlarm:
    """An alarm that is moved only when the next deadline gets earlier."""

    def __init__(self, clock: Clock, turns: Turns, rung: Callable[[], None]) -> None:
        """Call `rung` in a separate turn. The alarm then has to be set again."""
        self._clock = clock
        self._turns = turns
        self._rung = rung
        self._alarm: Alarm | None = None
        self.at = 0
        """The time for which the alarm was set last."""

    def set(self, partition: Partition) -> None:
        """Make sure that the alarm fires at the next deadline or earlier."""
        if self._alarm is not None and not partition.deadlines.is_before(self.at):
            return
        due = partition.next_deadline()
        if due is None or (self._alarm is not None and self.at <= due):
            return
        self.cancel()
        self.at = due
        if due > self._clock.now():
            self._alarm = self._clock.call_at(due, self._ring)
        else:  # a timer would fire a millisecond or two later, and a large group has many steps
            self._alarm = soon = _Soon(self._ring)
            self._turns.first(soon.ring)

    def cancel(self) -> None:
        """Cancel the alarm; no error if it is not set."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        """Handle a deadline. If this is late, the process was suspended (stopped, migrated,
        starved). Then read the sockets first, so that heartbeats received meanwhile count.
        """
        if self._clock.now() - self.at > LATE_MS:
            when_read(self._turns, self._over, READ_FIRST_S)
        else:  # many partitions may have a deadline at the same time
            self._turns.first(self._over)

    def _over(self) -> None:
        self._alarm = None
        self._rung()
