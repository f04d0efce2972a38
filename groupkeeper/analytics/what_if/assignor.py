"""The assignor of the model: even shares, and members keep what they own as far as that goes."""


def shared(owned: dict[str, list[int]], partitions: int) -> dict[str, list[int]]:
    """Return the partitions of each member, from those that each owns. What another member owns is
    given to nobody.
    """
    members = sorted(owned, key=lambda member: (-len(owned[member]), member))
    share, more = divmod(partitions, len(members))
    quota = {member: share + (index < more) for index, member in enumerate(members)}
    plan = {member: sorted(owned[member])[: quota[member]] for member in members}
    held = {number for numbers in owned.values() for number in numbers}
    free = [number for number in range(partitions) if number not in held]
    for member in members:
        room = quota[member] - len(plan[member])
        plan[member] += free[:room]
        del free[:room]
    return plan
