"""Splits one request into parts for several steps, and gathers their replies into one response."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Awaited, Handler, ReplyTo, Response
from groupkeeper.turns import Turns

PART_PARTITIONS: Final = 500
"""How many partitions of a commit or a deletion are checked in one slice."""

T = TypeVar("T")


def cut(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into parts."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def cut_topics(topics: Iterable[Any]) -> Iterator[tuple[Any, list[Any], bool]]:
    """Yield each topic with up to PART_PARTITIONS partitions; True: more of it follow."""
    for topic in topics:
        if len(topic.partitions) <= PART_PARTITIONS:
            yield topic, topic.partitions, False
        else:
            for at, some in enumerate(cut(topic.partitions, PART_PARTITIONS)):
                yield topic, list(some), at > 0


class Gather:
    """Waits for the replies to all parts of a request."""

    def __init__(self, reply_to: ReplyTo, parts: int, whole: Callable[[], Response]) -> None:
        """`whole` makes the response after the last reply; it must be quick."""
        self.reply_to = reply_to
        self._whole = whole
        self._missing = parts

    def part(self, take: Callable[[Response], None]) -> "PartReply":
        """Return a reply token for one part, which passes the reply to `take`."""
        return PartReply(self, take)

    def arrived(self) -> None:
        """Count a reply; the last one answers the request."""
        self._missing -= 1
        if not self._missing:
            self.reply_to.answer(self._whole())


class PartReply:
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


class MappedReply:
    """The reply token of a request whose response is changed before it is sent."""

    __slots__ = ("_change", "reply_to")

    # Any: the response of the request's own API.
    def __init__(self, reply_to: ReplyTo, change: Callable[[Any], Response]) -> None:
        self.reply_to = reply_to
        self._change = change

    def answer(self, response: Response) -> None:
        self.reply_to.answer(self._change(response))


def part_replies(
    reply_to: ReplyTo, parts: int, whole: Callable[[list[Any]], Response]
) -> list[PartReply]:
    """Return a token for each part. The response is the first error, or `whole` of the replies."""
    replies: list[Any] = [None] * parts

    def response() -> Response:
        return next((reply for reply in replies if reply.error_code), None) or whole(replies)

    gather = Gather(reply_to, parts, response)
    return [gather.part(partial(replies.__setitem__, at)) for at in range(parts)]


# Any: messages of one API.
async def ask(handle: Handler, request: Any, caller: Caller, turns: Turns) -> Any:
    """Return the response to a request that comes from no connection."""
    reply_to = Awaited()
    answer = handle(request, caller, reply_to)
    if isinstance(answer, Generator):
        answer = await turns.run(answer)
    return await reply_to.response if answer is None else answer
