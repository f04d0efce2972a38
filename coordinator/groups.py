"""The groups of one partition, by id. A dictionary with a birth certificate, nothing more.

The mark of how far the check for expired offsets has come is here because it is about all of them.
"""

from dataclasses import dataclass, field

from coordinator.facts import GroupCreated
from coordinator.group import Group
from coordinator.step import Step


@dataclass(slots=True)
class ExpiryCheck:
    """How far the check for expired offsets has come; that is done in pieces."""

    left: list[str] = field(default_factory=list)
    """Groups that it has not been through, the next one last."""
    kept: int = 0
    """How many offsets of the next one it has looked at and left where they are."""


class Groups(dict[str, Group]):
    """Group id to group. Groups that are not here do not exist (``Dead``, to DescribeGroups)."""

    def __init__(self) -> None:
        super().__init__()
        self.expiry_check = ExpiryCheck()

    def create(self, group_id: str, step: Step) -> Group:
        """A new, empty group. Nothing is written: a group without members or offsets is soft."""
        group = self[group_id] = Group(group_id, step.wall)
        step.note(GroupCreated(group_id, group.generation, group.state))
        return group
