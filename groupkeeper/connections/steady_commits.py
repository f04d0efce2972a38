"""The fast path of a connection for repeated commits.

A consumer commits the same partitions repeatedly: only offsets and correlation id differ. This
keeps the bytes of the last commit, its result, and the bytes of its answer. While all other bytes
match, a commit is not decoded, checked and encoded again: the offsets are stored immediately
(`coordinator/steady_commit.py`).
"""

from dataclasses import replace
from struct import Struct
from typing import Any, Final

from groupkeeper.connections.call import Call, Sender
from groupkeeper.connections.steady import CORRELATION_AT, CORRELATION_END, Driver, Find, Numbered
from groupkeeper.coordinator.steady_commit import SteadyCommit
from groupkeeper.exchange import Response
from groupkeeper.groups.topic_check import Moment
from groupkeeper.protocol.commit_frame import FIRST_VERSION, offsets_at
from groupkeeper.protocol.framing import RequestHeader, read_request_header

OFFSETS_MOST: Final = 100
"""Commits of more partitions have no fast path."""
UNUSED_MOST: Final = 5
"""Consecutive unused fast paths after which a connection gets no more: its commits have other
partitions each time, or other metadata."""

_OFFSET_BYTES: Final = 8
_correlation_id = Struct(">i").unpack


class SteadyFrame:
    """The bytes of a commit that was decoded and accepted once, and of its answer."""

    __slots__ = ("_after", "_before", "_fields", "_fixed", "_moment", "commit", "driver", "header")

    def __init__(
        self,
        found: tuple[Driver, Moment],
        commit: SteadyCommit,
        header: RequestHeader,
        frames: tuple[bytes, bytes],
        offsets: list[int],
    ) -> None:
        """`frames`: request and answer. `offsets`: their positions in the request."""
        request, response = frames
        self.driver, self._moment = found
        self.commit, self.header = commit, header
        self._before, self._after = response[:4], response[8:]
        # The part before the correlation id; and the texts before, between and after the offsets.
        starts = [CORRELATION_END, *(at + _OFFSET_BYTES for at in offsets)]
        stops = [*offsets, len(request)]
        texts = [f"{stop - start}s" for start, stop in zip(starts, stops, strict=True)]
        self._fields = Struct(f">{CORRELATION_AT}s4x{f'{_OFFSET_BYTES}s'.join(texts)}").unpack_from
        fields = self._fields(request)
        self._fixed = fields[0], fields[1::2]

    def offsets_in(self, data: bytes, pos: int) -> tuple[bytes, ...] | None:
        """Return the offsets in the frame at `pos`, 8 bytes each; None if anything else differs.
        Also None if a topic was deleted. The frame is as long as this one.
        """
        fields = self._fields(data, pos)
        head, texts = self._fixed
        if fields[1::2] != texts or fields[0] != head or self._moment.later is not None:
            return None
        return fields[2::2]

    def answer(self, correlation: bytes) -> bytes:
        return self._before + correlation + self._after


class SteadyCall(Call):
    """A repeated commit in progress, whose answer is known in advance."""

    __slots__ = ("_correlation", "_frame")

    def __init__(
        self, sender: Sender, frame: SteadyFrame, correlation: bytes, began: float
    ) -> None:
        super().__init__(sender, frame.header, frame.commit.caller, began)
        self._frame = frame
        self._correlation = correlation

    def answer(self, response: Response) -> None:
        """Send the known answer, or encode a different one, of a partition closed meanwhile."""
        frame = self._frame
        if response is frame.commit.response:
            self.sender.answered_in_bytes(self, frame.answer(self._correlation))
        else:
            (correlation_id,) = _correlation_id(self._correlation)
            self.header = replace(self.header, correlation_id=correlation_id)
            self.sender.answered(self, response)


class SteadyCommits:
    """The commits of one connection."""

    __slots__ = ("_frame", "_is_used", "_unused", "size")

    def __init__(self) -> None:
        self._frame: SteadyFrame | None = None
        self._is_used = True
        self._unused = 0
        """Number of consecutive unused fast paths."""
        self.size = 0
        """Bytes of a frame that may be a repeated commit; 0: none is."""

    def offsets_in(self, data: bytes, pos: int) -> tuple[bytes, ...] | None:
        """Return the offsets in the frame of `size` bytes at `pos`, if it repeats the commit."""
        return None if self._frame is None else self._frame.offsets_in(data, pos)

    def call(self, sender: Sender, data: bytes, pos: int, now: float) -> SteadyCall:
        """Return the call of that frame."""
        assert self._frame is not None
        correlation = data[pos + CORRELATION_AT : pos + CORRELATION_END]
        return SteadyCall(sender, self._frame, correlation, now)

    def asked(self) -> None:
        """Note that a decoded commit was just allowed, and may be expected again."""

    def repeat(self, call: SteadyCall, offsets: tuple[bytes, ...]) -> bool:
        """Store the offsets. False if the request has to be decoded and decided instead."""
        assert self._frame is not None
        self._is_used = self._frame.driver.commit_again(self._frame.commit, offsets, call)
        return self._is_used

    def answered(self, find: Find, call: Call, response: Any, answer: bytes) -> None:
        """Expect a decoded and answered commit again, with other offsets."""
        assert call.asked is not None
        self._unused = 0 if self._is_used else self._unused + 1
        self._frame, self.size = None, 0
        if self._unused < UNUSED_MOST:
            self._frame = _steady(find, call, response, answer)
        if self._frame is not None:
            self._is_used, self.size = False, len(call.asked[1])


class GuardedCommits(SteadyCommits):
    """The commits of a connection, each of which has to be allowed: what was allowed once is, until
    the authorizer changes.
    """

    __slots__ = ("_asked_at", "_authorizer", "_number")

    def __init__(self, authorizer: Numbered) -> None:
        super().__init__()
        self._authorizer = authorizer
        self._number = self._asked_at = authorizer.number

    def offsets_in(self, data: bytes, pos: int) -> tuple[bytes, ...] | None:
        return super().offsets_in(data, pos) if self._authorizer.number == self._number else None

    def asked(self) -> None:
        self._asked_at = self._authorizer.number

    def answered(self, find: Find, call: Call, response: Any, answer: bytes) -> None:
        self._number = self._asked_at
        super().answered(find, call, response, answer)


def commits_of(authorizer: Numbered | None) -> SteadyCommits:
    """Return the commits of a new connection."""
    return SteadyCommits() if authorizer is None else GuardedCommits(authorizer)


def _steady(find: Find, call: Call, response: Any, answer: bytes) -> SteadyFrame | None:
    assert call.asked is not None
    (request, frame), version = call.asked, call.header.api_version
    if version < FIRST_VERSION or any(
        row.error_code for each in response.topics for row in each.partitions
    ):
        return None
    found = find(request.group_id)
    partition = None if found is None else found[0].active
    if found is None or partition is None:
        return None
    body = read_request_header(frame, 4, len(frame))[1]
    offsets = offsets_at(frame, body, version, OFFSETS_MOST)
    commit = partition.steady_commit(request, response, call.caller) if offsets else None
    if offsets is None or commit is None:
        return None
    return SteadyFrame(found, commit, call.header, (frame, answer), offsets)
