"""The members of a large group by their clients, to find one without a look at all of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from groupkeeper.coordinator.caller import Link, Peer
from groupkeeper.coordinator.member import Member

READ_AT_ONCE: Final = 512
"""How many members a call adds to the index: reading 10,000 takes 20 ms."""
LOOKED_AT: Final = 64
"""How many members with the same client id and host a call looks at."""


class MembersByClient:
    """Members by connection, and by client id and host, as they were at one moment."""

    __slots__ = ("_found", "_unread")

    def __init__(self, members: Iterable[Member]) -> None:
        self._unread = list(members)
        self._found: dict[Link | tuple[str, str], list[Member]] = {}

    def of(self, peer: Peer, is_past: Callable[[Member], bool]) -> Iterator[Member]:
        """Yield the members of this connection, then those of this client id and host, of very
        many some others with each call. A member that `is_past` is not looked at again.
        """
        self._read()
        for key in (peer.link, (peer.client_id, peer.host)):
            members = self._found.get(key, [])
            some = [member for member in members[-LOOKED_AT:] if not is_past(member)]
            members[-LOOKED_AT:] = []
            members[:0] = some
            yield from some

    def _read(self) -> None:
        for _ in range(min(READ_AT_ONCE, len(self._unread))):
            member = self._unread.pop()
            peer, name = member.peer, (member.client_id, member.client_host)
            if peer is not None:
                self._found.setdefault(peer.link, []).append(member)
                name = peer.client_id, peer.host
            self._found.setdefault(name, []).append(member)
