"""Starts on copies of a broker's folders of `__consumer_offsets`: its groups go on here.

`kafka-compacted-offsets` is what a killed broker left whose cleaner ran all the time: its leader
epochs are above ours, transactions are open at the end, compacted segments have gaps, empty batches
and delete horizons, and files are left that end in `.deleted`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.embedded import decode_assignment
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.support.directories import restore
from tests.support.requests import commit_request, create_request, fetch_request
from tests.support.served import Client, Serve, Served

FIXTURES = Path(__file__).parents[1] / "fixtures"
COPIES = ("kafka-consumer-offsets", "kafka-compacted-offsets")
ALL_THE_TIME = ("log.cleaner.backoff.ms=100", "log.cleaner.min.cleanable.ratio=0.01")

Json = dict[str, Any]  # Any: what it holds


@pytest.fixture(params=COPIES)
def copy(request: pytest.FixtureRequest) -> Path:
    return FIXTURES / request.param


@pytest.fixture
def expected(copy: Path) -> Json:
    found: Json = json.loads((copy / "expected.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def moved(serve: Serve, copy: Path) -> Served:
    served = serve(*ALL_THE_TIME, start=False)
    restore(copy, served.disk)
    served.start()
    served.settled()
    return served


def offsets(client: Client, expected: Json) -> set[tuple[str, str, int, int, int, str]]:
    groups = [group["group"] for group in expected["groups"]]
    return {
        (
            *(group.group_id, topic.name, each.partition_index),
            *(each.committed_offset, each.committed_leader_epoch, each.metadata),
        )
        for group in client.call(8, fetch_request(*groups)).groups
        for topic in group.topics
        for each in topic.partitions
    }


def expected_offsets(expected: Json) -> set[tuple[str, str, int, int, int, str]]:
    names = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
    known = {group["group"] for group in expected["groups"]}
    rows = [row for row in expected["offsets"] if row["group"] in known]
    return {tuple(row[name] for name in names) for row in rows}  # type: ignore[misc]


def described(client: Client, groups: list[str]) -> list[Json]:
    return [
        {
            "group": group.group_id,
            "state": group.group_state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": sorted(
                (
                    {
                        "member_id": member.member_id,
                        "group_instance_id": member.group_instance_id,
                        "client_id": member.client_id,
                        "client_host": member.client_host,
                        "assignment": {
                            topic.topic: sorted(topic.partitions)
                            for topic in _assigned(member.member_assignment)
                        },
                    }
                    for member in group.members
                ),
                key=_by_id,
            ),
        }
        for group in client.call(5, DescribeGroupsRequest(groups=groups)).groups
    ]


def _assigned(assignment: bytes) -> list[Any]:
    return decode_assignment(assignment).assigned_partitions


def _by_id(member: Json) -> str:
    return str(member["member_id"])


def expected_groups(expected: Json) -> list[Json]:
    return [
        {**group, "members": sorted(group["members"], key=_by_id)} for group in expected["groups"]
    ]


def test_groups_are_as_the_broker_described_them(moved: Served, expected: Json) -> None:
    groups = [group["group"] for group in expected["groups"]]
    assert described(moved.client(), groups) == expected_groups(expected)
    for group in described(moved.client(), expected["unknown_groups"]):
        assert group["state"] == "Dead"


def test_every_offset_is_there_and_no_other(moved: Served, expected: Json) -> None:
    assert offsets(moved.client(), expected) == expected_offsets(expected)


def test_the_first_commit_to_every_group_is_accepted_and_kept(
    moved: Served, expected: Json
) -> None:
    topics = sorted({row["topic"] for row in expected["offsets"]})
    moved.client().call(4, create_request(*topics, partitions=9))
    empty = [group["group"] for group in expected["groups"] if not group["members"]]
    for group in empty:
        answer = moved.client().call(8, commit_request({(topics[0], 8): 4711}, group))
        assert answer.topics[0].partitions[0].error_code == 0
    for _ in range(2):
        moved.recover()
        after = offsets(moved.client(), expected)
        assert expected_offsets(expected) <= after
        assert len(after) == len(expected_offsets(expected)) + len(empty)


def test_what_our_cleaner_makes_of_them_says_the_same(moved: Served, expected: Json) -> None:
    moved.advance(5)
    for _ in range(2):
        moved.recover()
        assert offsets(moved.client(), expected) == expected_offsets(expected)
        moved.advance(5)
    groups = [group["group"] for group in expected["groups"]]
    assert described(moved.client(), groups) == expected_groups(expected)


def test_no_file_is_left_that_a_broker_would_remove(moved: Served) -> None:
    folders = [name for name in moved.disk.children("data") if name.startswith("__consumer")]
    files = [file for name in folders for file in moved.disk.children(f"data/{name}")]
    assert files
    assert [file for file in files if file.endswith((".deleted", ".cleaned", ".swap"))] == []
