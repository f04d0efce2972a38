"""The short cut of a connection for a heartbeat that repeats byte for byte.

A steady consumer sends the same heartbeat again and again; only the correlation id differs. This
keeps the bytes of the last one, the decision about it, and the answer except for the id. While the
bytes match and the group has not changed, a heartbeat moves the deadline and copies the id.
"""

from typing import Protocol

from groupkeeper.coordinator.heartbeat import Beat

CORRELATION_AT, CORRELATION_END = 8, 12
"""Where the correlation id is in a request frame: after size, API key and version."""


class Driver(Protocol):
    """What drives the partition that the group is in."""

    def beat(self, beat: Beat, now: int) -> bool:
        """Repeat a heartbeat. False if the request has to be decoded and decided instead."""


class SteadyBeat:
    """One heartbeat that was decoded and answered once."""

    __slots__ = ("_after", "_beat", "_before", "_driver", "_head", "_tail")

    def __init__(self, driver: Driver, beat: Beat, request: bytes, response: bytes) -> None:
        self._driver = driver
        self._beat = beat
        self._head = request[:CORRELATION_AT]
        self._tail = request[CORRELATION_END:]
        self._before = response[:4]
        self._after = response[8:]

    def matches(self, data: bytes, pos: int, stop: int, seconds: float) -> bool:
        """Whether the frame at `pos` is this heartbeat, and the driver accepted it."""
        return (
            data[pos + CORRELATION_END : stop] == self._tail
            and data[pos : pos + CORRELATION_AT] == self._head
            and self._driver.beat(self._beat, int(seconds * 1000) + 1)
        )

    def is_same(self, data: bytes) -> bool:
        """Whether `data` is exactly this heartbeat. Does not repeat it."""
        return data[CORRELATION_END:] == self._tail and data[:CORRELATION_AT] == self._head

    def answer(self, data: bytes, pos: int) -> bytes:
        """The answer to the frame at `pos`."""
        return self._before + data[pos + CORRELATION_AT : pos + CORRELATION_END] + self._after
