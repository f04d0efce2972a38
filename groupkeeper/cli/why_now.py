"""The present of a group, for `groupkeeper why`: from the HTTP port, or from DescribeGroups."""

import asyncio
import http.client
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from groupkeeper.settings.options import Address, format_address

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import Group

HTTP_PORT: Final = 9644
"""Where a server has its HTTP port unless told otherwise."""
TIMEOUT_S: Final = 2.0
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of an answer: a group of a hundred thousand members."""


class NoLiveView(Exception):
    """The HTTP port did not tell; the text says why."""


class LiveViews:
    """Asks the HTTP port of the group's coordinator."""

    def __init__(self, group: str, address: Address, cluster_id: str | None) -> None:
        self._group = group
        self._address = address
        self._cluster_id = cluster_id

    async def view(self) -> dict[str, Any] | None:
        """What the group is doing; None if it does not exist. Raises NoLiveView."""
        where = format_address(self._address)
        try:
            status, found = await asyncio.to_thread(self._get)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise NoLiveView(
                f"no HTTP port of Groupkeeper answers at {where} ({problem})"
            ) from None
        if found.get("cluster") != self._cluster_id:
            raise NoLiveView(f"the HTTP port at {where} is that of another cluster")
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise NoLiveView(f"{where}: {found.get('error') or status}")
        live: dict[str, Any] | None = found.get("live")
        return live

    def _get(self) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"/api/v1/groups/{quote(self._group, safe='')}")
            answer = connection.getresponse()
            found = json.loads(answer.read(MOST_BYTES))
        finally:
            connection.close()
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return answer.status, found


async def find_views(client: "Client", group: str, given: Address | None) -> LiveViews:
    """Where to ask: the given address, or the usual port of the group's coordinator."""
    from groupkeeper.client.coordinators import find_coordinators
    from groupkeeper.protocol.messages.metadata import MetadataRequest

    about = await client.call(MetadataRequest(topics=[]))
    if given is None:
        nodes = await find_coordinators(client, [group])
        node = nodes.get(group)
        host = "127.0.0.1" if node is None else client.address_of(node).rpartition(":")[0]
        given = host.strip("[]"), HTTP_PORT
    return LiveViews(group, given, about.cluster_id)


# -- what any cluster tells ------------------------------------------------------------------------


def described_text(group: "Group") -> str:
    """A group as DescribeGroups has it: state, members, and who has nothing assigned."""
    from groupkeeper.why.texts import count, person, some_of

    parts = [f"Now: {group.state}, {count(len(group.members), 'member')}"]
    if group.protocol:
        parts.append(f"assignor {group.protocol}")
    text = ", ".join(parts) + "."
    without = [each for each in group.members if each.assignment == {}]
    idle = [person(_who(each)) for each in without]
    if group.state == "Stable" and idle:
        verb = "has" if len(idle) == 1 else "have"
        text += f" {some_of(idle)} {verb} nothing assigned."
    return text


def described_json(group: "Group") -> dict[str, Any]:
    """The same as JSON."""
    members = [_who(each) | {"assignment": each.assignment} for each in group.members]
    return {
        "kind": "described",
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol,
        "members": members,
    }


def _who(member: Any) -> dict[str, Any]:  # Any: the client's Member, imported late
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
    }


async def events_setting(client: "Client", node: int) -> str | None:
    """The value of `group.events.enabled`; None for a server that has no such setting."""
    from groupkeeper.client import CallFailed
    from groupkeeper.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        ResourceType,
    )

    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name=str(node),
        configuration_keys=["group.events.enabled"],
    )
    try:
        answer = await client.call(DescribeConfigsRequest(resources=[resource]), node=node)
    except CallFailed:
        return None
    values = [each.value for result in answer.results for each in result.configs]
    return values[0] if values else None
