"""`python -m tests.suites.kafka_fixture`: makes `tests/fixtures/kafka-compacted-offsets` anew.

A broker of Apache Kafka is restarted until its leader epochs have risen, groups of every kind live
on it (kafka_scene.py) while its cleaner runs all the time, and it is killed. The fixture has the
folders of its offsets topic, and what it said of its groups just before.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from groupkeeper.protocol.embedded import decode_assignment
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.parity.brokers import NEWEST
from tests.suites.checks import wait_for
from tests.suites.kafka_broker import OFFSETS, MovingKafka
from tests.suites.kafka_scene import DELETED, LIVING, TRANSACTIONAL, WITHOUT_MEMBERS, Scene
from tests.support.requests import fetch_request
from tests.support.wire import Client, connect

FIXTURE = Path(__file__).parents[1] / "fixtures" / "kafka-compacted-offsets"
RESTARTS = 3
INDEX_BYTES = 4096
"""What is kept of the index files that a broker makes 10 MiB long."""


def make() -> None:
    with tempfile.TemporaryDirectory() as place:
        kafka = MovingKafka(NEWEST, Path(place))
        try:
            for _ in range(RESTARTS):
                kafka.run()
                kafka.stop()
            kafka.run()
            with Scene(kafka.bootstrap) as scene:
                scene.make_topic()
                scene.play(transactions=True)
                wait_for(kafka.is_cleaned, "the cleaner has been through all partitions")
                scene.leave_transactions_open()
                with connect(("127.0.0.1", kafka.port)) as client:
                    expected = _said(client)
                kafka.kill()
        finally:
            kafka.kill()
        shutil.rmtree(FIXTURE, ignore_errors=True)
        kafka.copy_to(FIXTURE, OFFSETS)
    for index in (*FIXTURE.glob("*/*.index"), *FIXTURE.glob("*/*.timeindex")):
        index.write_bytes(index.read_bytes()[: INDEX_BYTES - INDEX_BYTES % 12])
    (FIXTURE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def _said(client: Client) -> dict[str, Any]:  # Any: JSON
    groups = [*WITHOUT_MEMBERS, *LIVING, TRANSACTIONAL]
    described = client.call(5, DescribeGroupsRequest(groups=groups)).groups
    fetched = client.call(8, fetch_request(*groups)).groups
    return {
        "broker": f"Apache Kafka {NEWEST}",
        "groups": [_group(group) for group in described],
        "unknown_groups": list(DELETED),
        "offsets": [
            {
                "group": group.group_id,
                "topic": topic.name,
                "partition": each.partition_index,
                "offset": each.committed_offset,
                "metadata": each.metadata,
                "leader_epoch": each.committed_leader_epoch,
            }
            for group in fetched
            for topic in group.topics
            for each in topic.partitions
        ],
    }


def _group(group: Any) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.group_state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_data,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "assignment": {
                    topic.topic: sorted(topic.partitions)
                    for topic in decode_assignment(member.member_assignment).assigned_partitions
                },
            }
            for member in group.members
        ],
    }


if __name__ == "__main__":
    make()
