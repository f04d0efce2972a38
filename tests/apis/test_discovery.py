"""What every client asks first: ApiVersions, FindCoordinator and DescribeCluster."""

from types import SimpleNamespace
from typing import Any

import pytest

from groupkeeper.apis.api_versions import ApiVersionsHandler
from groupkeeper.apis.find_coordinator import FindCoordinatorHandler
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.describe_cluster import DescribeClusterRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.registry import APIS
from tests.support.advertised import ADVERTISED
from tests.support.served import Served

NOBODY: Any = None


@pytest.mark.parametrize("version", range(5))
def test_exactly_what_is_served_is_advertised(served: Served, version: int) -> None:
    """The bounds are those that real clients need."""
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
    reply = served.client().call(version, request)
    ranges = {APIS[k.api_key].name: (k.min_version, k.max_version) for k in reply.api_keys}
    assert reply.error_code == 0
    assert ranges == ADVERTISED


@pytest.mark.parametrize("version", [3, 4])
def test_no_features_are_named(served: Served, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
    reply = served.client().call(version, request)
    assert (reply.supported_features, reply.finalized_features) == ([], [])
    assert reply.finalized_features_epoch == -1


def versions(name: str, number: str = "1.0", version: int = 3) -> int:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    reply = ApiVersionsHandler([12, 18]).handle(request, Caller(version), NOBODY)
    assert bool(reply.error_code) != bool(reply.api_keys)
    return int(reply.error_code)


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "1.2.3", "a.b-c9"])
def test_a_good_software_name(name: str) -> None:
    assert versions(name) == versions("tester", name) == 0


@pytest.mark.parametrize("name", ["", "-a", "a-", ".", "a b", "größe", "a\n", "a_b"])
def test_a_bad_software_name_is_an_invalid_request(name: str) -> None:
    """KIP-511."""
    assert versions(name) == versions("tester", name) == ErrorCode.INVALID_REQUEST


def test_older_versions_have_no_software_name_to_check() -> None:
    assert versions("", "", version=2) == 0


# -- FindCoordinator -------------------------------------------------------------------------------

NO_GROUPS: Any = SimpleNamespace(unserved=list)
LOOKUP = FindCoordinatorHandler(Node(3, lambda _: ("kafka.example", 9093)), NO_GROUPS)
TRANSACTION = 1


def named(version: int, software: str) -> Caller:
    return Caller(version, Peer(software_name=software))


def test_transactions_are_refused_with_words_that_clients_show() -> None:
    """Java shows those of any error, librdkafka (up to version 2) those of 53."""
    request = FindCoordinatorRequest(key="tx", key_type=TRANSACTION, coordinator_keys=["tx"])
    [found] = LOOKUP.handle(request, named(4, "apache-kafka-java"), NOBODY).coordinators
    assert (found.error_code, found.node_id, found.host) == (ErrorCode.UNSUPPORTED_VERSION, -1, "")
    older = LOOKUP.handle(request, named(3, "apache-kafka-java"), NOBODY)
    assert (older.error_code, older.node_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    librdkafka = LOOKUP.handle(request, named(2, "confluent-kafka-python"), NOBODY)
    assert librdkafka.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for told in (found, older, librdkafka):
        assert told.error_message.startswith("Transactions are not served")


@pytest.mark.parametrize("version", [1, 2])
def test_clients_that_hide_the_words_are_refused_by_init_producer_id(version: int) -> None:
    request = FindCoordinatorRequest(key="g", key_type=TRANSACTION)
    found = LOOKUP.handle(request, Caller(version), NOBODY)
    assert (found.error_code, found.node_id, found.error_message) == (0, 3, "NONE")
    assert (found.host, found.port) == ("kafka.example", 9093)


# -- DescribeCluster -------------------------------------------------------------------------------


def cluster(served: Served, version: int, **fields: Any) -> Any:
    return served.client().call(version, DescribeClusterRequest(**fields))


def test_nobody_is_fenced_and_everybody_may_do_everything(served: Served) -> None:
    reply = cluster(
        served, 2, include_fenced_brokers=True, include_cluster_authorized_operations=True
    )
    assert len(reply.brokers) == 1
    assert reply.cluster_authorized_operations == 8096


def test_a_broker_is_no_other_end_point(served: Served) -> None:
    """KIP-919."""
    for version in (1, 2):
        for kind, error, message in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of"),
            (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0"),
            (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type -1"),
        ):
            reply = cluster(served, version, endpoint_type=kind)
            assert (reply.error_code, reply.error_message[: len(message)]) == (error, message)
            assert (reply.endpoint_type, reply.cluster_id, reply.controller_id) == (1, "", -1)
            assert reply.brokers == []
