"""A dict of groups by id that also creates them, and work on several of them that is under way.

Source: `GroupMetadataManager.groups` and `getOrMaybeCreateClassicGroup`.
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
"""So many groups are kept that have no members and no record. A JoinGroup that is refused creates
such a group; Kafka keeps it until the next check for expired offsets."""


@dataclass(slots=True)
class ExpiryCheck:
    """How far the check for expired offsets has come, which is done in pieces."""

    left: list[str] = field(default_factory=list)
    """The groups that are left to check, the next one last."""
    kept: int = 0
    """How many offsets of the next group it has checked and kept."""
    expired: bool = False
    """Offsets of the next group have expired."""


@dataclass(slots=True)
class Deletion:
    """A DeleteGroups request whose groups take several steps, and which waits for its answer."""

    reply_to: ReplyTo
    response: DeleteGroupsResponse
    who: Who
    left: int = 0
    """How many groups are not deleted yet."""


class Groups(dict[str, Group]):
    """Group id to group. Any other group does not exist (`Dead` in DescribeGroups)."""

    def __init__(self, member_bytes: MemberBytes | None = None) -> None:
        super().__init__()
        self.member_bytes = member_bytes or MemberBytes()
        self.expiry_check = ExpiryCheck()
        self.deletions: dict[str, Deletion] = {}
        """By the ids of the groups that are being deleted; no other request may see those."""
        self._new: dict[str, Group] = {}
        """The groups that were created last, the oldest first; some may be deleted since."""

    def __setitem__(self, group_id: str, group: Group) -> None:
        """Add the group, and count the bytes of its members."""
        group.member_bytes.give_back()
        group.member_bytes = self.member_bytes
        for member in group.members.values():
            self.member_bytes.add(member.size)
        super().__setitem__(group_id, group)

    def create(self, group_id: str, who: Who, step: Step) -> Group:
        """A new, empty group. No record is written: a group without members or offsets is soft."""
        group = self[group_id] = self._new[group_id] = Group(group_id, step.wall)
        step.note(GroupCreated(*group.fact_head, who=who))
        if len(self._new) > MAX_UNUSED_GROUPS:
            oldest = self._new.pop(next(iter(self._new)))
            if self.get(oldest.group_id) is oldest:
                self.drop_unused(oldest, step)
        return group

    def drop_unused(self, group: Group, step: Step) -> None:
        """Drop the group if it has no record, no members and no pending ids."""
        used = group.is_stored or group.members or group.pending
        if group.state is GroupState.EMPTY and not used:
            group.become(GroupState.DEAD, step.wall)
            del self[group.group_id]
            step.note(GroupDropped(*group.fact_head))


def note_group_refused(group_id: str, who: Who, step: Step) -> None:
    """Note that a group was not created because of `max_groups`."""
    head = group_id, 0, GroupState.DEAD, 0
    step.note(LimitReached(*head, limit="max_groups", most=step.config.max_groups, who=who))
