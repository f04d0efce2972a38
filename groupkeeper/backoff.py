"""How long to wait before something that failed is tried again."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Backoff:
    """Pauses that grow: the first, then twice as long each time, up to the longest; in seconds."""

    __slots__ = ("_first", "_most", "_next")

    def __init__(self, first: float, most: float) -> None:
        self._first = self._next = first
        self._most = most

    def failed(self) -> float:
        """It failed again: the pause before the next try."""
        pause = self._next
        self._next = min(2 * pause, self._most)
        return pause

    def reset(self) -> None:
        """It has worked: the next failure is taken for a new one."""
        self._next = self._first


class RetryTimes(Generic[Key]):
    """Things that failed, and when each may be tried again: the first time at once, then after
    pauses that grow as those of `Backoff`. Times are seconds of one clock.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._failed: dict[Key, tuple[Backoff, float]] = {}

    def failed(self, key: Key, now: float) -> None:
        """It failed. Tried with success for twice the longest pause, it begins anew."""
        backoff, again = self._failed.get(key, (None, 0.0))
        if backoff is None or now - again > 2 * self._most:
            self._failed[key] = Backoff(self._first, self._most), now
        else:
            self._failed[key] = backoff, now + backoff.failed()

    def waits(self, key: Key, now: float) -> bool:
        """It is not to be tried yet."""
        return key in self._failed and now < self._failed[key][1]

    def forget(self, key: Key) -> None:
        """It is gone, whatever became of it."""
        self._failed.pop(key, None)
