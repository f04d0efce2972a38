"""DeleteGroups: deletes empty groups; an id that is repeated has one result.

Source: Kafka's `GroupCoordinatorService.deleteGroups`; KIP-229.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.apis.groups_request import BatchedByGroupId, GroupsRequest
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupkeeper.turns import Slices

DELETION_ITEMS: Final = 25
"""Work of the deletion of a group, in look-ups of members."""


class DeleteGroupsHandler(GroupHandler):
    """Answers DeleteGroups."""

    def handle(
        self, request: DeleteGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        api = DeleteGroups(request.groups_names)
        return GroupsRequest(api, self._group_partitions, caller).ask(reply_to)


@dataclass(slots=True)
class DeleteGroups(BatchedByGroupId):
    """Splits DeleteGroups into batches."""

    items: list[str]
    repeats: bool = False
    name: str = "DeleteGroups"

    def weight(self, item: str, driver: PartitionDriver) -> int:
        return DELETION_ITEMS

    def request(self, items: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=items)

    def results(self, reply: DeleteGroupsResponse) -> Sequence[DeletableGroupResult]:
        return reply.results

    def size(self, result: DeletableGroupResult, driver: PartitionDriver) -> int:
        return 0

    def refused(self, error: ErrorCode, item: str) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=item, error_code=error)

    def whole(self, results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=results)
