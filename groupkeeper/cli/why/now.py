"""The current state of a group, for `groupkeeper why`: from the HTTP port, or DescribeGroups."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from groupkeeper.cli.http_port import PROBLEMS, HttpTarget, NoAccess, ask_json, hint
from groupkeeper.history.rounds import SessionLimits
from groupkeeper.why.texts import count, person, some_of

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import GroupDescription

HTTP_PORT: Final = 9644
"""The default HTTP port of a server."""
TIMEOUT_S: Final = 2.0
EVENTS_ENABLED: Final = "group.events.enabled"
SHORTEST_SESSION: Final = "group.min.session.timeout.ms"
LONGEST_SESSION: Final = "group.max.session.timeout.ms"
MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an answer: a group of a hundred thousand members."""


class NoLiveView(Exception):
    """The HTTP port did not return the live state. The text gives the reason."""

    def __init__(self, why: str, advice: str = "set the port with --http") -> None:
        super().__init__(why)
        self.advice = advice


class LiveViews:
    """Queries the HTTP port of the group's coordinator."""

    def __init__(self, group: str, port: HttpTarget, cluster_id: str | None) -> None:
        self._group = group
        self._port = port
        self._cluster_id = cluster_id

    async def view(self) -> dict[str, Any] | None:
        """Return the current state of the group; None if it does not exist. Raises NoLiveView."""
        found = await self.ask()
        live: dict[str, Any] | None = None if found is None else found.get("live")
        return live

    async def ask(self, more: str = "") -> dict[str, Any] | None:
        """Return the answer about the group, or about `more` of it, a path with a query; None if
        the group is not known. Raises NoLiveView.
        """
        where = self.where
        path = f"/api/v1/groups/{quote(self._group, safe='')}{more}"
        try:
            status, found = await asyncio.to_thread(
                ask_json, self._port, path, TIMEOUT_S, MOST_BYTES
            )
        except NoAccess as refused:
            raise NoLiveView(str(refused), refused.advice) from None
        except PROBLEMS as problem:
            raise NoLiveView(
                f"no HTTP port of Groupkeeper answers at {where} ({problem})",
                f"set the port with --http{hint(self._port, problem)}",
            ) from None
        if found.get("cluster") != self._cluster_id:
            raise NoLiveView(f"the HTTP port at {where} belongs to another cluster")
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise NoLiveView(f"{where}: {found.get('error') or status}")
        return found

    @property
    def where(self) -> str:
        """The address of the port, as text."""
        return self._port.where


async def find_views(client: "Client", group: str, port: HttpTarget) -> LiveViews:
    """Query the given port, or the default port of the group's coordinator."""
    from groupkeeper.client.coordinators import find_coordinators
    from groupkeeper.protocol.messages.metadata import MetadataRequest

    about = await client.call(MetadataRequest(topics=[]))
    if port.address is None:
        nodes = await find_coordinators(client, [group])
        node = nodes.get(group)
        host = "127.0.0.1" if node is None else client.address_of(node).rpartition(":")[0]
        port = port.guessed((host.strip("[]"), HTTP_PORT))
    return LiveViews(group, port, about.cluster_id)


# -- what any cluster tells ------------------------------------------------------------------------


def described_text(group: "GroupDescription") -> str:
    """Describe a group from DescribeGroups: state, members, and members without partitions."""
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


def described_json(group: "GroupDescription") -> dict[str, Any]:
    """Describe a group from DescribeGroups, as JSON."""
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


async def settings_of(client: "Client", group: str) -> dict[str, str]:
    """Return the settings of the group's coordinator that `why` needs; empty if unavailable."""
    from groupkeeper.client import CallFailed
    from groupkeeper.client.coordinators import find_coordinators
    from groupkeeper.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        ResourceType,
    )

    node = (await find_coordinators(client, [group])).get(group)
    if node is None:
        return {}
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name=str(node),
        configuration_keys=[EVENTS_ENABLED, SHORTEST_SESSION, LONGEST_SESSION],
    )
    try:
        answer = await client.call(DescribeConfigsRequest(resources=[resource]), node=node)
    except CallFailed:
        return {}
    configs = [each for result in answer.results for each in result.configs]
    return {each.name: each.value for each in configs if each.value is not None}


def session_limits(settings: Mapping[str, str]) -> SessionLimits:
    """Return the session timeouts that the coordinator accepts; by default, those of Kafka."""
    known = {"min_ms": settings.get(SHORTEST_SESSION), "max_ms": settings.get(LONGEST_SESSION)}
    given = {name: int(value) for name, value in known.items() if value and value.isdigit()}
    return SessionLimits(**given)
