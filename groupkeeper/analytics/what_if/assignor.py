"""The assignors of the model: even shares, for members that all subscribe to the same topics."""

from collections import deque
from collections.abc import Iterable


def ranges(members: Iterable[str], partitions: int) -> dict[str, list[int]]:
    """Return the partitions of each member: a range, as of Kafka's `RangeAssignor`."""
    plan, begin = {}, 0
    for member, number in _quotas(sorted(members), partitions).items():
        plan[member] = [*range(begin, begin + number)]
        begin += number
    return plan


def shared(owned: dict[str, list[int]], partitions: int) -> dict[str, list[int]]:
    """Return the partitions of each member, from those that each owns, as of Kafka's
    `CooperativeStickyAssignor`: members keep what they own as far as that goes, and those with room
    get the rest in turn. A partition that another member has to give up first counts for its new
    owner, and is given to nobody yet (KIP-429).
    """
    members = sorted(owned, key=lambda member: (-len(owned[member]), member))
    quota = _quotas(members, partitions)
    plan = {member: sorted(owned[member])[: quota[member]] for member in members}
    kept = {number for numbers in plan.values() for number in numbers}
    held = {number for numbers in owned.values() for number in numbers}
    room = {member: quota[member] - len(plan[member]) for member in members}
    turns = deque(member for member in members if room[member])
    for number in range(partitions):
        if number in kept:
            continue
        member = turns.popleft()
        if number not in held:
            plan[member].append(number)
        room[member] -= 1
        if room[member]:
            turns.append(member)
    return plan


def _quotas(members: list[str], partitions: int) -> dict[str, int]:
    """Return the number of partitions of each member; the first ones have one more."""
    share, more = divmod(partitions, len(members))
    return {member: share + (index < more) for index, member in enumerate(members)}
