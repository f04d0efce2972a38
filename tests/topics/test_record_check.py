"""Batches for compacted topics: each record has a key, and can be read. Answers are Kafka 4.1's."""

import asyncio
from typing import Any

import pytest
from crc32c import crc32c

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics import record_check
from tests.support.requests import topic_configs
from tests.topics.scene import COMPRESSIONS, InlineWorker, Scene, batch

WHY = "Compacted topic cannot accept message without key in topic partition c-0"


@pytest.fixture
async def scene(scene: Scene) -> Scene:
    """With a compacted topic `c`."""
    await made(scene, "c", "compact")
    return scene


async def made(scene: Scene, name: str, policy: str) -> None:
    configs = topic_configs(cleanup_policy=policy)
    assert not (await scene.create(name, partitions=2, configs=configs)).error_code


def errors_of(answer: Any) -> list[tuple[int, str]]:
    return [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors]


@pytest.mark.parametrize("compression", list(COMPRESSIONS))
async def test_a_record_without_a_key_refuses_its_batch(scene: Scene, compression: str) -> None:
    await scene.produce("c", 0, batch(keys=[b"k"]))
    keys = [b"k", None, b"", None, None, None]
    records = batch(*"abcdef", keys=keys, compression=compression)
    answer = await scene.produce("c", 0, records)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert answer.log_start_offset == 0
    assert errors_of(answer) == [(place, WHY) for place in (1, 3, 4, 5)]
    named = ", ".join(f"RecordError(batchIndex={place}, message='{WHY}')" for place in (1, 3, 4))
    assert answer.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing "
        f"the first three errors at most: [{named}]"
    )
    assert (await scene.produce("c", 0, batch("a", keys=[b""]))).base_offset == 1


@pytest.mark.parametrize(
    ("policy", "error"),
    [("compact", ErrorCode.INVALID_RECORD), ("compact,delete", ErrorCode.INVALID_RECORD)]
    + [(policy, ErrorCode.NONE) for policy in ("delete", "")],
)
async def test_only_compacted_topics_need_keys(scene: Scene, policy: str, error: int) -> None:
    await made(scene, "u", policy)
    assert (await scene.produce("u", 0, batch())).error_code == error


async def test_the_servers_policy_holds_for_topics_without_one(scene: Scene) -> None:
    scene = await scene.restart(log_cleanup_policy="compact")
    assert (await scene.produce("t", 0, batch())).error_code == ErrorCode.INVALID_RECORD
    assert (await scene.produce("t", 0, batch(keys=[b"k"]))).error_code == 0


async def test_a_topic_that_becomes_compacted_needs_keys_from_then_on(scene: Scene) -> None:
    assert (await scene.produce("t", 0, batch())).error_code == 0
    await scene.alter("t", cleanup_policy="compact")
    assert (await scene.produce("t", 0, batch())).error_code == ErrorCode.INVALID_RECORD


async def test_other_partitions_of_the_request_are_appended(scene: Scene) -> None:
    request = scene.produce_request(
        ("c", 0, batch()), ("t", 0, batch()), ("c", 1, batch(keys=[b"k"])), ("t", 9, batch())
    )
    response = await scene.ask(9, request)
    codes = [topic.partition_responses[0].error_code for topic in response.responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [ErrorCode.INVALID_RECORD, 0, 0, unknown]


async def test_what_is_wrong_with_a_batch_itself_is_said_first(scene: Scene) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    answer = await scene.produce("c", 0, bytes(damaged))
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    assert (await scene.produce("c", 0, None)).error_code == ErrorCode.INVALID_RECORD


async def test_an_old_client_gets_the_code(scene: Scene) -> None:
    answer = await scene.produce("c", 0, batch(), version=3)
    assert answer.error_code == ErrorCode.INVALID_RECORD


async def test_acks_0_is_not_answered(scene: Scene) -> None:
    reply = scene.send_produce("c", 0, batch("kept", keys=[b"k"]), acks=0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert "NoReply" in type(reply.response).__name__
    assert (await scene.offsets("c", 0, -1)).offset == 1


async def test_a_batch_whose_records_cannot_be_read_is_refused(scene: Scene) -> None:
    # Compaction could not read them, and would never get beyond them.
    raw = bytearray(batch("value", keys=[b"key"]))
    raw[61] += 2  # the record's length
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    answer = await scene.produce("c", 0, bytes(raw))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "cannot be read" in answer.error_message
    assert (await scene.produce("t", 0, bytes(raw))).error_code == 0


async def test_a_batch_that_cannot_be_decompressed_is_refused(scene: Scene) -> None:
    raw = bytearray(batch(*["value"] * 50, keys=[b"key"] * 50, compression="gzip"))
    raw[80] ^= 255
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    assert (await scene.produce("c", 0, bytes(raw))).error_code == ErrorCode.INVALID_RECORD


async def test_what_decompresses_to_much_is_decompressed_beside_the_loop(scene: Scene) -> None:
    class Counted(InlineWorker):
        jobs = 0

        async def __call__(self, job: Any) -> Any:
            self.jobs += 1
            return job()

    worker = Counted()
    scene = Scene(scene.disk, scene.settings, worker)
    await scene.produce("c", 0, batch(keys=[b"k"]))
    opening = worker.jobs
    for compression in ("gzip", "snappy", "lz4", "zstd"):
        values = ["x" * 100_000] * 30
        records = batch(*values, keys=[b"k"] * 30, compression=compression)
        assert (await scene.produce("c", 0, records)).error_code == 0
        records = batch(*values, keys=[b"k"] * 29, compression=compression)
        assert errors_of(await scene.produce("c", 0, records)) == [(29, WHY)]
    assert worker.jobs == opening + 8


async def test_some_of_many_records_are_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await scene.produce("c", 0, batch(*["v"] * 5_000))
    assert [place for place, _ in errors_of(answer)] == list(range(record_check.RECORD_ERRORS_MOST))
    assert "due to 5000 record errors in total" in answer.error_message
    monkeypatch.setattr(record_check, "RECORDS_MOST", 4_999)
    answer = await scene.produce("c", 0, batch(*["v"] * 5_000, keys=[b"k"] * 5_000))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message.startswith("A batch for a compacted topic may have 4999 records")


async def test_header_keys_of_any_bytes_are_accepted_as_in_kafka(scene: Scene) -> None:
    raw = bytearray(batch("value", keys=[b"key"]))
    # A header with the key FF and no value; lengths grow by three bytes.
    raw[-1:] = b"\x02\x02\xff\x01"
    raw[61] += 6
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    assert (await scene.produce("c", 0, bytes(raw))).error_code == 0
