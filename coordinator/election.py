"""The protocol of a group: which members may join with theirs, which one is elected, and the topics
of its metadata.

Source: `ClassicGroup.supportsProtocols`, `selectProtocol`, `computeSubscribedTopics`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member, Protocols, most_wanted
from groupkeeper.coordinator.subscription import topics_of_all
from groupkeeper.protocol.embedded import CONSUMER

NO_TOPICS: Final[frozenset[str]] = frozenset()


def accepts(group: Group, protocol_type: str, protocols: Protocols) -> bool:
    """Return whether a member with these protocols may join. The protocols that it offered before
    count, too.
    """
    if group.state is GroupState.EMPTY:
        return bool(protocol_type) and bool(protocols)
    if protocol_type != group.protocol_type:
        return False
    all_members = len(group.members)
    for each in protocols:  # noqa: SIM110  # a generator calls once more for each
        if group.support.get(each.name, 0) == all_members:
            return True
    return False


def elect(group: Group) -> str:
    """Return the protocol with most first choices among the protocols that all members support.

    Kafka leaves a tie to chance; here the first choice of the earliest member wins.
    """
    return _elected(group, group.support, (m.protocols for m in group.members.values()))


def would_elect(group: Group, member: Member, protocols: Protocols) -> str:
    """Return the protocol that `elect` would choose if the member offered this list."""
    if protocols == member.protocols:  # nearly always
        return elect(group)
    support = Counter(group.support)
    support.subtract(protocol.name for protocol in member.protocols)
    support.update(protocol.name for protocol in protocols)
    others = group.members.values()
    return _elected(group, support, (protocols if m is member else m.protocols for m in others))


def _elected(group: Group, support: Mapping[str, int], ballots: Iterable[Protocols]) -> str:
    all_members = len(group.members)
    return most_wanted({n for n, count in support.items() if count == all_members}, ballots)


def resubscribe(group: Group) -> None:
    """Read the topics of a group from the metadata of its members; see `topics_of_all`."""
    group.subscription = None
    if group.protocol_type != CONSUMER:
        return
    if not group.members:
        group.subscription = NO_TOPICS
        return
    if group.protocol_name is None:
        return
    metadata = (member.metadata(group.protocol_name) for member in group.members.values())
    group.subscription = topics_of_all(metadata)
