"""The table of routes: which handler answers which API. What is not here is not advertised."""

from groupkeeper.apis.configs.broker import BrokerConfigs
from groupkeeper.apis.configs.routes import ConfigRoutes
from groupkeeper.apis.discovery import (
    API_VERSIONS,
    ClusterDescription,
    CoordinatorLookup,
    Versions,
)
from groupkeeper.apis.groups import GroupRoutes
from groupkeeper.apis.metadata import Node
from groupkeeper.exchange import Handler
from groupkeeper.groups.hosts import Hosts
from groupkeeper.settings.table import Settings
from groupkeeper.topics.plane import DataPlane

FIND_COORDINATOR = 10
DESCRIBE_CLUSTER = 60


def build_routes(
    hosts: Hosts, plane: DataPlane, node: Node, settings: Settings
) -> tuple[dict[int, Handler], Versions]:
    """All handlers by API key, and the one that knows what that amounts to."""
    routes: dict[int, Handler] = {
        **plane.handlers,
        **GroupRoutes(hosts, plane.partition_count).table(),
        **ConfigRoutes(plane.handlers, BrokerConfigs(node.node_id, settings)).table(),
        FIND_COORDINATOR: CoordinatorLookup(node.node_id, node.address).handle,
        DESCRIBE_CLUSTER: ClusterDescription(node, lambda: plane.cluster_id).handle,
    }
    versions = Versions([*routes, API_VERSIONS])
    routes[API_VERSIONS] = versions.handle
    return routes, versions
