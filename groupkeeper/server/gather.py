"""One request that several partitions have to answer: split, ask each, put the replies together.

Counts and merges, nothing more. What the parts are and how their replies make one is said where
the routes are declared.
"""

from collections.abc import Callable
from typing import Any

from groupkeeper.exchange import ReplyTo, Response

Merge = Callable[[list[Response]], Response]
"""Replies in the order of the parts -> the one reply."""


class Gather:
    """Waits for the replies to all parts of a request."""

    def __init__(self, reply_to: ReplyTo, parts: int, merge: Merge) -> None:
        self._reply_to = reply_to
        self._merge = merge
        self._replies: list[Any] = [None] * parts
        self._missing = parts

    def part(self, index: int) -> "Part":
        """Where the reply to one part goes."""
        return Part(self, index)

    def arrived(self, index: int, response: Response) -> None:
        """One reply is here; with the last one the request is answered."""
        assert self._replies[index] is None, "a part is answered exactly once"
        self._replies[index] = response
        self._missing -= 1
        if not self._missing:
            self._reply_to.answer(self._merge(self._replies))


class Part:
    """The reply token of one part."""

    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather, index: int) -> None:
        self._gather = gather
        self._index = index

    def answer(self, response: Response) -> None:
        self._gather.arrived(self._index, response)
