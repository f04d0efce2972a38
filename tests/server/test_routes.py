"""The table of routes."""

from groupkeeper.server.discovery import API_VERSIONS
from groupkeeper.server.routes import build_routes
from protocol.registry import APIS
from tests.support.served import Served


def test_every_api_of_the_registry_has_a_route_and_no_other(served: Served) -> None:
    routes, _ = build_routes(served.server.hosts, served.server.topics, 0, served.server.address)
    assert set(routes) == set(APIS)


def test_what_the_data_plane_does_not_handle_is_not_advertised(served: Served) -> None:
    topics = served.server.topics
    del topics.handlers[22]
    routes, versions = build_routes(served.server.hosts, topics, 0, served.server.address)
    assert 22 not in routes
    assert routes[API_VERSIONS] == versions.handle
    keys = {each.api_key for each in versions._api_keys}
    assert keys == set(routes)
