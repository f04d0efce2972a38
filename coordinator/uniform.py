"""A target assignment of the server: as many partitions for each member, and few that move.

The numbers of partitions are those of Kafka's `UniformHomogeneousAssignmentBuilder`: all members
subscribe to the same topics, and differ by one partition at most. Pure.
"""

from collections.abc import Collection, Mapping, Sequence

Place = tuple[str, int]
"""A partition: topic and number."""


def uniform(
    held: Mapping[str, Collection[Place]], places: Sequence[Place]
) -> dict[str, list[Place]]:
    """Return the target of each member of `held`, which has what each holds now. `places`: all
    partitions to assign. Members keep what they hold up to their share; those that hold most get
    the larger shares. A partition that two hold goes to the first.
    """
    if not held:
        return {}
    least, larger = divmod(len(places), len(held))
    left = dict.fromkeys(places)
    kept: dict[str, list[Place]] = {}
    ordered = sorted(held, key=lambda each: -len(held[each]))
    shares = {member: least + (number < larger) for number, member in enumerate(ordered)}
    for member in ordered:
        mine = kept[member] = []
        for place in held[member]:
            if len(mine) == shares[member]:
                break
            if place in left:
                del left[place]
                mine.append(place)
    rest = iter(left)
    for member in held:
        mine = kept[member]
        mine += [next(rest) for _ in range(shares[member] - len(mine))]
    return {member: kept[member] for member in held}
