"""ListGroups: the groups of all partitions, a part of them in each step.

Source: Kafka's `GroupCoordinatorService.listGroups`; KIP-518 (states), KIP-848 (types).
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from groupkeeper.apis.gather import cut, part_replies
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.group import GroupState
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.mapped import bulk
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupkeeper.turns import Slices

PART_GROUPS: Final = 500
"""How many groups are listed in one step."""
PART_NAMES: Final = 2_000
"""How many names of a filter are checked in one slice."""

_STATES = frozenset(state.lower() for state in GroupState)
_TYPES = frozenset(["classic"])

_log = Logger("groups")


class ListGroupsHandler(GroupHandler):
    """Answers ListGroups."""

    def handle(
        self, request: ListGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """List the groups of all partitions. A partition that cannot answer now makes the response
        an error, instead of a list with gaps. An unserved one is left out, as in Kafka: clients
        would retry for ever. Metadata of `__consumer_offsets` shows these partitions.

        A group that is created meanwhile may be missing.
        """
        request.states_filter = yield from _filter(request.states_filter, _STATES)
        request.types_filter = yield from _filter(request.types_filter, _TYPES)
        parts: list[tuple[PartitionDriver, Sequence[str]]] = []
        missing: list[int] = []
        for driver in self._group_partitions:
            if driver.is_unserved:
                missing.append(driver.index)
                continue
            if driver.absence:  # it may be loaded by then, and its groups are not known yet
                return ListGroupsResponse(error_code=driver.absence)
            parts += [(driver, ids) for ids in cut(driver.group_ids(), PART_GROUPS)] or [
                (driver, ())
            ]
            yield
        if missing:
            _log.warning("groups are missing in a list", partitions=missing)
        if not parts:
            return ListGroupsResponse()
        for (driver, ids), reply in zip(
            parts, part_replies(reply_to, len(parts), _whole), strict=True
        ):
            driver.call(ListOfGroups(request, ids), caller, reply)
            yield
        return None


def _whole(replies: list[ListGroupsResponse]) -> ListGroupsResponse:
    groups = chain.from_iterable(reply.groups for reply in replies)
    return ListGroupsResponse(groups=bulk(list(groups)))


def _filter(names: list[str], known: frozenset[str]) -> Slices[list[str]]:
    """Return the names that can match; never empty, as an empty filter matches all."""
    if len(names) <= PART_NAMES:
        return names
    found = set[str]()
    for some in cut(names, PART_NAMES):
        found |= known.intersection(name.strip().lower() for name in some)
        yield
    return sorted(found) or [""]
