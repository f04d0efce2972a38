"""Produce: what is stored, what is refused, and with which error."""

import pytest

from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopicConfig
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from tests.topics.scene import COMPRESSIONS, FirstHeldWorker, HeldWorker, Scene, batch


def values(records: bytes) -> list[bytes | None]:
    return [r.value for header in iter_batches(records) for r in decode_records(records, header)]


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_gets_the_next_offset(scene, acks):
    first = await scene.produce("t", 0, batch("a", "b"), acks=acks)
    second = await scene.produce("t", 0, batch("c"), acks=acks)
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)


async def test_batches_are_stored_as_they_came_but_for_offset_and_epoch(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    sent = batch("c")
    await scene.produce("t", 0, sent)
    stored = (await scene.fetch(("t", 0, 2))).records
    assert stored[:8] == (2).to_bytes(8, "big")
    assert stored[12:16] == bytes(4)
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_compressed_batches_pass_through(scene, compression):
    sent = batch("a" * 100, "b" * 100, compression=compression)
    assert (await scene.produce("t", 0, sent)).error_code == 0
    stored = (await scene.fetch(("t", 0, 0))).records
    assert stored[16:] == sent[16:]
    assert values(stored) == [b"a" * 100, b"b" * 100]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_versions_before_3_are_advertised_but_not_served(scene, version):
    answer = await scene.produce("t", 0, batch("a"), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(scene, acks):
    answer = await scene.produce("t", 0, batch("a"), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("nowhere", 0), ("t", 2), ("t", -1)],
    ids=["topic", "index", "negative"],
)
async def test_unknown_partitions_are_not_created(scene, topic, partition):
    answer = await scene.produce(topic, partition, batch("a"))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.topics.partition_count("nowhere") is None


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__group_events"])
async def test_internal_topics_are_refused(scene, topic):
    answer = await scene.produce(topic, 0, batch("a"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_transactional_id_is_refused_for_good(scene: Scene) -> None:
    answer = await scene.produce("t", 0, batch("a"), transactional_id="tx")
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "Transactions are not served" in answer.error_message


async def test_too_large_a_batch_is_refused(scene: Scene) -> None:
    limit = len(batch("a"))
    small = await scene.restart(message_max_bytes=limit)
    assert (await small.produce("t", 0, batch("a"))).error_code == 0
    answer = await small.produce("t", 0, batch("ab"))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_topic_may_have_its_own_limit(scene: Scene) -> None:
    limit = CreatableTopicConfig(name="max.message.bytes", value="70")
    await scene.create("small", configs=[limit])
    answer = await scene.produce("small", 0, batch("a" * 100))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_acks_0_is_never_answered(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    assert await scene.send_produce("t", 0, batch("b"), acks=0).wait() is NO_REPLY
    assert await scene.send_produce("nowhere", 0, batch("b"), acks=0).wait() is NO_REPLY
    assert await scene.send_produce("t", 0, batch("b"), acks=0, version=0).wait() is NO_REPLY
    assert (await scene.offsets("t", 0, -1)).offset == 2


async def test_a_request_may_hold_many_partitions_and_each_has_its_answer(scene: Scene) -> None:
    data = [
        PartitionProduceData(index=0, records=batch("a")),
        PartitionProduceData(index=5, records=batch("a")),
        PartitionProduceData(index=1, records=b"garbage"),
    ]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    response = await scene.ask(9, request)
    answers = response.responses[0].partition_responses
    assert [a.index for a in answers] == [0, 5, 1]
    assert [a.error_code for a in answers] == [0, 3, 87]


async def test_the_first_batch_waits_for_the_log_to_be_opened(scene: Scene) -> None:
    await scene.topics.close()
    held = HeldWorker()
    again = Scene(scene.disk, worker=held)
    reply = again.send_produce("t", 0, batch("a"))
    assert not reply.answered
    held.go.set()
    response = await reply.wait()
    assert response.responses[0].partition_responses[0].base_offset == 0
    assert again.send_produce("t", 0, batch("b")).answered


async def test_a_topic_deleted_while_its_log_is_opened_is_unknown(scene: Scene) -> None:
    held = HeldWorker()
    again = Scene(scene.disk, worker=held)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    gone = again.send(6, deletion)
    reply = again.send_produce("t", 0, batch("a"))
    held.go.set()
    await gone.wait()
    assert (await reply.wait()).responses[0].partition_responses[0].error_code == 3
    assert not [name for name in scene.disk.children("data") if name.startswith("t-")]


async def test_a_topic_made_anew_meanwhile_is_not_the_one_that_was_asked_for(scene: Scene) -> None:
    held = FirstHeldWorker()
    again = Scene(scene.disk, worker=held)
    by_id = again.send_produce("t", 0, batch("a"), version=13)
    await again.delete("t")
    await again.create("t")
    held.go.set()
    answer = (await by_id.wait()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await again.offsets("t", 0, -1)).offset == 0


async def test_a_full_disk_is_a_storage_error_and_heals(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    scene.disk.capacity = 0
    answer = await scene.produce("t", 0, batch("b"))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.failures
    scene.disk.capacity = None
    assert (await scene.produce("t", 0, batch("c"))).base_offset == 1
    assert values((await scene.fetch(("t", 0, 0))).records) == [b"a", b"c"]


async def test_messages_survive_a_restart_and_a_kill(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    again = await scene.restart()
    assert (await again.produce("t", 0, batch("c"))).base_offset == 2
    killed = again.kill()
    assert (await killed.produce("t", 0, batch("d"))).base_offset == 3
    assert values((await killed.fetch(("t", 0, 0))).records) == [b"a", b"b", b"c", b"d"]


# -- idempotent producers


async def test_a_duplicate_is_answered_with_its_old_offset(scene: Scene) -> None:
    await scene.produce("t", 0, batch("x"))
    first = await scene.produce("t", 0, batch("a", "b", id=1))
    again = await scene.produce("t", 0, batch("a", "b", id=1))
    assert (again.error_code, again.base_offset) == (0, first.base_offset) == (0, 1)
    assert (await scene.offsets("t", 0, -1)).offset == 3


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        ({"id": 1, "sequence": 2}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ({"id": 1, "epoch": 4, "sequence": 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"id": 1, "epoch": 6, "sequence": 3}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ({"id": 1, "epoch": 6, "sequence": 0}, ErrorCode.NONE),
        ({"id": 1, "epoch": 5, "sequence": 1}, ErrorCode.NONE),
        ({"id": 2, "epoch": 0, "sequence": 77}, ErrorCode.NONE),
    ],
    ids=["gap", "older epoch", "new epoch not at 0", "new epoch", "next", "unknown producer"],
)
async def test_sequences_are_checked(scene, producer, code):
    await scene.produce("t", 0, batch("a", id=1, epoch=5, sequence=0))
    assert (await scene.produce("t", 0, batch("b", **{"epoch": 5, **producer}))).error_code == code


async def test_sequences_are_per_partition(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", id=1, sequence=0))
    assert (await scene.produce("t", 1, batch("a", id=1, sequence=0))).base_offset == 0


@pytest.mark.parametrize("orderly", [True, False])
async def test_sequences_survive_a_restart(scene, orderly):
    await scene.produce("t", 0, batch("a", id=1, sequence=0))
    await scene.produce("t", 0, batch("b", id=1, sequence=1))
    again = await scene.restart() if orderly else scene.kill()
    assert (await again.produce("t", 0, batch("b", id=1, sequence=1))).base_offset == 1
    assert (await again.produce("t", 0, batch("d", id=1, sequence=3))).error_code == 45
    assert (await again.produce("t", 0, batch("c", id=1, sequence=2))).base_offset == 2


async def test_opening_learns_from_the_end_of_a_long_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partition.LEARN_BYTES", 300)
    for sequence in range(50):
        await scene.produce("t", 0, batch("a", id=1, sequence=sequence))
    again = await scene.restart()
    assert (await again.produce("t", 0, batch("a", id=1, sequence=49))).base_offset == 49
    assert (await again.produce("t", 0, batch("a", id=1, sequence=51))).error_code == 45
    assert (await again.produce("t", 0, batch("a", id=1, sequence=50))).base_offset == 50


async def test_much_unsynced_data_is_written_back_before_more_is_taken(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partition.WRITE_BACK_BYTES", 150)
    for value in ("a" * 100, "b" * 100, "c"):
        assert (await scene.produce("t", 0, batch(value))).error_code == 0
    syncs = [step for step in scene.disk.trace if step.startswith("sync") and "t-0" in step]
    assert len(syncs) >= 1


async def test_a_failing_write_back_is_a_storage_error_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partition.WRITE_BACK_BYTES", 1)
    await scene.produce("t", 0, batch("a"))
    before = scene.disk.calls
    scene.disk.failures.update(dict.fromkeys(range(before, before + 6), OSError(5, "EIO")))
    assert (await scene.produce("t", 0, batch("b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    scene.disk.failures.clear()
    assert (await scene.produce("t", 0, batch("c"))).base_offset == 1


async def test_segments_roll(scene: Scene) -> None:
    small = await scene.restart(log_segment_bytes=200)
    for value in ("a" * 100, "b" * 100, "c" * 100):
        await small.produce("t", 0, batch(value))
    logs = [name for name in small.disk.children("data/t-0") if name.endswith(".log")]
    assert len(logs) == 3
    assert len(values((await small.fetch(("t", 0, 0))).records)) >= 1
