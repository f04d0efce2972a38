"""A dict of groups by id that also creates them, and work on several of them that is under way.

Source: `GroupMetadataManager.groups` and `getOrMaybeCreateClassicGroup`.
"""

from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Final

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import GroupCreated, LimitReached
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member_bytes import MemberBytes
from groupkeeper.coordinator.rebalance import drop_pending
from groupkeeper.coordinator.replies import note_limit
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsResponse

MAX_UNUSED_BYTES: Final = 2 * 1024 * 1024
"""The bytes that groups of a partition may take which have had neither a member nor a record: the
UTF-8 of their ids, and `UNUSED_GROUP_BYTES` each. A JoinGroup that is refused, or that is answered
MEMBER_ID_REQUIRED, makes such a group. As in Kafka, it is Empty until a check for expired offsets
deletes it; beyond this limit the oldest one is dropped at once, with the member ids that were
handed out for it. Fifteen hundred groups with ordinary ids, or 67 with the longest."""
UNUSED_GROUP_BYTES: Final = 1_400
"""What an unused group takes beside its id: about 900 bytes, and 500 for a pending member id."""


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
        self._unused: dict[str, int] = {}
        """The groups that have had neither member nor record, the oldest first, and their bytes."""
        self._unused_bytes = 0

    def __setitem__(self, group_id: str, group: Group) -> None:
        """Add the group, and count the bytes of its members."""
        group.member_bytes.give_back()
        group.member_bytes = self.member_bytes
        for member in group.members.values():
            self.member_bytes.add(member.size)
        super().__setitem__(group_id, group)

    def __delitem__(self, group_id: str) -> None:
        """Remove the group, and forget that it was unused."""
        super().__delitem__(group_id)
        self.count_used(group_id)

    def create_unused(self, group_id: str, who: Who, step: Step) -> Group:
        """A new, empty group, which is unused until `count_used`. No record is written, and nothing
        noted: it is soft, and a client may make any number of them.
        """
        group = self[group_id] = Group(group_id, step.wall)
        size = len(group_id.encode("utf-8", "surrogatepass")) + UNUSED_GROUP_BYTES
        self._unused[group_id] = size
        self._unused_bytes += size
        while self._unused_bytes > MAX_UNUSED_BYTES:
            self._drop(self[next(iter(self._unused))], who, step)
        return group

    def count_used(self, group_id: str) -> None:
        """The group has its first member or record, or is gone. Does nothing for any other one."""
        self._unused_bytes -= self._unused.pop(group_id, 0)

    def used_ids(self) -> list[str]:
        """The ids of the groups that have had a member or a record."""
        unused = self._unused
        return list(filterfalse(unused.__contains__, self)) if unused else list(self)

    def _drop(self, group: Group, who: Who, step: Step) -> None:
        """Drop an unused group to make room for that of `who`."""
        if group.pending:
            note_limit(group, "max_unused_bytes", MAX_UNUSED_BYTES, who, step)
        for member_id in list(group.pending):
            drop_pending(group, member_id, step)
        group.become(GroupState.DEAD, step.wall)
        del self[group.group_id]


def note_created(group: Group, who: Who, step: Step) -> None:
    """Note that the group gets its first member or record, unless it has had one."""
    if not group.was_used:
        step.note(GroupCreated(*group.fact_head, who=who))


def note_group_refused(group_id: str, who: Who, step: Step) -> None:
    """Note that a group was not created because of `max_groups`."""
    head = group_id, 0, GroupState.DEAD, 0
    step.note(LimitReached(*head, limit="max_groups", most=step.config.max_groups, who=who))
