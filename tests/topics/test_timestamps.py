"""Which timestamps records may have, and which are stored. Codes and words are Kafka 4.1's."""

from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import (
    CRC_START,
    check_crc,
    decode_records,
    iter_batches,
    read_header,
)
from groupkeeper.protocol.restamp import restamped
from groupkeeper.topics import record_check
from groupkeeper.topics.timestamps import NO_LIMIT, NO_TIMESTAMP, TimestampRules
from tests.support.requests import topic_configs
from tests.topics.scene import COMPRESSIONS, NOW, Scene, batch

HOUR = 3_600_000
LATER = NOW + 46 * HOUR


async def made(scene: Scene, name: str, **configs: object) -> None:
    """A topic; configs without `message.timestamp.`, dots as underscores."""
    given = {f"message.timestamp.{key}": value for key, value in configs.items()}
    assert not (await scene.create(name, configs=topic_configs(**given))).error_code


def errors_of(answer: Any) -> list[tuple[int, str]]:
    return [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors]


def restated(records: bytes, *, largest: int, server_time: bool = False) -> bytes:
    """A batch whose header says something else of its timestamps."""
    return restamped(records, read_header(records), largest, log_append_time=server_time)[0]


async def stored(scene: Scene, topic: str, offset: int = 0) -> tuple[bytes, list[int]]:
    """What Fetch returns, whose checksums are right, and the timestamps of the records."""
    data = bytes((await scene.fetch((topic, 0, offset))).records)
    headers = list(iter_batches(data))
    assert all(check_crc(data, header) for header in headers)
    times = [r.timestamp_ms for header in headers for r in decode_records(data, header)]
    return data, times


# -- CreateTime ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "fine"),
    [(NOW + HOUR, True), (NOW + HOUR + 1, False), (NOW, True), (0, True), (-1, True), (-9, True)],
)
async def test_by_default_records_may_be_an_hour_ahead_and_as_old_as_they_like(
    scene: Scene, timestamp: int, fine: bool
) -> None:
    answer = await scene.produce("t", 0, batch(timestamp=timestamp))
    assert answer.error_code == (0 if fine else ErrorCode.INVALID_TIMESTAMP)
    assert answer.base_offset == (0 if fine else -1)


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_each_record_with_an_invalid_timestamp_is_named(
    scene: Scene, compression: str
) -> None:
    await scene.produce("t", 0, batch("a"))
    records = batch(*"abcd", timestamp=NOW + HOUR - 1, compression=compression)
    answer = await scene.produce("t", 0, records)
    within = f"within [{NOW - NO_LIMIT}, {NOW + HOUR}]"
    words = "Timestamp {} of message with offset {} is out of range. The timestamp should be {}"
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert (answer.log_append_time_ms, answer.log_start_offset) == (-1, 0)
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert errors_of(answer) == [
        (place, words.format(NOW + HOUR - 1 + place, place, within)) for place in (2, 3)
    ]


async def test_records_may_not_be_older_than_their_topic_allows(scene: Scene) -> None:
    await made(scene, "t1", before_max_ms=1000)
    assert (await scene.produce("t1", 0, batch(timestamp=NOW - 1000))).error_code == 0
    answer = await scene.produce("t1", 0, batch(*"abc", timestamp=NOW - 1002))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [place for place, _ in errors_of(answer)] == [0, 1]
    scene.now += 1
    answer = await scene.produce("t1", 0, batch(timestamp=NOW - 1000))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await scene.produce("t1", 0, batch(timestamp=NO_TIMESTAMP))).error_code == 0


async def test_limits_are_settings_and_may_be_altered(scene: Scene) -> None:
    scene = await scene.restart(
        log_message_timestamp_before_max_ms=10, log_message_timestamp_after_max_ms=20
    )
    for timestamp, fine in [(-11, False), (-10, True), (20, True), (21, False)]:
        answer = await scene.produce("t", 0, batch(timestamp=NOW + timestamp))
        assert answer.error_code == (0 if fine else ErrorCode.INVALID_TIMESTAMP), timestamp
    await scene.alter("t", message_timestamp_after_max_ms="30")
    assert (await scene.produce("t", 0, batch(timestamp=NOW + 30))).error_code == 0
    await scene.alter("t", message_timestamp_after_max_ms=None)
    assert (await scene.produce("t", 0, batch(timestamp=NOW + 30))).error_code != 0


async def test_a_header_that_says_too_much_is_corrected(scene: Scene) -> None:
    sent = restated(batch("a", "b"), largest=NOW + 9 * HOUR)
    assert (await scene.produce("t", 0, sent)).error_code == 0
    data, times = await stored(scene, "t")
    assert read_header(data).max_timestamp == NOW + 1
    assert times == [NOW, NOW + 1]


async def test_what_is_wrong_with_keys_is_told_beside_timestamps(scene: Scene) -> None:
    await scene.create("c", configs=topic_configs(cleanup_policy="compact"))
    answer = await scene.produce("c", 0, batch("a", "b", timestamp=LATER, keys=[b"k"]))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert ["key" in words for _, words in errors_of(answer)] == [False, True]


async def test_what_cannot_be_read_or_is_too_long_to_be_read_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = bytearray(batch("a", timestamp=LATER))
    damaged[61] += 2  # the record's length
    damaged = bytearray(restated(bytes(damaged), largest=LATER + 1))
    answer = await scene.produce("t", 0, bytes(damaged))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "cannot be read" in answer.error_message
    monkeypatch.setattr(record_check, "RECORDS_MOST", 1)
    answer = await scene.produce("t", 0, batch("a", "b", timestamp=LATER))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "may have 1 records, not 2" in answer.error_message


async def test_other_partitions_of_the_request_are_appended(scene: Scene) -> None:
    request = scene.produce_request(("t", 0, batch(timestamp=LATER)), ("t", 1, batch()))
    response = await scene.ask(9, request)
    codes = [topic.partition_responses[0].error_code for topic in response.responses]
    assert codes == [ErrorCode.INVALID_TIMESTAMP, 0]


# -- LogAppendTime ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_records_get_the_time_of_their_append(scene: Scene, compression: str) -> None:
    await made(scene, "s", type="LogAppendTime")
    scene.now = LATER
    sent = batch("a", "b", compression=compression)
    answer = await scene.produce("s", 0, sent)
    assert (answer.error_code, answer.log_append_time_ms) == (0, LATER)
    data, times = await stored(scene, "s")
    header = read_header(data)
    assert (header.is_log_append_time, header.max_timestamp) == (True, LATER)
    assert times == [LATER, LATER]
    assert data[23:35] + data[43:] == sent[23:35] + sent[43:]  # nothing else is changed
    assert data[CRC_START:23] == bytes([0, 8 | COMPRESSIONS[compression]])


async def test_with_append_time_the_limits_do_not_apply(scene: Scene) -> None:
    await made(scene, "s", type="LogAppendTime", before_max_ms=1, after_max_ms=1)
    for timestamp in (0, LATER, NO_TIMESTAMP):
        assert (await scene.produce("s", 0, batch(timestamp=timestamp))).error_code == 0
    assert (await stored(scene, "s"))[1] == [NOW] * 3


async def test_lookups_by_time_find_the_append_time(scene: Scene) -> None:
    await made(scene, "s", type="LogAppendTime")
    for second in range(3):
        scene.now = NOW + 1000 * second
        await scene.produce("s", 0, batch("a", "b", timestamp=0))
    found = await scene.offsets("s", 0, NOW + 1)
    assert (found.offset, found.timestamp) == (2, NOW + 1000)
    assert (await scene.offsets("s", 0, NOW + 2001)).offset == -1


async def test_the_time_of_the_append_begins_new_segments(scene: Scene) -> None:
    await made(scene, "s", type="LogAppendTime")
    await scene.alter("s", segment_ms="1000")
    for second in (0, 5):
        scene.now = NOW + 1000 * second
        await scene.produce("s", 0, batch("a", timestamp=NOW))
    partition = scene.topics.partitions.find("s", 0)
    assert partition is not None
    assert partition.log is not None
    assert len(partition.log.segments) == 2


async def test_the_type_is_a_setting_and_may_be_altered(scene: Scene) -> None:
    scene = await scene.restart(log_message_timestamp_type="LogAppendTime")
    scene.now = LATER
    assert (await scene.produce("t", 0, batch(timestamp=NOW))).log_append_time_ms == LATER
    await scene.alter("t", message_timestamp_type="CreateTime")
    assert (await scene.produce("t", 0, batch(timestamp=NOW))).log_append_time_ms == -1
    assert (await stored(scene, "t"))[1] == [LATER, NOW]


async def test_a_producer_must_not_say_log_append_time(scene: Scene) -> None:
    await made(scene, "s", type="LogAppendTime")
    answer = await scene.produce("s", 0, restated(batch("a"), largest=NOW, server_time=True))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    [(place, words)] = errors_of(answer)
    assert place == 0
    assert words.endswith("Producer should not set timestamp type to LogAppendTime.")


async def test_with_create_time_a_producers_log_append_time_is_taken_back(scene: Scene) -> None:
    said = restated(batch("a"), largest=NOW + 5, server_time=True)
    assert (await scene.produce("t", 0, said)).error_code == 0
    data, _ = await stored(scene, "t")
    assert not read_header(data).is_log_append_time
    late = restated(batch("a"), largest=LATER, server_time=True)
    assert (await scene.produce("t", 0, late)).error_code == ErrorCode.INVALID_TIMESTAMP
    without = restated(batch("a"), largest=NO_TIMESTAMP, server_time=True)
    assert (await scene.produce("t", 0, without)).error_code == ErrorCode.INVALID_TIMESTAMP


# -- repeated batches ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_a_repeated_batch_has_the_time_of_the_first(scene: Scene, kind: str) -> None:
    await made(scene, "s", type=kind)
    sent = batch("a", "b", id=1)
    first = await scene.produce("s", 0, sent)
    scene.now += 500
    again = await scene.produce("s", 0, sent)
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    assert first.log_append_time_ms == (NOW if kind == "LogAppendTime" else -1)
    assert again.log_append_time_ms == (NOW if kind == "LogAppendTime" else NOW + 1)
    scene = await scene.restart()
    assert (await scene.produce("s", 0, sent)).log_append_time_ms == again.log_append_time_ms


# -- the rules alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_the_timestamp_that_a_batch_states_is_read_unchecked(kind: Any) -> None:
    raw, rules = batch("a", "b", timestamp=NOW), TimestampRules()
    assert rules.expected(kind(raw), NOW) == (NOW + 1, False)
    assert rules.expected(kind(raw[:43]), NOW) == (NOW + 1, False)
    nothing = NO_TIMESTAMP, False
    assert rules.expected(kind(raw[:42]), 0) == rules.expected(None, 0) == nothing == (-1, False)
    assert TimestampRules(log_append_time=True).expected(kind(raw), 5) == (5, False)


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_batch_within_the_limits_is_not_read(kind: Any) -> None:
    raw, rules = kind(batch("a")), TimestampRules()
    assert rules.expected(raw, NOW - HOUR) == (NOW, False)
    assert rules.expected(raw, NOW - HOUR - 1) == (NOW, True)
    assert TimestampRules(before_max_ms=1).expected(raw, NOW) == (NOW, True)
    assert not rules.must_stamp(read_header(raw))
