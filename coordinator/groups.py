"""The groups of one partition, by id. A dictionary with a birth certificate, nothing more.

The mark of how far the check for expired offsets has come is here because it is about all of them.
"""

from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import GroupCreated, GroupDropped, LimitReached
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member_bytes import MemberBytes
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsResponse

MAX_UNUSED_GROUPS: Final = 1_000
"""Of the groups made before the last so many, those go that nothing was stored of and nobody is in:
a JoinGroup that is refused makes one, which Kafka keeps until the next check for old offsets."""


@dataclass(slots=True)
class ExpiryCheck:
    """How far the check for expired offsets has come; that is done in pieces."""

    left: list[str] = field(default_factory=list)
    """Groups that it has not been through, the next one last."""
    kept: int = 0
    """How many offsets of the next one it has looked at and left where they are."""


@dataclass(slots=True)
class Deletion:
    """A DeleteGroups request that is not answered yet: some groups take several steps."""

    reply_to: ReplyTo
    response: DeleteGroupsResponse
    left: int = 0
    """How many of them."""


class Groups(dict[str, Group]):
    """Group id to group. Groups that are not here do not exist (``Dead``, to DescribeGroups)."""

    def __init__(self, member_bytes: MemberBytes | None = None) -> None:
        super().__init__()
        self.member_bytes = member_bytes or MemberBytes()
        self.expiry_check = ExpiryCheck()
        self.deletions: dict[str, Deletion] = {}
        """By the ids of groups that are being deleted. Nothing else may be done with those."""
        self._new: dict[str, Group] = {}
        """Those made last, the oldest first, whatever became of them."""

    def __setitem__(self, group_id: str, group: Group) -> None:
        """Its members count from now on."""
        group.member_bytes.give_back()
        group.member_bytes = self.member_bytes
        for member in group.members.values():
            self.member_bytes.add(member.size)
        super().__setitem__(group_id, group)

    def create(self, group_id: str, step: Step) -> Group:
        """A new, empty group. Nothing is written: a group without members or offsets is soft."""
        group = self[group_id] = self._new[group_id] = Group(group_id, step.wall)
        step.note(GroupCreated(group_id, group.generation, group.state))
        if len(self._new) > MAX_UNUSED_GROUPS:
            oldest = self._new.pop(next(iter(self._new)))
            if self.get(oldest.group_id) is oldest:
                self.drop_unused(oldest, step)
        return group

    def drop_unused(self, group: Group, step: Step) -> None:
        """A group that nothing was ever stored of goes with the last one who wanted to join it."""
        used = group.is_stored or group.members or group.pending
        if group.state is GroupState.EMPTY and not used:
            group.become(GroupState.DEAD, step.wall)
            del self[group.group_id]
            step.note(GroupDropped(*group.fact_head))


def note_group_refused(group_id: str, who: Who, step: Step) -> None:
    """A group was not created, because the partition has as many as it may have."""
    head = group_id, 0, GroupState.DEAD
    step.note(LimitReached(*head, limit="max_groups", most=step.config.max_groups, who=who))
