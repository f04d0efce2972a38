"""`groupkeeper dump` over our batches and over a log that Apache Kafka wrote."""

import json
import re
from pathlib import Path

import pytest

from groupkeeper.cli import main
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.support.codecs import encode_assignment, encode_subscription

Capture = pytest.CaptureFixture[str]
FROM_KAFKA = Path(__file__).parent.parent / "fixtures" / "kafka-consumer-offsets"

COMMIT = OffsetCommitKey(group="orders", topic="t", partition=3)
MEMBER = MemberMetadata(
    member_id="m-1",
    subscription=encode_subscription(Subscription(topics=["t"])),
    assignment=encode_assignment(
        Assignment(assigned_partitions=[TopicPartition(topic="t", partitions=[0, 1])])
    ),
)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """An empty segment of the offsets log."""
    folder = tmp_path / "data" / "__consumer_offsets-7"
    folder.mkdir(parents=True)
    return folder / "00000000000000000000.log"


def write(segment: Path, *records: tuple[bytes | None, bytes | None]) -> None:
    with segment.open("ab") as file:
        file.write(encode_batch(0, 4, 1_700_000_000_000, records))


def record_lines(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("| ")]


def payload(line: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(line.partition(" payload: ")[2])
    return found


def test_a_commit_is_one_line(segment: Path, capsys: Capture) -> None:
    write(segment, (encode_key(COMMIT), encode_value(OffsetCommitValue(offset=42), 3)))
    assert main(["dump", str(segment)]) == 0
    (line,) = record_lines(capsys.readouterr().out)
    assert line == (
        "| offset: 0 CreateTime: 1700000000000 "
        'key: {"type":1,"data":{"group":"orders","topic":"t","partition":3}} '
        'payload: {"version":3,"data":{"offset":42,"leaderEpoch":-1,"metadata":"",'
        '"commitTimestamp":0}}'
    )


def test_only_fields_of_the_version_are_shown(segment: Path, capsys: Capture) -> None:
    write(segment, (encode_key(COMMIT), encode_value(OffsetCommitValue(offset=42), 0)))
    main(["dump", str(segment)])
    assert '{"version":0,"data":{"offset":42,"metadata":"","commitTimestamp":0}}' in (
        capsys.readouterr().out
    )


def test_a_groups_members_are_opened(segment: Path, capsys: Capture) -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=5, members=[MEMBER])
    write(segment, (encode_key(GroupMetadataKey(group="orders")), encode_value(value, 3)))
    main(["dump", str(segment)])
    member = payload(record_lines(capsys.readouterr().out)[0])["data"]["members"][0]  # type: ignore[index]
    assert member["memberId"] == "m-1"
    assert member["subscription"]["topics"] == ["t"]
    assert member["assignment"]["assignedPartitions"] == [{"topic": "t", "partitions": [0, 1]}]


def test_opaque_bytes_that_are_no_subscription_are_base64(segment: Path, capsys: Capture) -> None:
    value = GroupMetadataValue(members=[MemberMetadata(subscription=b"\xff\xff\xff")])
    write(segment, (encode_key(GroupMetadataKey(group="connect")), encode_value(value, 3)))
    main(["dump", str(segment)])
    assert '"subscription":"____"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((encode_key(COMMIT), None), '"partition":3}} payload: null'),
        ((b"\x00\x05abc", b"value"), 'key: {"type":5} payload: {"bytes":5}'),
        ((b"\x00\x01\x00", b"value"), 'key: {"unreadable":'),
        ((encode_key(COMMIT), b"\x00\x03\x00"), 'payload: {"unreadable":'),
        ((encode_key(COMMIT), b"\xff\xff"), 'payload: {"unreadable":'),
        ((encode_key(COMMIT), b""), 'payload: {"unreadable":'),
        ((None, b"value"), 'key: null payload: "value"'),
    ],
)
def test_whatever_else_a_record_holds_is_shown(
    record: tuple[bytes | None, bytes | None], text: str, segment: Path, capsys: Capture
) -> None:
    write(segment, record)
    assert main(["dump", str(segment)]) == 0
    assert text in record_lines(capsys.readouterr().out)[0]


def test_other_topics_are_shown_as_text(tmp_path: Path, capsys: Capture) -> None:
    segment = tmp_path / "00000000000000000000.log"
    write(segment, (b"caf\xc3\xa9", b"\xff\x00"), (None, None))
    main(["dump", str(segment)])
    lines = record_lines(capsys.readouterr().out)
    assert lines[0].endswith('key: "café" payload: "\\\\xff\\u0000"')
    assert lines[1].endswith("key: null payload: null")


def test_any_file_can_be_read_as_the_offsets_log(tmp_path: Path, capsys: Capture) -> None:
    segment = tmp_path / "copy.log"
    write(segment, (encode_key(COMMIT), None))
    main(["dump", "--offsets", str(segment)])
    assert '"group":"orders"' in capsys.readouterr().out


@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_file_its_folder_or_a_data_directory(up: int, segment: Path, capsys: Capture) -> None:
    write(segment, (encode_key(COMMIT), None))
    path = [segment, *segment.parents][up]
    assert main(["dump", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"Dumping {segment}\nbaseOffset: 0 lastOffset: 0 ")


def test_batches_alone(segment: Path, capsys: Capture) -> None:
    write(segment, (encode_key(COMMIT), None))
    main(["dump", "--no-records", str(segment)])
    out = capsys.readouterr().out
    assert record_lines(out) == []
    assert "partitionLeaderEpoch: 4" in out


def test_a_folder_without_segments_is_said_to_be_one(tmp_path: Path, capsys: Capture) -> None:
    assert main(["dump", str(tmp_path)]) == 2
    assert "no segment files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:-1], "the batch at byte 83 is cut off"),
        (lambda data: data[:100], "at byte 83: "),
        (lambda data: data[:-1] + b"\xff", "fails its checksum"),
        (lambda data: data + bytes(61), "at byte 166: "),
    ],
)
def test_a_damaged_tail_ends_the_dump_with_exit_code_1(
    damage: object, problem: str, segment: Path, capsys: Capture
) -> None:
    for _ in range(2):
        write(segment, (b"\x00\x05" + bytes(8), b"value"))
    assert segment.stat().st_size == 2 * 83
    segment.write_bytes(damage(segment.read_bytes()))  # type: ignore[operator]  # one of the lambdas
    assert main(["dump", str(segment)]) == 1
    out, err = capsys.readouterr()
    assert len(record_lines(out)) >= 1
    assert problem in err
    assert err.count("\n") == 1


def test_a_log_of_apache_kafka_is_read_whole(capsys: Capture) -> None:
    assert main(["dump", str(FROM_KAFKA)]) == 0
    out = capsys.readouterr().out
    assert "unreadable" not in out
    assert "endTxnMarker: COMMIT" in out
    assert "endTxnMarker: ABORT" in out
    assert set(re.findall(r'^\| .* key: {"type":(\d+)', out, re.MULTILINE)) >= {"1", "2", "3"}
