"""Fetch: answer from the logs now, when enough has come, or when the client's patience ends.

Not the reading itself (read.py). Waiting costs nothing: appends tell the waiting Fetch how much
came, one timer of the loop ends it. Sessions (KIP-227) are declined with session id 0, so every
Fetch names all its partitions.
Source: Kafka's ``DelayedFetch`` and ``FetchManager``.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.opening import Opening
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Partitions
from groupkeeper.topics.read import Reader
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse

_FULL_FETCH: Final = (0, -1)
"""Session epochs of a request that names all its partitions: it opens a session, or wants none."""

MAX_WAIT_MS: Final = 5 * 60_000
"""A wait ends by then, whatever the request says: nobody tells a waiting Fetch that its client is
gone, and clients that are there ask for half a second, at most for their request timeout."""


class Fetching:
    """Answers Fetch and keeps those that wait."""

    def __init__(self, partitions: Partitions, reader: Reader, opening: Opening) -> None:
        self._partitions = partitions
        self._reader = reader
        self._opening = opening
        self._closing = False
        self.waiting: dict[WaitingFetch, None] = {}

    def handle(self, request: FetchRequest, caller: Caller, reply_to: ReplyTo) -> Response | None:
        """The response, or None when it waits or logs have to be opened first."""
        if request.session_epoch not in _FULL_FETCH:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return self._opening.answer(
            (partition for partition in self._wanted(request) if not partition.readable),
            lambda: self._read_or_wait(request, reply_to),
            reply_to,
            lambda: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
        )

    def close(self) -> None:
        """Answer all that wait with what there is, and let nobody wait any more."""
        self._closing = True
        for waiting in list(self.waiting):
            waiting.finish()

    def _wanted(self, request: FetchRequest) -> Iterator[Partition]:
        return self._partitions.existing(
            (topic.topic, wanted.partition)
            for topic in request.topics
            for wanted in topic.partitions
        )

    def _read_or_wait(self, request: FetchRequest, reply_to: ReplyTo) -> FetchResponse | None:
        look = self._reader.look(request)
        missing = min(request.min_bytes, self._reader.max_bytes) - look.size
        at_once = missing <= 0 or look.failed or request.max_wait_ms <= 0 or not request.topics
        if at_once or self._closing:
            return look.response
        waiting = WaitingFetch(self, request, reply_to, missing)
        waiting.watch(list(self._wanted(request)))
        return None

    def look_again(self, request: FetchRequest) -> FetchResponse:
        return self._reader.look(request).response


class WaitingFetch:
    """A Fetch that waits for `missing` bytes; finished exactly once."""

    __slots__ = ("_fetching", "_missing", "_partitions", "_reply_to", "_request", "_timer")

    def __init__(
        self, fetching: Fetching, request: FetchRequest, reply_to: ReplyTo, missing: int
    ) -> None:
        self._fetching = fetching
        self._request = request
        self._reply_to = reply_to
        self._missing = missing
        self._partitions: list[Partition] = []
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(request.max_wait_ms, MAX_WAIT_MS) / 1000, self.finish)

    def watch(self, partitions: list[Partition]) -> None:
        self._partitions = partitions
        self._fetching.waiting[self] = None
        for partition in partitions:
            partition.watchers[self] = None

    def grew(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0:
            self.finish()

    def changed(self) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop watching, look once more, answer."""
        self._timer.cancel()
        del self._fetching.waiting[self]
        for partition in self._partitions:
            partition.watchers.pop(self, None)
        self._reply_to.answer(self._fetching.look_again(self._request))
