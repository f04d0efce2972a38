"""Exponential backoff for retries."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class Backoff:
    """Pauses in seconds, doubling from the first to the longest."""

    __slots__ = ("_first", "_most", "_next")

    def __init__(self, first: float, most: float) -> None:
        self._first = self._next = first
        self._most = most

    def failed(self) -> float:
        """Return the pause before the next try, after a failure."""
        pause = self._next
        self._next = min(2 * pause, self._most)
        return pause

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next = self._first


class RetryTimes(Generic[_Key]):
    """Retry times of several keys: immediately after the first failure, then after the pauses of a
    `Backoff`. Times are in seconds of one clock.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._failed: dict[_Key, tuple[Backoff, float]] = {}
        self.failures = 0
        """Total number of failures of all keys."""

    def failed(self, key: _Key, now: float) -> None:
        """Note a failure; it counts as the first after twice the longest pause without one."""
        self.failures += 1
        backoff, again = self._failed.get(key, (None, 0.0))
        if backoff is None or now - again > 2 * self._most:
            self._failed[key] = Backoff(self._first, self._most), now
        else:
            self._failed[key] = backoff, now + backoff.failed()

    def __bool__(self) -> bool:
        """Whether any key has failed and was not dropped."""
        return bool(self._failed)

    def waits(self, key: _Key, now: float) -> bool:
        """Whether a key must not be retried yet."""
        return key in self._failed and now < self._failed[key][1]

    def drop(self, key: _Key) -> None:
        """Forget the failures of a key."""
        self._failed.pop(key, None)
