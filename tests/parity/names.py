"""What the things of one run of a transcript are called in its text, and the other way round."""

from collections.abc import Collection
from hashlib import md5
from typing import Any

from groupkeeper.protocol.messages.list_groups import ListGroupsResponse
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.testing.wire.telling import TextNames, tell


class RunNames(TextNames):
    """Of a run whose groups and topics have a prefix, on a broker with one port."""

    omits_unknown = False
    longest = 2**31

    def __init__(self, prefix: str, port: int, shared: Collection[str]) -> None:
        """`shared`: topics without the prefix."""
        super().__init__()
        self.prefix = prefix
        self._port = port
        self._shared = shared

    # -- from text to real ---------------------------------------------------------------------

    def real_member(self, name: str) -> str:
        """The member id behind a name; a name that nobody has is an id that nobody has."""
        return next((real for real, known in self.members.items() if known == name), name)

    def real_group(self, name: str) -> str:
        return self.prefix + name if name else ""

    def real_topic(self, name: str) -> str:
        """Topics that come with the broker are everybody's, others are the run's own."""
        return name if name in self._shared else self.prefix + name

    def topic_id(self, name: str) -> bytes:
        """The id of a topic that an answer has named with it; of others, one that nobody has."""
        return self.topic_ids.setdefault(name, md5(name.encode(), usedforsecurity=False).digest())

    # -- from real to text ---------------------------------------------------------------------

    def told(self, answer: Any, version: int) -> list[str]:
        """An answer, without the groups of others. Any: each API has its own."""
        if isinstance(answer, ListGroupsResponse):
            own = [each for each in answer.groups if each.group_id.startswith(self.prefix)]
            answer.groups = own
        return tell(answer, version, self)

    def meet_topic(self, name: str, topic_id: bytes) -> None:
        super().meet_topic(name.removeprefix(self.prefix), topic_id)

    def plain(self, value: str) -> str:
        return super().plain(value).replace(self.prefix, "")

    def batches(self, data: bytes | memoryview) -> str:
        """Offset and number of records of each batch."""
        batches = [(each.base_offset, each.record_count) for each in iter_batches(bytes(data))]
        return " ".join(f"{base}+{count}" for base, count in batches)

    def port(self, port: int) -> str:
        return "PORT" if port == self._port else str(port)
