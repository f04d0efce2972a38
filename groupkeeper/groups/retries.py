"""When a partition that failed is loaded again."""

from typing import Final

from groupkeeper.backoff import Backoff
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import Corrupt

FIRST_S: Final = 0.1
MOST_S: Final = 5.0
"""A partition that failed, whatever it was that failed, is loaded again after the first pause, then
after pauses that double up to the longest: a load may be much work, and others want the disk."""
DAMAGE_MOST_S: Final = 30.0
"""The longest pause where the log is damaged, which only a person can mend, and which a load finds
out after reading much of it."""
HEALTHY_S: Final = 10.0
"""Active for so long without a failure, it begins with the first pause again."""


class Retries:
    """Of one partition. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_S, DAMAGE_MOST_S)
        self._active_since: float | None = None
        self._next = 0.0

    def active(self, now: float) -> None:
        """It has been loaded."""
        self._active_since = now

    def failed(self, error: BaseException, now: float) -> float:
        """It could not be loaded, or was active and failed: how long until it is loaded again."""
        since, self._active_since = self._active_since, None
        if since is not None and now - since >= HEALTHY_S:
            self._backoff.reset()
        damaged = isinstance(error, Corrupt | CorruptBatch)
        pause = min(self._backoff.failed(), DAMAGE_MOST_S if damaged else MOST_S)
        self._next = now + pause
        return pause

    def left(self, now: float) -> float:
        """How long until then."""
        return max(self._next - now, 0.0)
