"""Administration through each client's own calls: topics, groups, offsets, removing members."""

import uuid

import pytest

from tests.clients.process import ClientError, Worker, wait_until
from tests.clients.scene import PARTITIONS, Group


def test_topics_are_created_and_deleted(client: Worker) -> None:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    client.ask("create_topic", topic=name, partitions=3)
    assert name in client.ask("topics")
    client.ask("delete_topic", topic=name)
    assert name not in client.ask("topics")


def test_creating_a_topic_twice_is_refused(client: Worker, topic: str) -> None:
    with pytest.raises(ClientError, match=r"(?i)exists"):
        client.ask("create_topic", topic=topic, partitions=PARTITIONS)


def test_a_group_is_listed_and_described_until_it_is_empty(group: Group, client: Worker) -> None:
    members = group.settled(2)
    assert group.name in client.ask("groups")
    described = client.ask("describe_group", group=group.name)
    assert described["state"] == "Stable"
    assert described["members"] == group.describe()["members"]
    if "own member id" in group.library.can:
        own = [member.ask("member")["member_id"] for member in members]
        assert sorted(own) == described["members"]
    for member in members:
        member.ask("close")
    described = client.ask("describe_group", group=group.name)
    assert (described["state"], described["members"]) == ("Empty", [])


@pytest.mark.needs("describe instances")
def test_instance_ids_are_described(group: Group, client: Worker) -> None:
    members = [group.join("one"), group.join("two")]
    group.settle(*members)
    instances = client.ask("describe_group", group=group.name)["instances"]
    own = [member.ask("member")["member_id"] for member in members]
    assert instances == dict(zip(["one", "two"], own, strict=True))


@pytest.mark.needs("delete groups")
def test_a_group_is_deleted_only_when_it_is_empty(group: Group, client: Worker) -> None:
    (member,) = group.settled(1)
    with pytest.raises(ClientError) as refused:
        client.ask("delete_group", group=group.name)
    assert refused.value.name == "NonEmptyGroup"
    member.ask("close")
    client.ask("delete_group", group=group.name)
    assert group.name not in client.ask("groups")


@pytest.fixture
def committed(group: Group) -> Group:
    """An empty group with offset 10 committed for every partition."""
    (member,) = group.settled(1)
    group.await_records(group.send(10), member)
    group.commit(member)
    member.ask("close")
    return group


def test_committed_offsets_are_listed(committed: Group, client: Worker) -> None:
    offsets = client.ask("group_offsets", group=committed.name)
    assert offsets == [[committed.topic, number, 10] for number in range(PARTITIONS)]


@pytest.mark.needs("alter offsets")
def test_altered_offsets_are_where_the_next_member_starts(committed: Group, client: Worker) -> None:
    wanted = [[committed.topic, number, 8] for number in range(PARTITIONS)]
    client.ask("alter_offsets", group=committed.name, offsets=wanted)
    (member,) = committed.settled(1)
    wait_until(lambda: len(member.records) >= 2 * PARTITIONS, [member])
    assert {offset for _, _, offset, _ in member.records} == {8, 9}


@pytest.mark.needs("delete offsets")
def test_deleted_offsets_are_gone(committed: Group, client: Worker) -> None:
    partitions = [[committed.topic, number] for number in range(PARTITIONS - 1)]
    client.ask("delete_offsets", group=committed.name, partitions=partitions)
    assert client.ask("group_offsets", group=committed.name) == [[committed.topic, 5, 10]]


@pytest.mark.needs("remove members")
def test_a_static_member_is_removed_by_its_instance_id(group: Group, client: Worker) -> None:
    one, two = group.join("one"), group.join("two")
    group.settle(one, two)
    two.kill()
    client.ask("remove_instances", group=group.name, instance_ids=["two"])
    group.settle(one)
    assert list(group.describe()["instances"]) == ["one"]
    with pytest.raises(ClientError) as refused:
        client.ask("remove_instances", group=group.name, instance_ids=["two"])
    assert refused.value.name == "UnknownMemberId"
