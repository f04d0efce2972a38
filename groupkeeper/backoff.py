"""When to try again what has failed."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class Backoff:
    """Pauses in seconds: the first one, then each twice the one before it, up to the longest."""

    __slots__ = ("_first", "_most", "_next")

    def __init__(self, first: float, most: float) -> None:
        self._first = self._next = first
        self._most = most

    def failed(self) -> float:
        """It failed: the pause before the next try."""
        pause = self._next
        self._next = min(2 * pause, self._most)
        return pause

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first


class RetryTimes(Generic[_Key]):
    """When each of several things that failed may be tried again: at once after its first failure,
    later after the pauses of a `Backoff`. Times are seconds of one clock.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._failed: dict[_Key, tuple[Backoff, float]] = {}
        self.failures = 0
        """Of all keys, since the start."""

    def failed(self, key: _Key, now: float) -> None:
        """It failed. After twice the longest pause without a failure, it counts as the first."""
        self.failures += 1
        backoff, again = self._failed.get(key, (None, 0.0))
        if backoff is None or now - again > 2 * self._most:
            self._failed[key] = Backoff(self._first, self._most), now
        else:
            self._failed[key] = backoff, now + backoff.failed()

    def __bool__(self) -> bool:
        """Whether anything has failed and was not dropped."""
        return bool(self._failed)

    def waits(self, key: _Key, now: float) -> bool:
        """Whether it must not be tried yet."""
        return key in self._failed and now < self._failed[key][1]

    def drop(self, key: _Key) -> None:
        """Drop what is known of a key."""
        self._failed.pop(key, None)
