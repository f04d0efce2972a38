"""`as_version`: the versions of another release of Kafka, and no others."""

import pytest
from kafka import KafkaAdminClient
from kafka.errors import IncompatibleBrokerVersion

from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.list_transactions import ListTransactionsRequest
from groupkeeper.protocol.registry import APIS
from groupkeeper.testing import Broker, WrongArgument
from groupkeeper.testing.releases import RELEASES, ranges_of
from tests.support.requests import fetch_request, flat_fetch_request
from tests.support.wire import Client, Gone
from tests.support.wire import frame as frame_of
from tests.testing.wired import dial

SOFTWARE = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def _ranges(client: Client) -> dict[str, tuple[int, int]]:
    answer = client.call(3, SOFTWARE)
    assert answer.error_code == 0
    return {
        APIS[each.api_key].name: (each.min_version, each.max_version) for each in answer.api_keys
    }


def test_a_release_advertises_its_versions_and_nothing_that_is_not_served() -> None:
    ours = {api.name: api.advertised for api in APIS.values()}
    names = ("OffsetFetch", "JoinGroup", "Produce", "DescribeQuorum")
    for release, *expected in (
        ("2.8", (0, 7), (0, 7), (0, 9), None),
        ("3.9", (0, 9), (0, 9), (0, 11), (0, 2)),
        ("4.1", (1, 9), (0, 9), (0, 13), (0, 2)),
    ):
        with Broker(as_version=release) as broker, dial(broker) as client:
            found = _ranges(client)
        assert [found.get(name) for name in names] == expected, release
        for name, (low, high) in found.items():
            assert ours[name][0] <= low <= high <= ours[name][1], (release, name)


def test_each_api_that_is_served_is_in_the_newest_release() -> None:
    known = ranges_of(RELEASES[-1])
    unknown = sorted(api.name for key, api in APIS.items() if key not in known)
    assert not unknown, (
        f"a test broker with as_version={RELEASES[-1]!r} does not serve {', '.join(unknown)}: add "
        "rows with the versions of each release to _RANGES in groupkeeper/testing/releases.py"
    )


def test_other_versions_end_the_connection() -> None:
    with Broker(as_version="2.8") as broker:
        with dial(broker) as client:
            assert client.call(7, flat_fetch_request("g")).error_code == 0
            with pytest.raises((Gone, ConnectionError)):
                client.call(8, fetch_request("g"))
        with dial(broker) as client, pytest.raises((Gone, ConnectionError)):
            client.call(0, ListTransactionsRequest())
    with (
        Broker(as_version="4.1") as broker,
        dial(broker) as client,
        pytest.raises((Gone, ConnectionError)),
    ):
        client.call(0, flat_fetch_request("g", {}))


def test_a_newer_api_versions_is_answered_in_version_0_with_its_range() -> None:
    with Broker(as_version="2.8") as broker, dial(broker) as client:
        client.send(4, SOFTWARE)
        frame = client.read_frame()
        assert frame[4:] == bytes([0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3])
        client.send_frame(frame_of(3, SOFTWARE))
        assert client.read_frame()


def test_an_unknown_release_is_told_with_the_known_ones() -> None:
    with pytest.raises(WrongArgument, match=r"'3\.8' is not supported; known are 2\.8, "):
        Broker(as_version="3.8")


def test_kafka_python_speaks_as_to_that_release() -> None:
    with Broker(as_version="2.8") as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        assert admin.list_groups() == []
        with pytest.raises(IncompatibleBrokerVersion):
            admin.list_transactions()
        admin.close()
