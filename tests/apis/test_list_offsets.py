"""ListOffsets: by name of the end, by time, and in the form of every version."""

import pytest
from crc32c import crc32c

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.record_batch import encode_batch
from tests.topics.scene import COMPRESSIONS, NOW, Scene, batch

LATEST, EARLIEST, LARGEST, LOCAL, TIERED = -1, -2, -3, -4, -5


def found(answer: object) -> tuple[int, int, int, int]:
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


async def test_the_ends_of_the_log(scene: Scene) -> None:
    assert found(await scene.offsets("t", 0, LATEST)) == (0, 0, -1, 0)
    await scene.produce("t", 0, batch("a", "b"))
    assert found(await scene.offsets("t", 0, LATEST)) == (0, 2, -1, 0)
    assert found(await scene.offsets("t", 0, EARLIEST)) == (0, 0, -1, 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_the_first_record_that_is_young_enough(scene, compression):
    await scene.produce("t", 0, batch("a", "b", "c", compression=compression))
    await scene.produce("t", 0, batch("d", timestamp=NOW + 100, compression=compression))
    assert found(await scene.offsets("t", 0, NOW + 1)) == (0, 1, NOW + 1, 0)
    assert found(await scene.offsets("t", 0, NOW + 50)) == (0, 3, NOW + 100, 0)
    assert found(await scene.offsets("t", 0, 0)) == (0, 0, NOW, 0)


async def test_nothing_that_young_is_no_error(scene: Scene) -> None:
    assert found(await scene.offsets("t", 0, NOW)) == (0, -1, -1, -1)
    await scene.produce("t", 0, batch("a"))
    assert found(await scene.offsets("t", 0, NOW + 1)) == (0, -1, -1, -1)


@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_the_record_with_the_largest_timestamp(scene, compression):
    assert found(await scene.offsets("t", 0, LARGEST)) == (0, -1, -1, -1)
    await scene.produce("t", 0, batch("a", timestamp=NOW))
    await scene.produce("t", 0, batch("b", "c", timestamp=NOW + 50, compression=compression))
    await scene.produce("t", 0, batch("d", timestamp=NOW + 10))
    assert found(await scene.offsets("t", 0, LARGEST)) == (0, 2, NOW + 51, 0)
    again = await scene.restart()
    assert found(await again.offsets("t", 0, LARGEST)) == (0, 2, NOW + 51, 0)


async def test_the_largest_timestamp_may_be_in_the_part_not_looked_through(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.topics.partition.LEARN_BYTES", 100)
    await scene.produce("t", 0, batch("a", "b", timestamp=NOW + 3_000_000))
    for _ in range(20):
        await scene.produce("t", 0, batch("c"))
    again = await scene.restart()
    assert found(await again.offsets("t", 0, LARGEST)) == (0, 1, NOW + 3_000_001, 0)


async def test_a_header_that_promises_too_much_is_not_believed(scene: Scene) -> None:
    raw = bytearray(batch("a", "b"))
    raw[35:43] = (NOW + 9_999).to_bytes(8, "big")
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    await scene.produce("t", 0, bytes(raw))
    assert found(await scene.offsets("t", 0, LARGEST)) == (0, 1, NOW + 1, 0)


async def test_all_storage_is_local(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    assert found(await scene.offsets("t", 0, LOCAL, version=8)) == (0, 0, -1, 0)
    assert found(await scene.offsets("t", 0, TIERED, version=9)) == (0, -1, -1, -1)
    assert found(await scene.offsets("t", 0, LATEST, version=10)) == (0, 2, -1, 0)


async def test_a_name_that_is_none_is_told_before_a_topic_that_is_none(scene: Scene) -> None:
    assert (await scene.offsets("nope", 0, -9)).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("timestamp", "version"), [(LARGEST, 6), (LOCAL, 7), (TIERED, 8), (-6, 10)]
)
async def test_names_of_times_that_the_version_does_not_have(scene, timestamp, version):
    answer = await scene.offsets("t", 0, timestamp, version=version)
    assert found(answer) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, 0), (3, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)],
)
async def test_leader_epochs_are_checked(scene, epoch, code):
    answer = await scene.offsets("t", 0, LATEST, current_leader_epoch=epoch)
    assert answer.error_code == code


async def test_a_partition_named_twice_is_refused_twice(scene: Scene) -> None:
    wanted = [ListOffsetsPartition(partition_index=i, timestamp=LATEST) for i in (0, 1, 0)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    response = await scene.ask(5, request)
    codes = [p.error_code for p in response.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("timestamp", "most", "offsets"),
    [
        (LATEST, 1, [2]),
        (LATEST, 9, [2, 0]),
        (LATEST, 0, []),
        (EARLIEST, 1, [0]),
        (NOW + 1, 1, [1]),
        (NOW + 9, 1, []),
    ],
)
async def test_version_0_has_lists(scene, timestamp, most, offsets):
    await scene.produce("t", 0, batch("a", "b"))
    answer = await scene.offsets("t", 0, timestamp, version=0, max_num_offsets=most)
    assert (answer.error_code, answer.old_style_offsets) == (0, offsets)


async def test_group_partitions_without_a_log_are_empty(scene: Scene) -> None:
    for timestamp in (LATEST, EARLIEST):
        assert found(await scene.offsets("__consumer_offsets", 0, timestamp)) == (0, 0, -1, 0)
    assert (await scene.offsets("__consumer_offsets", 0, NOW)).offset == -1


def undecodable() -> bytes:
    """A batch with a good checksum that says gzip and is not."""
    raw = bytearray(encode_batch(0, -1, NOW, [(None, b"not gzip")]))
    raw[22] |= 1
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


async def test_a_batch_that_no_codec_understands_does_not_break_the_server(scene: Scene) -> None:
    assert (await scene.produce("t", 0, undecodable())).error_code == 0
    for timestamp in (LARGEST, NOW):
        assert (await scene.offsets("t", 0, timestamp)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert (await scene.offsets("t", 0, LATEST)).offset == 1


async def test_a_damaged_log_is_a_storage_error(scene: Scene) -> None:
    for value in ("a" * 600, "b"):
        await scene.produce("t", 0, batch(value))
    await scene.topics.close()
    scene.disk.flip("data/t-0/00000000000000000000.log", 65)
    again = Scene(scene.disk)
    assert (await again.offsets("t", 0, LATEST)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
