"""JoinGroup and Heartbeat, and the common part of the handlers of other group APIs.

A request for one group goes to the group's partition. A request that is too large for one step, or
names several groups, is split into parts, and other work can run between two parts.
"""

from typing import Any

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.groups.group_partitions import GroupPartitions


class GroupHandler:
    """Answers JoinGroup and Heartbeat."""

    def __init__(self, group_partitions: GroupPartitions) -> None:
        self._group_partitions = group_partitions

    def forward(self, request: Any, caller: Caller, reply_to: ReplyTo) -> None:
        """Let the group's partition answer."""
        self._group_partitions.of(request.group_id).call(request, caller, reply_to)
