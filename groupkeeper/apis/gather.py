"""One request that several steps have to answer: ask for each part, put the replies together.

Counts, nothing more. What the parts are and how their replies make one is said where the routes are
declared.
"""

from collections.abc import Callable

from groupkeeper.exchange import ReplyTo, Response


class Gather:
    """Waits for the replies to all parts of a request."""

    def __init__(self, reply_to: ReplyTo, parts: int, whole: Callable[[], Response]) -> None:
        """``whole`` puts the answer together when the last reply is there; it must be quick."""
        self.reply_to = reply_to
        self._whole = whole
        self._missing = parts

    def part(self, take: Callable[[Response], None]) -> "Part":
        """Where the reply to one part goes, and from there to ``take``."""
        return Part(self, take)

    def arrived(self) -> None:
        """One reply is here; with the last one the request is answered."""
        self._missing -= 1
        if not self._missing:
            self.reply_to.answer(self._whole())


class Part:
    """The reply token of one part."""

    __slots__ = ("_take", "gather")

    def __init__(self, gather: Gather, take: Callable[[Response], None]) -> None:
        self.gather = gather
        self._take: Callable[[Response], None] | None = take

    def answer(self, response: Response) -> None:
        take, self._take = self._take, None
        assert take is not None, "a part is answered exactly once"
        take(response)
        self.gather.arrived()


class After:
    """The reply token of a request whose answer is changed before it leaves."""

    __slots__ = ("_change", "reply_to")

    def __init__(self, reply_to: ReplyTo, change: Callable[[Response], Response]) -> None:
        self.reply_to = reply_to
        self._change = change

    def answer(self, response: Response) -> None:
        self.reply_to.answer(self._change(response))
