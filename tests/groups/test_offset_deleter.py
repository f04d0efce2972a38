"""Committed offsets go with their topic, whatever breaks in the middle, and only with it."""

import errno

import pytest

from groupkeeper.coordinator.gate import ReplyGate
from groupkeeper.coordinator.step import Step
from groupkeeper.groups.offset_deleter import OffsetDeleter, StoppingError
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from tests.support.requests import commit_request, create_request
from tests.support.served import Client, Served

COMMITTED = {("orders", 0): 5}
DELETE = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
PARTITIONS = "offsets.topic.num.partitions=4"


def create(client: Client) -> int:
    """Create the topic; the error code."""
    return int(client.call(4, create_request("orders", partitions=6)).topics[0].error_code)


def delete(client: Client) -> int:
    return int(client.call(5, DELETE).responses[0].error_code)


def offset_deleter(served: Served) -> OffsetDeleter:
    server = served.server
    return OffsetDeleter(
        server.group_partitions, server.turns, server.topics.pending_offset_deletions
    )


def topics(client: Client) -> set[str]:
    return {topic.name for topic in client.call(8, MetadataRequest(topics=None)).topics}


def crashed_in_deletion(at: int, mode: str) -> tuple[Served, bool]:
    """A server that came back after the deletion's disk call number `at`; True: it was answered."""
    served = Served(PARTITIONS)
    client, admin = served.client(), served.client()
    assert client.commit(5) == 0
    served.advance(1)
    served.disk.crash_at = served.disk.calls + at
    admin.send(5, DELETE)
    served.until(lambda: bool(admin.frames) or served.disk.dead)
    answered = bool(admin.frames)
    served.disk.crash_at = None
    served.cut_power(mode)
    return served, answered


@pytest.mark.parametrize("mode", ["lose", "keep", "tear"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_after_a_crash_at_any_disk_call_both_are_there_or_neither(mode: str) -> None:
    outcomes = set()
    for at in range(1, 40):
        served, answered = crashed_in_deletion(at, mode)
        served.settled()
        served.advance(1)
        client = served.client()
        outcome = ("orders" in topics(client), client.fetched())
        served.close()
        assert outcome in ((True, COMMITTED), (False, {})), at
        outcomes.add(outcome[0])
        if answered:
            break
    assert answered and outcomes == {True, False}


@pytest.mark.parametrize("mode", ["lose", "tear"])
def test_a_new_topic_of_the_name_never_has_old_offsets(mode: str) -> None:
    """It is asked for before the server has finished the deletion, and has to wait."""
    for at in range(1, 40):
        served, answered = crashed_in_deletion(at, mode)
        client = served.client()
        code = create(client)
        served.settled()
        offsets = client.fetched()
        served.close()
        if code == ErrorCode.TOPIC_ALREADY_EXISTS:
            assert offsets == COMMITTED, at
        else:
            assert (code, offsets) == (ErrorCode.NONE, {}), at
        if answered:
            break
    assert answered


def test_the_answer_leaves_when_the_offsets_are_durably_gone(served: Served) -> None:
    assert served.client().commit(5) == 0
    assert delete(served.client()) == 0
    served.recover("lose")
    assert served.client().fetched() == {}


def test_a_partition_that_is_loading_is_told_again(served: Served) -> None:
    client = served.client()
    assert client.commit(5) == 0
    served.fail()
    served.run(offset_deleter(served)(["orders"]))
    served.recover("lose")
    assert served.client().fetched() == {}


def test_a_partition_whose_write_fails_is_told_again(served: Served) -> None:
    client = served.client()
    assert client.commit(5) == 0
    served.advance(1)
    catalog_writes_and_syncs = 4
    broken = served.disk.calls + catalog_writes_and_syncs + 1
    served.disk.failures[broken] = OSError(errno.EIO, "Input/output error")
    assert delete(served.client()) == 0
    assert served.server.metrics.counts["partitions_closed", "AppendFailed"] == 1
    served.recover("lose")
    assert served.client().fetched() == {}


def test_after_a_crash_in_a_deletion_no_step_forgets_very_many_offsets(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.deletion.PIECE_OFFSETS", 100)
    client = served.client()
    client.call(4, create_request("large", partitions=900))
    for group_id in ("g", "h"):
        places = {("large", n): n for n in range(900)} | {("orders", 0): 5}
        client.call(8, commit_request(places, group_id))
    client.send(5, DeleteTopicsRequest(topic_names=["large"], timeout_ms=1000))
    served.until(lambda: served.server.topics.partition_count("large") is None)
    forgotten: list[int] = []
    admit = ReplyGate.admit

    def spied(gate: ReplyGate, step: Step) -> None:
        forgotten.append(sum(value is None for _, value in step.records))
        admit(gate, step)

    monkeypatch.setattr(ReplyGate, "admit", spied)
    served.recover()
    client = served.client()
    assert client.fetched("g") == client.fetched("h") == COMMITTED
    assert max(forgotten) == 100
    assert sum(forgotten) > 900
    served.recover()
    assert served.client().fetched("g") == COMMITTED


def test_offsets_of_a_topic_that_the_catalog_never_knew_stay(served: Served) -> None:
    """As in a folder that a Kafka broker has written."""
    assert served.client().commit(5) == 0
    served.stop()
    for name in list(served.disk.children("data/catalog")):
        served.machine.files.remove(f"data/catalog/{name}")
    served.disk.remove("data/catalog-copy")
    served.start()
    served.settled()
    served.advance(1)
    assert "orders" not in topics(served.client())
    assert served.client().fetched() == COMMITTED


def test_it_gives_up_when_the_process_ends(served: Served) -> None:
    served.server.group_partitions.stop()
    with pytest.raises(StoppingError):
        served.run(offset_deleter(served)(["orders"]))


def test_the_server_stops_although_a_partition_cannot_be_told(served: Served) -> None:
    driver = served.driver("g")
    driver._partition.close()
    admin = served.client()
    admin.send(5, DELETE)
    served.advance(1)
    assert not admin.frames
    began = served.loop.time()
    served.stop()
    assert served.loop.time() - began < 2
