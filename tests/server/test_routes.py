"""The table of routes."""

from groupkeeper.apis.discovery import API_VERSIONS, Versions
from groupkeeper.apis.metadata import Node
from groupkeeper.apis.table import build_routes
from groupkeeper.exchange import Handler
from groupkeeper.protocol.registry import APIS
from groupkeeper.settings.table import Settings
from tests.support.served import Served


def build(served: Served) -> tuple[dict[int, Handler], Versions]:
    server = served.server
    return build_routes(server.hosts, server.topics, Node(0, server.address), Settings())


def test_every_api_of_the_registry_has_a_route_and_no_other(served: Served) -> None:
    routes, _ = build(served)
    assert set(routes) == set(APIS)


def test_what_the_data_plane_does_not_handle_is_not_advertised(served: Served) -> None:
    handlers = served.server.topics.handlers
    del handlers[22], handlers[33]
    routes, versions = build(served)
    assert not {22, 33} & set(routes)
    assert routes[API_VERSIONS] == versions.handle
    keys = {each.api_key for each in versions._api_keys}
    assert keys == set(routes)
