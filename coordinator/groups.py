"""The groups of one partition, by id. A dictionary with a birth certificate, nothing more."""

from coordinator.facts import GroupCreated
from coordinator.group import Group
from coordinator.step import Step


class Groups(dict[str, Group]):
    """Group id to group. Groups that are not here do not exist (``Dead``, to DescribeGroups)."""

    def create(self, group_id: str, step: Step) -> Group:
        """A new, empty group. Nothing is written: a group without members or offsets is soft."""
        group = self[group_id] = Group(group_id, step.wall)
        step.note(GroupCreated(group_id, group.generation, group.state))
        return group
