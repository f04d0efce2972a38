"""Assignors of simulated consumers: who gets which partitions, as the leader computes it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from tests.support.codecs import encode_assignment

Place = tuple[str, int]
"""Topic and partition."""
Counts = Mapping[str, int]
"""Topic to its number of partitions."""
Shares = dict[str, set[Place]]
"""By member id."""

RANGE: Final = "range"
STICKY: Final = "cooperative-sticky"
TOPICS: Final[Mapping[str, int]] = {"t": 5, "u": 2}
"""How many partitions each topic has."""


class ClaimedTwice(AssertionError):
    """Two members say that they hold a partition since the same generation."""


def places_of(topics: Iterable[str], counts: Counts = TOPICS) -> list[Place]:
    return [(topic, number) for topic in sorted(topics) for number in range(counts[topic])]


def encoded(share: Iterable[Place]) -> bytes:
    """The assignment as it is sent; also of nothing, which is not empty."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(share):
        numbers.setdefault(topic, []).append(number)
    assigned = [TopicPartition(topic=topic, partitions=each) for topic, each in numbers.items()]
    return encode_assignment(Assignment(version=1, assigned_partitions=assigned))


def plan(protocol: str, members: Mapping[str, Subscription], counts: Counts = TOPICS) -> Shares:
    """What the leader assigns."""
    return _sticky(members, counts) if protocol == STICKY else _range(members, counts)


def _range(members: Mapping[str, Subscription], counts: Counts) -> Shares:
    """Of each topic a run of partitions for each member that subscribes to it."""
    shares: Shares = {each: set() for each in members}
    for topic in _topics(members):
        readers = sorted(each for each, told in members.items() if topic in told.topics)
        least, more = divmod(counts[topic], len(readers))
        first = 0
        for number, reader in enumerate(readers):
            count = least + (number < more)
            shares[reader] |= {(topic, each) for each in range(first, first + count)}
            first += count
    return shares


def _sticky(members: Mapping[str, Subscription], counts: Counts) -> Shares:
    """Balanced with few moves. What another member holds is left out until it has given it up."""
    there = places_of(_topics(members), counts)
    known = set(there)
    holders = {place: each for place, each in _holders(members).items() if place in known}
    owners = dict(holders)
    loads = Counter(owners.values())
    for place in there:
        if place not in owners:
            owner = min(_readers(members, place[0]), key=lambda each: (loads[each], each))
            owners[place] = owner
            loads[owner] += 1
    while _moved_one(members, owners, loads):
        pass
    shares: Shares = {each: set() for each in members}
    for place, owner in owners.items():
        if holders.get(place, owner) == owner:
            shares[owner].add(place)
    return shares


def _topics(members: Mapping[str, Subscription]) -> list[str]:
    return sorted({topic for told in members.values() for topic in told.topics})


def _readers(members: Mapping[str, Subscription], topic: str) -> list[str]:
    return sorted(each for each, told in members.items() if topic in told.topics)


def _holders(members: Mapping[str, Subscription]) -> dict[Place, str]:
    """Who holds what, by what they say; of two the one with the later generation.

    Raises ClaimedTwice.
    """
    found: dict[Place, tuple[int, str]] = {}
    for member_id, told in sorted(members.items()):
        for each in told.owned_partitions:
            for place in ((each.topic, number) for number in each.partitions):
                if each.topic not in told.topics:
                    continue
                since, holder = found.get(place, (-2, ""))
                if holder and told.version > 1 and since == told.generation_id:
                    raise ClaimedTwice(place, holder, member_id)
                if told.generation_id > since:
                    found[place] = told.generation_id, member_id
    return {place: holder for place, (_, holder) in found.items()}


def _moved_one(
    members: Mapping[str, Subscription], owners: dict[Place, str], loads: Counter[str]
) -> bool:
    """Move a partition from a member to one that has two fewer; False if there is none."""
    for place, owner in sorted(owners.items()):
        poorest = min(_readers(members, place[0]), key=lambda each: (loads[each], each))
        if loads[owner] > loads[poorest] + 1:
            owners[place] = poorest
            loads[owner] -= 1
            loads[poorest] += 1
            return True
    return False
