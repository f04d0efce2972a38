"""Partitions that a plan took from a member and gave to nobody yet.

An incremental assignor (KIP-429) takes a partition from one member in a first rebalance, and gives
it to another one in a second, which the first member asks for when it has given the partition up.
One that is lost before cannot ask, and nor can the client that continues in its place: it never had
the partition. So the coordinator asks. What a member held is in its metadata, and what it holds in
its assignment; both are in the group's record, so that a coordinator that loads it knows as much.
"""

from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.member import Member
from groupkeeper.protocol.embedded import CONSUMER, decode_subscription, read_assigned, with_owned
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol

Places = set[tuple[str, int]]
"""Topics and partitions."""


def partitions_in(assignment: bytes) -> Places:
    """Return the partitions of an assignment; none if the bytes are none."""
    topics = read_assigned(assignment) or {}
    return {(topic, number) for topic, numbers in topics.items() for number in numbers}


def unplaced(group: Group, member: Member) -> int:
    """Return how many partitions the member held before the last plan that nobody has now. To be
    asked of a Stable group.
    """
    if group.protocol_type != CONSUMER:
        return 0
    left = _held_before(member, group.protocol_name) - partitions_in(member.assignment)
    if left:  # seldom
        for each in group.members.values():
            left -= partitions_in(each.assignment)
    return len(left)


def _held_before(member: Member, protocol: str | None) -> Places:
    try:
        owned = decode_subscription(member.metadata(protocol)).owned_partitions
    except DecodeError:
        return set()
    return {(each.topic, number) for each in owned for number in each.partitions}


def tell_for_seats(group: Group) -> None:
    """Let the metadata of lost members say what they hold now. It was sent before the last plan,
    and a cooperative leader would give their partitions away.
    """
    name = group.protocol_name
    if group.protocol_type != CONSUMER or name is None:
        return
    for member_id in group.seats:
        member = group.members[member_id]
        held = (group.old_plan or {}).get(member_id, member.assignment)
        metadata = with_owned(member.metadata(name), held, group.planned_generation)
        told = JoinGroupRequestProtocol(name=name, metadata=metadata)
        protocols = [told if each.name == name else each for each in member.protocols]
        group.update(member, protocols, (member.session_timeout_ms, member.rebalance_timeout_ms))
