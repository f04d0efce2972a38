"""Counts what members commit, for one `commits` event per member and minute."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from groupkeeper.coordinator.facts import NotedFact, OffsetsCommitted
from groupkeeper.protocol.group_events import Event

PERIOD_S: Final = 60.0
"""How long commits are counted before they are told."""
MEMBERS_MOST: Final = 1_000
"""Members of a partition whose commits are counted apart; those of the others are left out."""
PLACES_MOST: Final = 1_000
"""Topic partitions that are told of one member. Committing more than that is legal, and rare."""


@dataclass(slots=True)
class _Member:
    """The commits of one member."""

    last: NotedFact
    requests: int = 0
    partitions: dict[str, dict[int, None]] = field(default_factory=dict)
    places: int = 0


class CommitTally:
    """The commits of one partition's groups since the last `take`."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, ...], _Member] = {}
        self.left_out = 0
        """Commits that were not counted."""

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, noted: NotedFact) -> None:
        """Count a commit that is durable."""
        fact = noted.fact
        assert isinstance(fact, OffsetsCommitted)
        key = (fact.group,)
        member = self._members.get(key)
        if member is None:
            if len(self._members) >= MEMBERS_MOST:
                self.left_out += 1
                return
            member = self._members[key] = _Member(noted)
        member.last = noted
        member.requests += 1

    def take(self, now: int, wall: int) -> Iterator[Event]:
        """The events, and begin anew. Times are monotonic and Unix ms."""
        members, self._members = self._members, {}
        for member in members.values():
            fact = member.last.fact
            fields: dict[str, Any] = {
                "who": None,
                "requests": member.requests,
                "partitions": {topic: sorted(some) for topic, some in member.partitions.items()},
            }
            head = fact.group, "commits", fact.generation, fact.state
            yield Event(-1, -1, -1, wall, now, *head, fields=fields)
