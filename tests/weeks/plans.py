"""What leaders assign: ranges as an eager assignor, and a sticky plan in two steps as a cooperative
one (KIP-429).
"""

from collections.abc import Mapping, Sequence

Share = list[int]
"""Partitions of the group's topic."""


def ranges(members: Sequence[str], partitions: int) -> dict[str, Share]:
    """Runs of partitions, the first members one more where it does not come out even."""
    plan: dict[str, Share] = {}
    each, more = divmod(partitions, len(members))
    start = 0
    for number, member in enumerate(sorted(members)):
        end = start + each + (number < more)
        plan[member] = list(range(start, end))
        start = end
    return plan


def sticky(owned: Mapping[str, Share], partitions: int) -> dict[str, Share]:
    """Members keep what they have, up to a fair share. A partition that has to move is given to
    nobody: its owner gives it up, and the next round hands it out.
    """
    members = sorted(owned)
    each, more = divmod(partitions, len(members))
    plan: dict[str, Share] = {}
    taken: set[int] = set()
    for member in sorted(members, key=lambda one: (-len(owned[one]), one)):
        limit = each + (more > 0)
        kept = [one for one in owned[member] if one not in taken][:limit]
        more -= len(kept) > each
        plan[member] = kept
        taken.update(kept)
    moving = {one for share in owned.values() for one in share} - taken
    free = [one for one in range(partitions) if one not in taken and one not in moving]
    for one in free:
        least = min(members, key=lambda member: (len(plan[member]), member))
        plan[least].append(one)
    return {member: sorted(share) for member, share in plan.items()}
