"""The fast path of a connection for a heartbeat that repeats byte for byte.

A steady consumer repeats the same heartbeat; only the correlation id differs. This keeps the bytes
of the last heartbeat, the decision about it, and the answer except for the id. While the bytes
match and the group has not changed, a heartbeat just moves the deadline and copies the id.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Final, Protocol

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.heartbeat import Beat
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.steady_commit import SteadyCommit
from groupkeeper.groups.topic_check import Moment
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest

CORRELATION_AT, CORRELATION_END = 8, 12
"""Position of the correlation id in a request frame: after size, API key and version."""


class Driver(Protocol):
    """The driver of a group's partition."""

    @property
    def active(self) -> Partition | None:
        """None if it refuses all requests."""

    def commit_again(
        self, steady: SteadyCommit, offsets: tuple[bytes, ...], reply_to: ReplyTo
    ) -> bool:
        """Repeat a commit. False if the request has to be decoded and decided instead."""


Find = Callable[[str], tuple[Driver, Moment] | None]
"""Returns a group's driver, and the present moment among deletions of topics; None: no fast path.
"""


class Numbered(Protocol):
    """Something that changes, such as what an authorizer allows."""

    @property
    def number(self) -> int:
        """Another one after each change."""


class _Unchanging:
    number: Final = 0


UNCHANGING: Final = _Unchanging()
"""In place of an authorizer."""


@lru_cache(maxsize=64)
def _shared(part: bytes) -> bytes:
    """Return the same object for equal bytes: most heartbeats have these parts in common."""
    return part


class SteadyBeat:
    """One heartbeat that was decoded, and accepted by a partition."""

    __slots__ = ("_after", "_beat", "_before", "_head", "_partition", "_request", "_tail")

    def __init__(
        self, partition: Partition, request: HeartbeatRequest, frame: bytes, answer: bytes
    ) -> None:
        self._partition = partition
        self._request: HeartbeatRequest | None = request
        """None once it is resolved."""
        self._head = frame[:CORRELATION_AT]
        self._tail = frame[CORRELATION_END:]
        self._before = answer[:4]
        self._after = answer[8:]
        self._beat: Beat | None = None
        """Found on demand: while a group settles, no heartbeat is like the last one."""

    def matches(self, data: bytes, pos: int, stop: int, seconds: float) -> bool:
        """Return whether the frame at `pos` is this heartbeat, and was accepted again."""
        return (
            data[pos + CORRELATION_END : stop] == self._tail
            and data[pos : pos + CORRELATION_AT] == self._head
            and (beat := self._beat or self._found()) is not None
            and self._partition.beat(beat, int(seconds * 1000) + 1)
        )

    def _found(self) -> Beat | None:
        if self._request is not None:
            self._beat = self._partition.steady_beat(self._request)
        if self._beat is not None:  # it will stay for long: keep little
            self._request = None
            self._head = _shared(self._head)
            self._before, self._after = _shared(self._before), _shared(self._after)
        return self._beat

    def is_same(self, data: bytes) -> bool:
        """Return whether `data` is exactly this heartbeat. Does not repeat it."""
        return data[CORRELATION_END:] == self._tail and data[:CORRELATION_AT] == self._head

    def answer(self, data: bytes, pos: int) -> bytes:
        return self._before + data[pos + CORRELATION_AT : pos + CORRELATION_END] + self._after


class GuardedBeat(SteadyBeat):
    """A heartbeat that was allowed, which holds until the authorizer changes, or the login of its
    connection ends.
    """

    __slots__ = ("_authorizer", "_number", "_until")

    def __init__(self, steady: SteadyBeat, authorizer: Numbered | None, until: float = inf) -> None:
        """Take over `steady`. `authorizer`: what has just allowed it, if anything; `until`: in
        seconds of the clock.
        """
        for name in SteadyBeat.__slots__:
            setattr(self, name, getattr(steady, name))
        self._authorizer = authorizer or UNCHANGING
        self._number = self._authorizer.number
        self._until = until

    def matches(self, data: bytes, pos: int, stop: int, seconds: float) -> bool:
        # As above, without another call: most requests are heartbeats.
        return (
            self._authorizer.number == self._number
            and seconds <= self._until
            and data[pos + CORRELATION_END : stop] == self._tail
            and data[pos : pos + CORRELATION_AT] == self._head
            and (beat := self._beat or self._found()) is not None
            and self._partition.beat(beat, int(seconds * 1000) + 1)
        )


def steady_beat(
    find: Find,
    request: HeartbeatRequest,
    frame: bytes,
    answer: bytes,
    authorizer: Numbered | None = None,
) -> SteadyBeat | None:
    """Return the fast path for a heartbeat that was just answered, from both frames, or None.
    `authorizer`: what has just allowed the heartbeat, if anything.
    """
    if answer[8:].strip(b"\0"):  # an error: else everything after the correlation id is 0
        return None
    found = find(request.group_id)
    partition = None if found is None else found[0].active
    if partition is None:
        return None
    steady = SteadyBeat(partition, request, frame, answer)
    return steady if authorizer is None else GuardedBeat(steady, authorizer)
