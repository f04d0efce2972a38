"""The short cut of a connection for a heartbeat that repeats byte for byte.

A steady consumer sends the same heartbeat again and again; only the correlation id differs. Here
is what the last one looked like, what it resolved to, and the answer but for that id. While the
bytes match and the group has not changed, a beat is: move the deadline, copy the id.
"""

from typing import Protocol

from groupkeeper.coordinator.heartbeat import Beat

CORRELATION_AT, CORRELATION_END = 8, 12
"""Where the correlation id stands in a request frame: behind size, API key and version."""


class Driver(Protocol):
    """The partition that the group lives in."""

    def beat(self, beat: Beat, now: int) -> bool:
        """Count the beat; False when it has to take the long way."""


class SteadyBeat:
    """One heartbeat, decoded once."""

    __slots__ = ("_after", "_beat", "_before", "_driver", "_head", "_tail")

    def __init__(self, driver: Driver, beat: Beat, request: bytes, response: bytes) -> None:
        self._driver = driver
        self._beat = beat
        self._head = request[:CORRELATION_AT]
        self._tail = request[CORRELATION_END:]
        self._before = response[:4]
        self._after = response[8:]

    def matches(self, data: bytes, pos: int, stop: int, seconds: float) -> bool:
        """Is the frame at ``pos`` this heartbeat, and did it count?"""
        return (
            data[pos + CORRELATION_END : stop] == self._tail
            and data[pos : pos + CORRELATION_AT] == self._head
            and self._driver.beat(self._beat, int(seconds * 1000) + 1)
        )

    def is_same(self, data: bytes) -> bool:
        """Is this the heartbeat and nothing else? It does not count by that."""
        return data[CORRELATION_END:] == self._tail and data[:CORRELATION_AT] == self._head

    def answer(self, data: bytes, pos: int) -> bytes:
        """The answer to the frame at ``pos``."""
        return self._before + data[pos + CORRELATION_AT : pos + CORRELATION_END] + self._after
