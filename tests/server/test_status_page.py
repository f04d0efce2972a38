"""`/status` of a whole server, under virtual time."""

import json
from typing import Any

from groupkeeper.server.http_port import HttpPort
from tests.support.served import Served, settle


def status(served: Served) -> Any:
    answer = served.run(HttpPort(served.server, ()).status())
    assert (answer.status, answer.content_type) == (200, "application/json")
    return json.loads(answer.body)


def test_a_server_at_work(served: Served) -> None:
    client = served.client()
    settle(client, "g")
    assert client.commit(5, "solo") == 0
    found = status(served)
    assert (found["cluster"], found["node"]) == (served.server.topics.cluster_id, 0)
    assert found["ready"]
    assert found["partitions"] == {"active": len(served.server.group_partitions)}
    assert (found["not_active"], found["limits_reached"]) == ([], {})
    assert found["appends"]["flushes"] > 0
    assert found["appends"]["failures"] == 0
    assert found["appends"]["p99_ms"] is not None
    assert found["events"]["written"] > 0
    assert found["connections"]["open"] >= 1
    disk = found["disk"]
    assert min(disk[f"{each}_bytes"] for each in ("groups", "events", "journals")) > 0
    assert disk["topics_bytes"] == 0


def test_a_partition_that_failed(served: Served) -> None:
    settle(served.client(), "g")
    served.fail("g")
    found = status(served)
    assert not found["ready"]
    [partition] = found["not_active"]
    assert partition["partition"] == served.driver("g").index
    assert partition["state"] in ("closed", "loading")
    assert sum(found["partitions"].values()) == len(served.server.group_partitions)
