"""SyncGroup: takes the leader's assignments, and returns each member's in the response.

Source: Kafka's `GroupMetadataManager.classicGroupSync`.
"""

from typing import Final

from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupkeeper.turns import Slices

PART_ASSIGNMENTS: Final = 500
"""How many assignments are checked in one slice."""


class SyncGroupHandler(GroupHandler):
    """Answers SyncGroup."""

    def handle(
        self, request: SyncGroupRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None] | None:
        """Let the partition answer; of very many assignments, unknown ids are dropped first."""
        if len(request.assignments) > PART_ASSIGNMENTS:
            return self._drop_strangers(request, caller, reply_to)
        self.forward(request, caller, reply_to)
        return None

    def _drop_strangers(
        self, request: SyncGroupRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None]:
        group = self._group_partitions.of(request.group_id).peek(request.group_id)
        # If members change meanwhile, the request is refused for its old generation.
        members = {} if group is None else group.members
        plan: dict[str, SyncGroupRequestAssignment] = {}
        left = request.assignments
        left.reverse()
        while left:  # freed in slices, too
            some = left[-PART_ASSIGNMENTS:]
            del left[-PART_ASSIGNMENTS:]
            plan |= {each.member_id: each for each in reversed(some) if each.member_id in members}
            yield
        request.assignments = list(plan.values())
        self.forward(request, caller, reply_to)
