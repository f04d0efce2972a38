"""The table of routes: which handler answers which API. What is not here is not advertised."""

from collections.abc import Callable

from groupkeeper.exchange import Handler
from groupkeeper.server.discovery import API_VERSIONS, CoordinatorLookup, Versions
from groupkeeper.server.group_routes import GroupRoutes
from groupkeeper.server.hosts import Hosts
from groupkeeper.topics.plane import DataPlane

FIND_COORDINATOR = 10


def build_routes(
    hosts: Hosts, plane: DataPlane, node_id: int, address: Callable[[], tuple[str, int]]
) -> tuple[dict[int, Handler], Versions]:
    """All handlers by API key, and the one that knows what that amounts to."""
    routes: dict[int, Handler] = {
        **plane.handlers,
        **GroupRoutes(hosts, plane.partition_count).table(),
        FIND_COORDINATOR: CoordinatorLookup(node_id, address).handle,
    }
    versions = Versions([*routes, API_VERSIONS])
    routes[API_VERSIONS] = versions.handle
    return routes, versions
