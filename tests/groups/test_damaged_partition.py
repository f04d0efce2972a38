"""One partition that cannot be loaded takes nothing of the others with it."""

from typing import Any

import pytest

from groupkeeper.groups.driver_life import PATIENCE_S
from groupkeeper.groups.embedded_log import EmbeddedLog
from groupkeeper.groups.loader import RELOAD_MOST_S
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.placement import STATUS_HINT, partition_of
from groupkeeper.topics.names import GROUP_TOPIC
from tests.support.requests import commit_request, create_request, fetch_request, heartbeat
from tests.support.served import Client, Lines, Serve, Served, groups_apart

PARTITIONS = 4
BAD, GOOD, *OTHERS = groups_apart(PARTITIONS, PARTITIONS)
"""Group ids, each in a partition of its own; that of the first one gets damaged."""
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_HERE = ErrorCode.NOT_COORDINATOR
COMMITTED = {("orders", 0): 2}


FOLDER = f"data/__consumer_offsets-{partition_of(BAD, PARTITIONS)}"


def flip(served: Served) -> None:
    """Damage the first of several batches; the second time, repair it."""
    served.disk.flip(f"{FOLDER}/00000000000000000000.log", 70)


def commit_to_all(served: Served) -> None:
    client = served.client()
    for group_id in (BAD, GOOD, *OTHERS):
        for offset in (*[1] * 8, 2):  # more than the sector that is kept twice
            assert client.commit(offset, group_id) == 0


def start_damaged(served: Served) -> None:
    """Commits of every group, and a start that cannot read one of the partitions."""
    commit_to_all(served)
    served.stop()
    flip(served)
    served.start()


def until_closed(served: Served) -> None:
    served.until(lambda: "closed" in served.states() and "loading" not in served.states())


def check_back(served: Served) -> None:
    """The deleted offsets are gone, and new ones are kept."""
    assert served.client().fetched(BAD) == {}
    assert served.client().commit(7, BAD) == 0
    served.recover()
    assert served.client().fetched(BAD) == {("orders", 0): 7}


@pytest.fixture
def damaged(served: Served) -> Served:
    start_damaged(served)
    until_closed(served)
    assert served.states().count("active") == PARTITIONS - 1
    return served


def repair(served: Served) -> None:
    flip(served)
    served.settled()


def create(client: Client) -> int:
    return int(client.call(4, create_request("orders", partitions=6)).topics[0].error_code)


def delete(client: Client) -> int:
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    return int(client.call(5, request).responses[0].error_code)


def listed(client: Client) -> tuple[int, list[str]]:
    answer = client.call(4, ListGroupsRequest())
    return answer.error_code, sorted(group.group_id for group in answer.groups)


# -- calls about groups ----------------------------------------------------------------------------


def test_groups_of_the_others_are_listed(damaged: Served, lines: Lines) -> None:
    assert listed(damaged.client()) == (0, sorted([GOOD, *OTHERS]))
    [line] = [line for line in lines() if line["event"] == "groups are missing in a list"]
    assert line["partitions"] == f"[{damaged.driver(BAD).index}]"
    repair(damaged)
    assert listed(damaged.client()) == (0, sorted([BAD, GOOD, *OTHERS]))


@pytest.mark.parametrize("why", ["restart", "failed write"])
def test_while_a_partition_may_still_load_the_list_is_an_error(served: Served, why: str) -> None:
    if why == "restart":
        start_damaged(served)
    else:
        commit_to_all(served)
        served.driver(BAD).not_written(OSError("full"))
    client = served.client()
    served.at_once({client: client.frame(4, ListGroupsRequest())})
    assert client.take().error_code == LOADING


def test_of_several_groups_the_others_are_described_fetched_and_deleted(damaged: Served) -> None:
    client = damaged.client()
    described = client.call(5, DescribeGroupsRequest(groups=[BAD, GOOD])).groups
    assert [(each.error_code, each.group_state) for each in described] == [
        (NOT_HERE, ""),
        (0, "Empty"),
    ]
    bad, good = client.call(8, fetch_request(BAD, GOOD)).groups
    assert (bad.error_code, bad.topics, good.error_code) == (NOT_HERE, [], 0)
    assert good.topics[0].partitions[0].committed_offset == 2
    deleted = client.call(2, DeleteGroupsRequest(groups_names=[BAD, GOOD])).results
    assert {each.group_id: each.error_code for each in deleted} == {BAD: NOT_HERE, GOOD: 0}
    repair(damaged)
    assert damaged.client().fetched(BAD) == COMMITTED


# -- what its own clients get ----------------------------------------------------------------------


def look_up(client: Client, *groups: str) -> Any:
    return client.call(4, FindCoordinatorRequest(coordinator_keys=[*groups])).coordinators


def leaders(client: Client) -> dict[int, tuple[int, int, list[int]]]:
    """Error, leader and replicas in sync of each partition, as Metadata has them; the same as in
    DescribeTopicPartitions.
    """
    [topic] = client.call(
        12, MetadataRequest(topics=[MetadataRequestTopic(name=GROUP_TOPIC)])
    ).topics
    wanted = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=GROUP_TOPIC)])
    [same] = client.call(0, wanted).topics
    found, again = (
        {each.partition_index: (each.error_code, each.leader_id, each.isr_nodes) for each in rows}
        for rows in (topic.partitions, same.partitions)
    )
    assert found == again
    return found


def test_a_member_is_not_told_that_it_lives(served: Served) -> None:
    commit_to_all(served)
    client = served.client()
    member = client.join(BAD, session_timeout_ms=300_000)
    client.sync(member.member_id, member.generation_id, BAD, **{member.member_id: b"all"})
    assert client.beat(member.member_id, member.generation_id, BAD) == 0
    served.stop()
    flip(served)
    served.start()
    client = served.client()
    beat = client.frame(4, heartbeat(member.member_id, member.generation_id, BAD))
    served.at_once({client: beat})
    assert client.take().error_code == 0
    until_closed(served)
    assert client.beat(member.member_id, member.generation_id, BAD) == NOT_HERE
    assert client.commit(5, BAD) == NOT_HERE
    assert client.join(BAD).error_code == NOT_HERE
    repair(served)
    assert served.client().beat(member.member_id, member.generation_id, BAD) == 0


def test_no_coordinator_is_named_for_its_groups_and_words_say_why(damaged: Served) -> None:
    client = damaged.client()
    bad, good = look_up(client, BAD, GOOD)
    why = f"partition {damaged.driver(BAD).index} of {GROUP_TOPIC} is not served: {STATUS_HINT}"
    assert (bad.error_code, bad.node_id, bad.error_message) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        why,
    )
    assert (good.error_code, good.error_message) == (0, "")
    older = client.call(2, FindCoordinatorRequest(key=BAD))
    assert (older.error_code, older.error_message) == (bad.error_code, why)
    transactional = FindCoordinatorRequest(key=BAD, key_type=1)
    assert client.call(2, transactional).error_code == 0  # see docs/clients.md
    repair(damaged)
    assert look_up(damaged.client(), BAD)[0].error_code == 0


def test_it_has_no_leader_until_it_is_back(damaged: Served) -> None:
    number = damaged.driver(BAD).index
    served_ones = {each: (0, 0, [0]) for each in range(PARTITIONS)}
    none = ErrorCode.LEADER_NOT_AVAILABLE, -1, []
    assert leaders(damaged.client()) == served_ones | {number: none}
    repair(damaged)
    assert leaders(damaged.client()) == served_ones


def test_a_disk_that_fails_is_told_to_clients_after_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is told at once."""
    commit_to_all(served)
    read = EmbeddedLog.read

    async def fail(log: EmbeddedLog, *arguments: Any) -> None:
        if log is served.partition_log(BAD):
            raise OSError("Input/output error")
        await read(log, *arguments)

    monkeypatch.setattr(EmbeddedLog, "read", fail)
    served.restart()
    client = served.client()
    until_closed(served)
    assert client.commit(5, BAD) == LOADING
    assert look_up(client, BAD)[0].error_code == 0
    assert listed(client)[0] == LOADING
    served.advance(PATIENCE_S + RELOAD_MOST_S)
    assert client.commit(5, BAD) == NOT_HERE
    assert look_up(client, BAD)[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert listed(client) == (0, sorted([GOOD, *OTHERS]))
    monkeypatch.undo()
    served.advance(RELOAD_MOST_S)
    assert client.commit(5, BAD) == 0


# -- a topic that is deleted meanwhile -------------------------------------------------------------


def test_its_offsets_go_when_the_partition_is_back(damaged: Served, lines: Lines) -> None:
    client = damaged.client()
    assert delete(client) == 0
    [line] = [
        line for line in lines() if line["event"] == "offsets of deleted topics are deleted later"
    ]
    assert (line["partitions"], line["topics"]) == (f"[{damaged.driver(BAD).index}]", 1)
    assert create(client) == 0
    assert client.fetched(GOOD) == {}
    assert client.commit(9, GOOD) == 0
    repair(damaged)
    client = damaged.client()
    assert (client.fetched(BAD), client.fetched(GOOD)) == ({}, {("orders", 0): 9})
    assert client.commit(7, BAD) == 0
    for _ in range(2):
        damaged.recover("lose")
        client = damaged.client()
        assert client.fetched(BAD) == {("orders", 0): 7}
        assert client.fetched(GOOD) == {("orders", 0): 9}


def test_its_offsets_go_after_any_number_of_starts(damaged: Served) -> None:
    assert delete(damaged.client()) == 0
    assert create(damaged.client()) == 0
    for _ in range(3):
        damaged.cut_power("lose")
        damaged.advance(1)
    assert damaged.client().commit(9, GOOD) == 0
    damaged.machine.kill()
    flip(damaged)
    damaged.start()
    damaged.settled()
    assert damaged.client().fetched(GOOD) == {("orders", 0): 9}
    check_back(damaged)


def test_other_topics_keep_their_offsets(served: Served) -> None:
    commit_to_all(served)
    other = {("payments", 1): 5}
    served.client().call(8, commit_request(other, BAD))
    served.stop()
    flip(served)
    served.start()
    served.advance(1)
    assert delete(served.client()) == 0
    repair(served)
    assert served.client().fetched(BAD) == other


def test_a_partition_whose_folder_was_removed_owes_nothing(damaged: Served) -> None:
    """What it held is lost; no other offsets may be removed because of it."""
    assert delete(damaged.client()) == 0
    assert create(damaged.client()) == 0
    damaged.stop()
    for name in list(damaged.disk.children(FOLDER)):
        damaged.machine.files.remove(f"{FOLDER}/{name}")
    damaged.machine.files.open(f"{FOLDER}/accept-loss", create=True)
    damaged.start()
    damaged.settled()
    check_back(damaged)


def test_a_topic_deleted_twice_is_forgotten_once(damaged: Served) -> None:
    for _ in range(2):
        assert delete(damaged.client()) == 0
        assert create(damaged.client()) == 0
    assert delete(damaged.client()) == 0
    repair(damaged)
    assert damaged.client().fetched(BAD) == {}
    assert create(damaged.client()) == 0
    check_back(damaged)


def test_beyond_the_limit_a_deletion_waits_for_the_partition(
    damaged: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "groupkeeper.topics.pending_offset_deletions.MAX_PENDING_OFFSET_DELETIONS", 0
    )
    assert delete(damaged.client()) == ErrorCode.REQUEST_TIMED_OUT
    assert create(damaged.client()) == ErrorCode.KAFKA_STORAGE_ERROR
    repair(damaged)
    assert create(damaged.client()) == 0
    assert damaged.client().fetched(BAD) == {}


@pytest.mark.parametrize("mode", ["lose", "tear"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_crashes_at_any_disk_call_of_the_deletion(serve: Serve, mode: str) -> None:
    """With the topic all its offsets are there, and without it none."""
    outcomes = set()
    for at in range(1, 60):
        served = serve(f"offsets.topic.num.partitions={PARTITIONS}")
        start_damaged(served)
        served.advance(1)
        admin = served.client()
        served.disk.crash_at = served.disk.calls + at
        admin.send(5, DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000))
        served.until(lambda: bool(admin.frames) or served.disk.dead)  # noqa: B023
        answered = bool(admin.frames)
        served.disk.crash_at = None
        served.cut_power(mode)
        served.advance(1)
        created = create(served.client())
        repair(served)
        client = served.client()
        found = [client.fetched(each) for each in (BAD, GOOD, *OTHERS)]
        kept = created == ErrorCode.TOPIC_ALREADY_EXISTS
        assert found == [COMMITTED if kept else {}] * PARTITIONS, at
        assert kept or created == 0
        outcomes.add(kept)
        if answered:
            break
    assert answered and outcomes == {True, False}


def crashed_on_its_way_back(served: Served, at: int) -> tuple[bool, bool]:
    """The deleted topic was made again, the damage is repaired, and in the disk call number `at`
    of what follows the process ends. Was a new commit to the partition acknowledged? Was it all?
    """
    start_damaged(served)
    served.advance(1)
    client = served.client()
    assert delete(client) == create(client) == client.commit(9, GOOD) == 0
    served.machine.kill()
    flip(served)
    served.start()
    served.disk.crash_at = served.disk.calls + at
    served.until(lambda: served.disk.dead or set(served.states()) == {"active"})
    client = served.client()
    client.pipe.write(client.commit_frame(7, BAD))
    served.until(lambda: served.disk.dead or bool(client.frames))
    committed, dead = bool(client.frames), served.disk.dead
    served.disk.crash_at = None
    return committed, not dead


@pytest.mark.parametrize("mode", ["lose", "keep", "tear"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_crashes_at_any_disk_call_while_it_comes_back(serve: Serve, mode: str) -> None:
    """No old offset is seen once the new topic is there, and no new one is forgotten."""
    new = {("orders", 0): 7}
    for at in range(1, 60):
        served = serve(f"offsets.topic.num.partitions={PARTITIONS}")
        committed, came_back = crashed_on_its_way_back(served, at)
        served.recover(mode)
        client = served.client()
        assert client.fetched(BAD) in ([new] if committed else [{}, new]), at
        assert client.fetched(GOOD) == {("orders", 0): 9}, at
        if came_back:
            break
    assert came_back and at > 5


def test_a_partition_that_comes_back_during_the_deletion(serve: Serve) -> None:
    """Just before, at the same time, and just after; the next try comes after 100 ms."""
    put_off = set()
    for step in range(24):
        served = serve(f"offsets.topic.num.partitions={PARTITIONS}")
        start_damaged(served)
        until_closed(served)
        flip(served)
        served.advance(0.07 + step * 0.0015)
        assert delete(served.client()) == create(served.client()) == 0
        put_off.add("closed" in served.states())
        served.settled()
        check_back(served)
    assert put_off == {True, False}
