"""Sends requests about many groups to their coordinators, with one request per coordinator.

Source: Kafka's `CoordinatorStrategy` and `AdminApiDriver` (batched lookups, retriable errors),
KIP-699.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from groupkeeper.client.client import NOT_YET, CallFailed, Client, Retries
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.placement import STATUS_HINT

GROUPS_PER_REQUEST: Final = 500
"""Maximum group ids per FindCoordinator, to keep request and response below 100 KiB."""

_Item = TypeVar("_Item")
Ask = Callable[[int, list[str]], Awaitable[Mapping[str, Any]]]
"""(node id, group ids) -> a row of the response for each group. Rows have an `error_code`."""


def chunks(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield items in lists of `size`; the last one may be shorter."""
    for start in range(0, len(items), size):
        yield [*items[start : start + size]]


async def find_coordinators(client: Client, group_ids: Sequence[str]) -> dict[str, int]:
    """Return the coordinator's node id by group, without groups that have none yet.

    Raises CallFailed, also if the lookup of a group is not authorized.
    """
    found, _ = await _look_up(client, group_ids)
    return found


async def _look_up(
    client: Client, group_ids: Sequence[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the node id by group, and the error message by group for those without one."""
    found: dict[str, int] = {}
    missing: dict[str, str] = {}
    for ids in chunks(group_ids, GROUPS_PER_REQUEST):
        try:
            response = await client.call(FindCoordinatorRequest(coordinator_keys=ids))
        except CallFailed as failure:
            if failure.error is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            await _look_up_one_by_one(client, ids, found, missing)
            continue
        for each in response.coordinators:
            if each.error_code == ErrorCode.NONE:
                found[each.key] = each.node_id
            elif each.error_code in NOT_YET:
                missing[each.key] = each.error_message or ""
            else:
                code, told = ErrorCode(each.error_code), each.error_message or ""
                raise CallFailed("FindCoordinator", None, code, told or f"group '{each.key}'")
    return found, missing


async def _look_up_one_by_one(
    client: Client, group_ids: Sequence[str], found: dict[str, int], missing: dict[str, str]
) -> None:
    """Look up groups with one request each, for Redpanda and Kafka before 3.0 (version 3)."""
    for group_id in group_ids:
        try:
            response = await client.call(FindCoordinatorRequest(key=group_id))
        except CallFailed as failure:
            if failure.error not in NOT_YET:
                raise
            missing[group_id] = failure.detail
        else:
            found[group_id] = response.node_id


async def ask_coordinators(
    client: Client, group_ids: Sequence[str], ask: Ask
) -> dict[str, tuple[int, Any]]:
    """Return (coordinator, row of the response) by group.

    Groups that are moving or loading are retried until the client's timeout, and then raise
    CallFailed; that is raised immediately if the server reports that it cannot serve a group. Other
    errors of a group are in its row.
    """
    retries = Retries(client.timeout_s)
    told: dict[str, tuple[int, Any]] = {}
    left = [*dict.fromkeys(group_ids)]
    while True:
        error = await _ask_once(client, left, ask, told)
        left = [each for each in left if each not in told]
        if not left:
            return told
        if not await retries.pause():
            what = f"group '{left[0]}'" + (f" and {len(left) - 1} more" if left[1:] else "")
            raise CallFailed("FindCoordinator", None, error, what)


async def _ask_once(
    client: Client, group_ids: Sequence[str], ask: Ask, told: dict[str, tuple[int, Any]]
) -> ErrorCode:
    """Send requests for all groups, and add the rows to `told`. Returns the last retriable error.

    Waits for all nodes before it raises, so that no request is pending when it is called again.
    """
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    by_node: dict[int, list[str]] = {}
    found, missing = await _look_up(client, group_ids)
    for group_id, why in missing.items():
        if why.endswith(STATUS_HINT):
            raise CallFailed("FindCoordinator", None, error, f"group '{group_id}': {why}")
    for group_id, node in found.items():
        by_node.setdefault(node, []).append(group_id)
    calls = (ask(node, ids) for node, ids in by_node.items())
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for node, answer in zip(by_node, answers, strict=True):
        if isinstance(answer, CallFailed) and answer.error in NOT_YET:
            error = answer.error
        elif isinstance(answer, BaseException):
            raise answer
        else:
            for group_id, part in answer.items():
                if part.error_code in NOT_YET:
                    error = ErrorCode(part.error_code)
                else:
                    told[group_id] = node, part
    return error
