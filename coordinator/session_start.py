"""Starts the sessions of all members after a load, in slices, before the partition is active."""

from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import await_return, restart_session
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.rebalance import prepare
from groupkeeper.coordinator.scaling import follow_policy
from groupkeeper.coordinator.seats import restart_seats
from groupkeeper.coordinator.standby import find_standbys, hands_over, look_for_user_data
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.steps import ask
from groupkeeper.protocol.embedded import count_assigned
from groupkeeper.protocol.group_events import CauseCode

SESSIONS_IN_A_SLICE: Final = 500
"""How many groups, members and topics a slice takes, in about half a millisecond."""


@dataclass(slots=True)
class SessionStart:
    """Progress of the start."""

    members: int = 0
    offsets: int = 0
    """Number of offsets in groups whose sessions run."""
    _left: list[Member] = field(default_factory=list)
    """Members without a session in the group begun last, the next one last."""

    def go_on(self, groups: Groups, left: list[str], step: Step) -> None:
        """Start the sessions of a slice of the members; for `left` see `Partition.start_sessions`.

        Each session starts in full when its slice does.
        """
        room, members = SESSIONS_IN_A_SLICE, self._left
        while left and room > 0:
            group = groups[left[-1]]
            if not members:
                groups.set_policy(group)
                await_return(group)
                look_for_user_data(group)
                members += reversed(group.members.values())
            some = members[: -room - 1 : -1]
            asks = hands_over(group)
            for member in some:
                if member.member_id not in group.seats:
                    restart_session(group, member, step)
                    if asks and count_assigned(member.assignment):
                        ask(group, member, step)  # it may not know yet what it has
                member.heard_ms = step.now  # as far as is known
            del members[-room:]
            room -= 1 + len(some)
            if not members:
                room -= len(group.offsets)
                self._has_started(group, step)
                left.pop()

    def _has_started(self, group: Group, step: Step) -> None:
        restart_seats(group, step)
        find_standbys(group)
        if not group.is_deserted:
            follow_policy(group, step)
        most = step.config.max_size
        if len(group.members) > most:
            prepare(group, Cause(CauseCode.GROUP_SHRUNK, evidence={"limit": most}), step)
        self.members += len(group.members)
        self.offsets += sum(map(len, group.offsets.values()))
