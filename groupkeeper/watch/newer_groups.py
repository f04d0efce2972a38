"""Consumer, share and streams groups (KIP-848, KIP-932, KIP-1071) in the form in which pages and
metrics read groups: that of a coordinator of classic groups.

`generation` is the epoch of the group, `protocol` the assignor that most members ask for, and a
state may be one that classic groups do not have. A member has its partitions as the assignment of
a classic consumer; tasks of a streams group are partitions of their subtopology.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final, cast

from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.history.epochs import shown
from groupkeeper.history.newer import NewerStory
from groupkeeper.history.newer_departures import POLL_MS, SessionLimit
from groupkeeper.history.newer_members import NewerMember
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.embedded import Assignment, TopicPartition

IDS_SHOWN: Final = 200
"""How many ids of members that an epoch waits for are shown."""
UNKNOWN_MS: Final = 0
"""Stands for a session timeout that is not known."""
_ENCODE: Final = encoder(Assignment, 0, Framing.BARE)


class NewerGroup(Group):
    """A group that is not a classic one."""

    __slots__ = ("behind", "epochs", "group_type", "since_ms")

    group_type: str
    """`consumer`, `share` or `streams`."""
    epochs: Mapping[str, int]
    """Member -> its epoch."""
    behind: list[str]
    """Members that have not reached the epoch, or wait for partitions."""
    since_ms: int | None
    """When the epoch under way began, in Unix ms; None if all have reached it."""

    @property
    def leader_id(self) -> str | None:
        """None: the server assigns."""
        return None

    @leader_id.setter
    def leader_id(self, member_id: str | None) -> None:
        """Implements `Group.leader_id`."""


class NewerState(StrEnum):
    """States that classic groups do not have."""

    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


_STATES: Final[Mapping[str, StrEnum]] = {
    **{str(each): each for each in NewerState},
    **{str(each): each for each in GroupState},
}


def newer_group(group_id: str, newer: NewerStory, limit: SessionLimit | None) -> NewerGroup:
    """Return a group as its records show it. `limit`: of its sessions."""
    kind = newer.kind
    group = NewerGroup(group_id, newer.since_ms, generation=max(0, newer.epoch), protocol_type=kind)
    group.group_type, group.behind = kind, [*newer.behind]
    group.since_ms = None if newer.round is None else newer.round.since_ms
    group.epochs = {name: each.epoch for name, each in newer.members.items()}
    asked = Counter(each.assignor for each in newer.members.values() if each.assignor)
    group.protocol_name = asked.most_common(1)[0][0] if asked else None
    topics = set[str]()
    is_whole = kind != "streams"
    for each in newer.members.values():
        group.add(_member(each, newer, limit))
        topics.update(each.topics or ())
        is_whole &= not each.pattern and each.topics is not None
    group.subscription = frozenset(topics) if is_whole else None
    # The enum of a coordinator has no states of other types of groups; readers show or compare it.
    group.state = cast("GroupState", _STATES[newer.state])
    return group


def _member(member: NewerMember, newer: NewerStory, limit: SessionLimit | None) -> Member:
    names = newer.topics.names if newer.kind != "streams" else {}
    share = [
        TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in shown(member, names).items()
    ]
    return Member(
        member_id=member.member,
        instance_id=member.instance,
        client_id=member.client_id,
        client_host=member.host,
        session_timeout_ms=UNKNOWN_MS if limit is None else limit.timeout_ms,
        rebalance_timeout_ms=POLL_MS if member.rebalance_ms is None else member.rebalance_ms,
        protocols=[],
        assignment=_ENCODE(Assignment(assigned_partitions=share)),
        is_restored=True,
    )


# Any: JSON.
def row_with_epoch(
    row: dict[str, Any], group: NewerGroup, behind: Collection[str]
) -> dict[str, Any]:
    """Return the row of a member (`coordinator.live`) with its epoch. `behind`: of the group."""
    about = {"epoch": group.epochs.get(row["member"]), "joined": row["member"] not in behind}
    return {**row, **about, "session_timeout_ms": row["session_timeout_ms"] or None}


def with_epochs(view: dict[str, Any], group: NewerGroup, wall_ms: int) -> dict[str, Any]:
    """Return the activity of a group (`coordinator.live`) with what epochs show of it, but for its
    members.
    """
    view["waiting_for"] = group.behind[:IDS_SHOWN]
    view["waiting_for_count"] = len(group.behind)
    if group.since_ms is not None:
        rebalance = group.rebalance
        cause = {} if rebalance is None else {"code": str(rebalance.cause.code)}
        view["rebalance"] = {
            "phase": "reconcile",
            "since_ms": max(0, wall_ms - group.since_ms),
            "initial_delay": False,
            "cause": cause,
        }
    return view
