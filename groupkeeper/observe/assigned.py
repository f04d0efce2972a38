"""The effects of an assignment: each consumer's partitions, and which partitions moved.

Parses the consumer protocol's bytes in the leader's SyncGroup; other protocols are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from groupkeeper.coordinator.facts import RebalanceCompleted
from groupkeeper.protocol.embedded import CONSUMER, read_assigned, read_owned

Assigned = Mapping[str, Sequence[int]]
"""The partitions of a member by topic."""


READ_BYTES: Final = 256 * 1024
"""Larger plans are not parsed: storing their events would store the whole group."""

KNOWN_BYTES: Final = 256
KNOWN: Final = 2_000
"""Number of parsed assignments to cache, each of at most `KNOWN_BYTES`. Most rebalances change few
assignments, and members wait while assignments are parsed."""


def assigned_of(fact: RebalanceCompleted) -> dict[str, Assigned] | None:
    """Return the assignments by member id; None if these are not assignments of consumers."""
    size = sum(len(data) for _, _, data in fact.assignments)
    if fact.protocol_type != CONSUMER or size > READ_BYTES:
        return None
    return _read((member_id, data) for member_id, _, data in fact.assignments)


def moves(
    fact: RebalanceCompleted, assigned: Mapping[str, Assigned] | None
) -> tuple[int | None, int | None]:
    """Return how many partitions moved to another member, and the longest standstill in ms.

    None and None if the plan or the previous one is unknown or not readable, and, of members that
    keep their partitions, for a plan that only takes partitions away: the next plan assigns them.

    A partition stands still from the JoinGroup of its previous member to the end of the rebalance;
    from the start, if that member did not join. If members keep their partitions while they rejoin,
    only partitions that move stand still. The duration is approximate.
    """
    size = sum(map(len, fact.previous.values()))
    if assigned is None or not 0 < size <= READ_BYTES:
        return None, None
    now = {member_id: data for member_id, _, data in fact.assignments}
    changed = {each: data for each, data in fact.previous.items() if now.get(each) != data}
    before = _read(changed.items())
    if before is None:
        return None, None
    owner = {each: member_id for member_id, mine in before.items() for each in _each(mine)}
    cooperative = bool(kept(fact))
    moved, known, stood_from = 0, 0, [fact.duration_ms]
    for member_id, mine in assigned.items():
        if member_id in fact.previous and member_id not in changed:
            if not cooperative and any(mine.values()):
                stood_from.append(fact.arrivals.get(member_id, 0))
            continue
        for each in _each(mine):
            old = owner.get(each)
            known += old is not None
            if old != member_id:
                moved += 1
            elif cooperative:
                continue
            stood_from.append(fact.arrivals.get(old or "", 0))
    if cooperative and not moved and known < len(owner):
        return None, None
    return moved, fact.duration_ms - min(stood_from)


def kept(fact: RebalanceCompleted) -> bool | None:
    """Return whether consumers kept their partitions while they rejoined: their JoinGroup names
    some as owned (KIP-429), whatever the name of the protocol. None if no member with partitions
    rejoined, or its metadata is not that of a consumer.
    """
    if fact.protocol_type != CONSUMER:
        return None
    owning = [
        None if (owned := read_owned(data)) is None else bool(owned)
        for member_id, data in fact.metadata.items()
        if (before := _read([(member_id, fact.previous[member_id])])) is not None
        and any(before[member_id].values())
    ]
    if None in owning or not owning:
        return True if True in owning else None
    return True in owning


def _read(plan: Iterable[tuple[str, bytes]]) -> dict[str, Assigned] | None:
    found: dict[str, Assigned] = {}
    for member_id, data in plan:
        mine = (_known if len(data) <= KNOWN_BYTES else read_assigned)(data) if data else {}
        if mine is None:
            return None
        found[member_id] = mine
    return found


_known = lru_cache(KNOWN)(read_assigned)


def _each(mine: Assigned) -> Iterator[tuple[str, int]]:
    return ((topic, index) for topic, indexes in mine.items() for index in indexes)
