"""DescribeGroups: describes groups, with one result per id in the order of the request.

Source: Kafka's `GroupCoordinatorService.describeGroups`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.apis.groups_request import PER_GROUP, BatchedByGroupId, GroupsRequest
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.turns import Slices


class DescribeGroupsHandler(GroupHandler):
    """Answers DescribeGroups."""

    def handle(
        self, request: DescribeGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        api = DescribeGroups(request.groups, request.include_authorized_operations)
        return GroupsRequest(api, self._group_partitions, caller).ask(reply_to)


@dataclass(slots=True)
class DescribeGroups(BatchedByGroupId):
    """Splits DescribeGroups into batches."""

    items: list[str]
    operations: bool
    repeats: bool = True
    name: str = "DescribeGroups"

    def weight(self, item: str, driver: PartitionDriver) -> int:
        group = driver.peek(item)
        return 0 if group is None else len(group.members)

    def request(self, items: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=items, include_authorized_operations=self.operations)

    def results(self, reply: DescribeGroupsResponse) -> Sequence[DescribedGroup]:
        return reply.groups

    def size(self, result: DescribedGroup, driver: PartitionDriver) -> int:
        size, group = PER_GROUP + len(result.group_id), driver.peek(result.group_id)
        if group is not None:
            size += PER_GROUP * len(group.members) + group.named_bytes
            # The answer has that of one protocol, and only in Stable: at most this.
            size += group.metadata_bytes if result.protocol_data else 0
        return size

    def refused(self, error: ErrorCode, item: str) -> DescribedGroup:
        return DescribedGroup(group_id=item, error_code=error)

    def whole(self, results: list[DescribedGroup]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=results)
