"""LeaveGroup: removes members, very many of them in parts.

Source: Kafka's `GroupMetadataManager.classicGroupLeave`; KIP-345 (several members).
"""

from itertools import chain
from typing import Final

from groupkeeper.apis.gather import cut, part_replies
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import limit_reached
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from groupkeeper.turns import Slices

MAX_LEAVING: Final = 100_000
"""How many members one LeaveGroup may name; more are INVALID_REQUEST."""
PART_MEMBERS: Final = 25
"""How many members leave in one step."""

_log = Logger("groups")


class LeaveGroupHandler(GroupHandler):
    """Answers LeaveGroup."""

    def handle(
        self, request: LeaveGroupRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None] | LeaveGroupResponse | None:
        """Let the group's partition answer, in parts; each part is a cause of the rebalance."""
        if len(request.members) > MAX_LEAVING:
            limit_reached(_log, "max_leaving", MAX_LEAVING, "LeaveGroup", caller)
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_REQUEST)
        if len(request.members) > PART_MEMBERS:
            return self._leave(request, caller, reply_to)
        self.forward(request, caller, reply_to)
        return None

    def _leave(self, request: LeaveGroupRequest, caller: Caller, reply_to: ReplyTo) -> Slices[None]:
        parts = list(cut(request.members, PART_MEMBERS))
        for members, reply in zip(parts, part_replies(reply_to, len(parts), _whole), strict=True):
            some = LeaveGroupRequest(group_id=request.group_id, members=list(members))
            self.forward(some, caller, reply)
            yield


def _whole(replies: list[LeaveGroupResponse]) -> LeaveGroupResponse:
    members = chain.from_iterable(reply.members for reply in replies)
    return LeaveGroupResponse(members=list(members))
