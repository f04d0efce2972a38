"""Records the requests and responses of a test broker, in the format of the parity transcripts.

     0.012  lea -> JoinGroup v9: group_id=billing session_timeout_ms=10000 ...
              protocols: name=range metadata=<orders>
     0.014  lea <- JoinGroup: NONE generation_id=1 ... leader=lea-1 member_id=lea-1

See telling.py for the format of fields. Connections are named by client id: `lea`, then `lea/2`.
Repetitions of the same request and response on a connection are one entry with their number.
Responses are recorded as sent, after faults have changed them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from groupkeeper.coordinator.caller import Caller, Link, Peer
from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.embedded import read_assigned, subscribed_topics
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, StructOf
from groupkeeper.testing.wire.tap import Answer, Exchange
from groupkeeper.testing.wire.telling import TextNames, tell
from groupkeeper.why.texts import partitions_text

ENTRIES: Final = 5_000
"""Maximum number of exchanges and remarks; the oldest are dropped and counted."""
CHARACTERS: Final = 8 * 1024 * 1024
"""Maximum total size in characters."""
ELEMENTS: Final = 200
"""Maximum number of array elements in a message written with its fields. Each takes about 10 µs of
the event loop."""
LINE: Final = 2_000
"""Maximum line length in characters; longer lines are cut."""

# Any: each API has its own messages.


@dataclass(slots=True)
class _Said:
    """One entry: an exchange, or a remark, which has no API."""

    at_ms: int
    who: str = ""
    client: str = ""
    api: str = ""
    asked: list[str] = field(default_factory=list)
    answered_ms: int = 0
    answered_number: int = 0
    """Position of the response among all requests and responses; 0 without a response."""
    answered: list[str] = field(default_factory=list)
    times: int = 1
    last_ms: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.asked)) + sum(map(len, self.answered))


class Transcript:
    """The outermost layer of a tap, which records all exchanges."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        """`wall_ms`: the broker's clock."""
        self._wall_ms = wall_ms
        self.clear()

    def clear(self) -> None:
        """Drop all entries, and restart the time at 0."""
        self._names = TextNames()
        self._began_ms = self._wall_ms()
        self._said: dict[int, _Said] = {}
        self._numbers = 0
        self._size = 0
        self._dropped = 0
        self._last = WeakKeyDictionary[Link, int]()
        """Number of the last exchange of each connection."""
        self._connections = WeakKeyDictionary[Link, str]()
        """Name of each connection."""
        self._opened: dict[str, int] = {}

    # -- on the server's loop ------------------------------------------------------------------

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """See `Layer`."""
        version, key = exchange.caller.api_version, exchange.key
        who = self._who(exchange.caller.peer)
        said = _Said(self._wall_ms(), who, exchange.caller.peer.client_id, APIS[key].name)
        self._learn(exchange.request)
        first, *rest = self._told(exchange.request, version)
        said.asked = _cut([f"{who} -> {said.api} v{version}: {first}".rstrip(), *rest])
        number = self._add(said)
        exchange.on_answer(partial(self._answered, number, exchange.caller))
        proceed()

    def remark(self, text: str) -> None:
        """Add a line about the broker. On the server's loop, or while no server runs."""
        self._add(_Said(self._wall_ms(), asked=[f"-- {text}"]))

    def _add(self, said: _Said) -> int:
        self._numbers += 1
        self._said[self._numbers] = said
        self._size += said.size
        while len(self._said) > ENTRIES or (self._size > CHARACTERS and len(self._said) > 1):
            oldest = next(iter(self._said))
            self._size -= self._said.pop(oldest).size
            self._dropped += 1
        return self._numbers

    def _answered(self, number: int, caller: Caller, answer: Answer) -> Answer:
        said = self._said.get(number)
        if said is None:  # dropped in the meantime
            return answer
        if isinstance(answer, JoinGroupResponse):
            self._meet(answer)
        first, *rest = self._told(answer, caller.api_version)
        said.answered = _cut([f"{said.who} <- {said.api}: {first}".rstrip(), *rest])
        self._size += said.size - sum(map(len, said.asked))
        said.answered_ms = said.last_ms = self._wall_ms()
        self._numbers += 1
        said.answered_number = self._numbers
        self._fold(number, said, caller.peer.link)
        return answer

    def _fold(self, number: int, said: _Said, link: Link) -> None:
        """Merge an exchange into the connection's previous one if they are equal."""
        last = self._last.get(link, 0)
        before = self._said.get(last)
        if before is not None and (before.asked, before.answered) == (said.asked, said.answered):
            before.times += 1
            before.last_ms = said.last_ms
            self._size -= self._said.pop(number).size
        else:
            self._last[link] = number

    def _who(self, peer: Peer) -> str:
        known = self._connections.get(peer.link)
        if known is not None:
            return known
        name = self._names.text(peer.client_id or "client")
        self._opened[name] = nth = self._opened.get(name, 0) + 1
        who = name if nth == 1 else f"{name}/{nth}"
        self._connections[peer.link] = who
        return who

    # -- messages ------------------------------------------------------------------------------

    def _learn(self, request: Any) -> None:
        """Note descriptions of the subscriptions and assignments in a request."""
        if isinstance(request, JoinGroupRequest):
            self._names.meet(request.member_id)
            for protocol in request.protocols[:ELEMENTS]:
                topics = subscribed_topics(bytes(protocol.metadata))
                if topics is not None:
                    self._names.note_bytes(protocol.metadata, "+".join(topics))
        elif isinstance(request, SyncGroupRequest):
            for each in request.assignments[:ELEMENTS]:
                assigned = read_assigned(bytes(each.assignment))
                if assigned is not None:
                    self._names.note_bytes(each.assignment, partitions_text(assigned))

    def _meet(self, answer: JoinGroupResponse) -> None:
        for member_id in (answer.member_id, *(each.member_id for each in answer.members)):
            self._names.meet(member_id)

    def _told(self, message: Any, version: int) -> list[str]:
        if message is NO_REPLY:
            return ["(no response)"]
        if not hasattr(type(message), "__layout__"):
            return [f"<{len(message)} bytes>"]
        elements = _elements(message)
        return (
            [f"({elements} elements)"]
            if elements > ELEMENTS
            else tell(message, version, self._names)
        )

    # -- for any thread ------------------------------------------------------------------------

    def text(self, apis: Collection[str], clients: Collection[str], *, times: bool) -> str:
        """Return the transcript in order of time. Empty collections select everything."""
        lines: dict[int, list[str]] = {}
        for number, said in [*self._said.items()]:
            if (apis and said.api not in apis) or (clients and said.client not in clients):
                continue
            lines[number] = self._timed(said.at_ms, self._asked(said, times=times), times=times)
            if said.answered_number:
                answered = self._timed(said.answered_ms, said.answered, times=times)
                lines[said.answered_number] = answered
        text = [line for number in sorted(lines) for line in lines[number]]
        if self._dropped:
            text.insert(0, f"-- the first {self._dropped} exchanges were dropped")
        return "\n".join(text)

    def _asked(self, said: _Said, *, times: bool) -> list[str]:
        if said.times == 1:
            return said.asked
        until = f", until {self._seconds(said.last_ms).strip()}" if times else ""
        return [f"{said.asked[0]} ({said.times} times{until})", *said.asked[1:]]

    def _timed(self, at_ms: int, lines: list[str], *, times: bool) -> list[str]:
        if not times:
            return lines
        first, *rest = lines
        return [f"{self._seconds(at_ms)}  {first}", *(f"{'':10}{each}" for each in rest)]

    def _seconds(self, at_ms: int) -> str:
        return f"{(at_ms - self._began_ms) / 1000:8.3f}"


def _cut(lines: list[str]) -> list[str]:
    return [each if len(each) <= LINE else f"{each[:LINE]}..." for each in lines]


def _elements(message: Any, depth: int = 3) -> int:
    """Count the elements of a message's arrays, nested ones included, until above `ELEMENTS`."""
    found = 0
    for each in layout_of(type(message)).fields:
        if isinstance(each.type, ArrayOf):
            some = getattr(message, each.name, None) or ()
            found += len(some)
            if isinstance(each.type.item, StructOf) and depth and found <= ELEMENTS:
                found += sum(_elements(one, depth - 1) for one in some)
        if found > ELEMENTS:
            break
    return found
