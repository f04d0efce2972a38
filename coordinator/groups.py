"""The groups of a partition: a dict by id that also creates groups and counts unused ones; and the
progress of deletions and of the expiry check.

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
from groupkeeper.coordinator.policy import OFF, Policy, policy_of
from groupkeeper.coordinator.rebalance import drop_pending
from groupkeeper.coordinator.replies import note_limit
from groupkeeper.coordinator.soft_state import Clients
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsResponse

MAX_UNUSED_BYTES: Final = 2 * 1024 * 1024
"""The bytes that unused groups of a partition may take: groups that have had neither a member nor a
record. Each counts the UTF-8 of its id and `UNUSED_GROUP_BYTES`. A JoinGroup that is refused, or
that is answered MEMBER_ID_REQUIRED, makes such a group. As in Kafka, it is Empty until a check for
expired offsets deletes it; beyond this limit the oldest is dropped at once, with the member ids
that were handed out for it. Fifteen hundred groups with ordinary ids, or 67 with the longest."""
UNUSED_GROUP_BYTES: Final = 1_400
"""The bytes of an unused group beside its id: about 900, and 500 for a pending member id."""


@dataclass(slots=True)
class ExpiryCheck:
    """Progress of the check for expired offsets, which is done in pieces."""

    left: list[str] = field(default_factory=list)
    """Ids of the groups still to check, the next one last."""
    kept: int = 0
    """Number of offsets of the next group that are checked and kept."""
    expired: bool = False
    """Offsets of the next group have expired."""


@dataclass(slots=True)
class Deletion:
    """A DeleteGroups request in progress: its groups take several steps, and its answer waits."""

    reply_to: ReplyTo
    response: DeleteGroupsResponse
    who: Who
    left: int = 0
    """Number of groups that are not deleted yet."""


class Groups(dict[str, Group]):
    """Group id to group. Any other group does not exist (`Dead` in DescribeGroups)."""

    def __init__(self, member_bytes: MemberBytes | None = None, policy: Policy = OFF) -> None:
        """`policy`: the broker's, for groups whose configs do not say otherwise."""
        super().__init__()
        self.policy = policy
        self.member_bytes = member_bytes or MemberBytes()
        self.expiry_check = ExpiryCheck()
        self.configs: dict[str, dict[str, str]] = {}
        """Configs that are set for a group, by group id: they exist without the group, too."""
        self.deletions: dict[str, Deletion] = {}
        """Deletions in progress by group id; no other request may see these groups."""
        self._unused: dict[str, int] = {}
        """Ids of unused groups, the oldest first, and their bytes."""
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
        """Create an empty group, which is unused until `count_used`. No record is written, and
        nothing noted: it is soft state, and a client may make any number of groups.
        """
        group = self[group_id] = Group(group_id, step.wall)
        self.set_policy(group)
        size = len(group_id.encode("utf-8", "surrogatepass")) + UNUSED_GROUP_BYTES
        self._unused[group_id] = size
        self._unused_bytes += size
        while self._unused_bytes > MAX_UNUSED_BYTES:
            self._drop(self[next(iter(self._unused))], who, step)
        return group

    def set_policy(self, group: Group) -> None:
        """Give the group the policy that its configs and the broker's say."""
        configs = self.configs.get(group.group_id)
        if configs is None and not self.policy.is_on:  # nearly always
            group.policy = group.clients = None
            return
        group.policy = policy_of(configs or {}, self.policy)
        group.clients = None if group.policy is None else Clients(group.members.values())

    def count_used(self, group_id: str) -> None:
        """Stop counting the group as unused, if it was: it is used now, or gone."""
        self._unused_bytes -= self._unused.pop(group_id, 0)

    def used_ids(self) -> list[str]:
        """Return the ids of the groups that have had a member or a record."""
        unused = self._unused
        return list(filterfalse(unused.__contains__, self)) if unused else list(self)

    def _drop(self, group: Group, who: Who, step: Step) -> None:
        """Drop an unused group to make room for the new group of `who`."""
        if group.pending:
            note_limit(group, "max_unused_bytes", MAX_UNUSED_BYTES, who, step)
        for member_id in list(group.pending):
            drop_pending(group, member_id, step)
        group.become(GroupState.DEAD, step.wall)
        del self[group.group_id]


def note_created(group: Group, who: Who, step: Step) -> None:
    """Note that the group gets its first member or record, unless it has had one before."""
    if not group.was_used:
        step.note(GroupCreated(*group.fact_head, who=who))


def note_group_refused(group_id: str, who: Who, step: Step) -> None:
    """Note that a group was not created because of `max_groups`."""
    head = group_id, 0, GroupState.DEAD, 0
    step.note(LimitReached(*head, limit="max_groups", most=step.config.max_groups, who=who))
