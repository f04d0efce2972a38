"""One request about a group, to its coordinator."""

from collections.abc import Iterator
from typing import Any

from groupkeeper.client import Client
from groupkeeper.client.client import NOT_YET, CallFailed, Retries
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message, layout_of
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest


async def ask_coordinator(client: Client, request: Message, group: str) -> Any:
    """The response, asked for again while the coordinator moves or loads. Raises CallFailed."""
    retries = Retries(client.timeout_s)
    while True:
        try:
            node = (await client.call(FindCoordinatorRequest(key=group))).node_id
            response = await client.call(request, node=node)
            late = [code for code in _codes_in(response) if code in NOT_YET]
            if not late:
                return response
            raise CallFailed("a part", node, ErrorCode(late[0]))
        except CallFailed as failure:
            if failure.error not in NOT_YET or not await retries.pause():
                raise


def _codes_in(message: Message) -> Iterator[int]:
    """The error codes of a response and of its parts."""
    for field in layout_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name == "error_code":
            yield value
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "__layout__"):
                yield from _codes_in(each)
