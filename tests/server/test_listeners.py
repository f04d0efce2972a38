"""Two listeners of a server process: each client is told the address of the one it came in by."""

import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer

from groupkeeper.protocol.messages.describe_cluster import DescribeClusterRequest
from groupkeeper.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.process import PROGRAM, ROOT
from tests.support.wire import Address, connect

HOSTS = {"INSIDE": "127.0.0.1", "OUTSIDE": "127.0.0.2"}
WAIT_S = 20.0


@pytest.fixture(scope="module")
def listeners() -> Iterator[dict[str, Address]]:
    """Where each listener of a server is bound."""
    bound = ",".join(f"{name}://{host}:0" for name, host in HOSTS.items())
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--dev", "--memory", "--http", "off", "--set", f"listeners={bound}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        found = re.findall(r"([A-Z]+)://([\d.]+):(\d+)", process.stdout.readline())
        yield {name: (host, int(port)) for name, host, port in found}
    finally:
        process.kill()
        process.communicate()


def test_the_ready_line_names_them(listeners: dict[str, Address]) -> None:
    assert {name: host for name, (host, _) in listeners.items()} == HOSTS
    assert all(port > 0 for _, port in listeners.values())


@pytest.mark.parametrize("name", HOSTS)
def test_every_answer_has_the_address_of_its_listener(
    listeners: dict[str, Address], name: str
) -> None:
    client = connect(listeners[name])
    found = client.call(0, FindCoordinatorRequest(key="g"))
    created = MetadataRequestTopic(name=f"new-{name}")
    metadata = client.call(12, MetadataRequest(topics=[created], allow_auto_topic_creation=True))
    asked = [
        client.call(12, MetadataRequest(topics=None)),
        client.call(0, DescribeClusterRequest()),
    ]
    quorum = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    [node] = client.call(2, DescribeQuorumRequest(topics=[quorum])).nodes
    client.close()
    told = [found, metadata.brokers[0], asked[0].brokers[0], asked[1].brokers[0]]
    told += node.listeners
    assert [each.name for each in node.listeners] == [name]
    assert {(each.host, each.port) for each in told} == {listeners[name]}


@pytest.mark.clients
def test_real_clients_inside_and_outside_share_a_topic(listeners: dict[str, Address]) -> None:
    inside, outside = ("{}:{}".format(*listeners[name]) for name in HOSTS)
    producer = Producer({"bootstrap.servers": inside})
    producer.produce("shared", b"from inside")
    assert producer.flush(WAIT_S) == 0
    assert address_of(producer.list_topics(timeout=WAIT_S).brokers[0]) == listeners["INSIDE"]
    consumer = KafkaConsumer(
        "shared", group_id="g", bootstrap_servers=outside, auto_offset_reset="earliest"
    )
    deadline = time.monotonic() + WAIT_S
    found: list[bytes] = []
    while not found and time.monotonic() < deadline:
        polled = consumer.poll(timeout_ms=500)
        found = [record.value for records in polled.values() for record in records]
    consumer.commit()
    consumer.close()
    assert found == [b"from inside"]


def address_of(broker: object) -> Address:
    return broker.host, broker.port  # type: ignore[attr-defined]  # confluent_kafka is not typed
