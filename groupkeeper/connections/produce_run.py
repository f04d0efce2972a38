"""Short Produce requests that have come together on one connection.

They are handled together (`ConnectionServices.produce_run`), so that their appends share one trip
to a thread and back. Their answers are sent in order, as if each had been handled separately.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from groupkeeper.connections.call import PRODUCE, Call, decode, is_served
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.framing import RequestHeader, read_request_header

SLICED_PRODUCE_BYTES: Final = 20 * 1024
"""Longer Produce requests are decoded, handled and answered in slices. A batch of a producer's
default size is shorter. As many partitions as fit are decoded in a millisecond."""

RUN_MOST: Final = 16
"""Maximum number of requests of one run."""

_LEAST: Final = 14
"""Bytes of a size and of the fixed part of a request header."""

_size_and_key_at = Struct(">ih").unpack_from


class ProduceRequests:
    """Decodes Produce requests lazily, and yields requests, callers and calls.

    Ends before a request that is incomplete, too long, malformed, or of another API.
    """

    def __init__(
        self, data: bytes, pos: int, longest: int, begin: Callable[[RequestHeader], Call]
    ) -> None:
        """`longest`: maximum bytes of a request. `begin` creates a call."""
        self._data = data
        self._pos = pos
        self._most = min(SLICED_PRODUCE_BYTES, longest + 4)
        self._begin = begin
        self.calls: list[Call] = []
        self.ends: list[int] = []
        """The end of each request in the data."""

    # Any: see `call.decode`.
    def __iter__(self) -> Iterator[tuple[Any, Caller, Call]]:
        data = self._data
        while len(self.calls) < RUN_MOST:
            stop = _end_of_produce(data, self._pos)
            if not 0 < stop - self._pos <= self._most:
                return
            try:
                header, body = read_request_header(data, self._pos + 4, stop)
                if not is_served(PRODUCE, header.api_version):
                    return
                request = decode(header, data, body, stop)
            except DecodeError:
                return
            call = self._begin(header)
            self.calls.append(call)
            self.ends.append(stop)
            self._pos = stop
            yield request, call.caller, call


def is_produce(data: bytes, pos: int) -> bool:
    """Return whether a whole Produce request is at `pos`."""
    return _end_of_produce(data, pos) > 0


def _end_of_produce(data: bytes, pos: int) -> int:
    """Return the end of the Produce request at `pos`; 0 if it is incomplete or of another API."""
    if len(data) - pos < _LEAST:
        return 0
    size, key = _size_and_key_at(data, pos)
    stop: int = pos + 4 + size
    return stop if key == PRODUCE and pos + _LEAST <= stop <= len(data) else 0
