"""`groupkeeper dump` over our batches and over a log that Apache Kafka wrote."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from groupkeeper.cli import main
from groupkeeper.cli.progress import progress
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.record_batch import encode_batch, iter_batches
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from groupkeeper.storage.files.files import Files
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.damaged import SETTINGS, commit_late, live, live_on
from tests.support.directories import save
from tests.support.served import Served

Capture = pytest.CaptureFixture[str]
Dump = Callable[..., tuple[str, str]]
"""Runs the command; returns what it prints on both streams."""
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


def write(segment: Path, *records: tuple[bytes | None, bytes | None], base: int = 0) -> None:
    with segment.open("ab") as file:
        file.write(encode_batch(base, 4, 1_700_000_000_000, records))


def record_lines(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("| ")]


@pytest.fixture
def dump(capsys: Capture) -> Dump:
    def run(*words: str | Path, code: int = 0) -> tuple[str, str]:
        assert main(["dump", *map(str, words)]) == code
        out, err = capsys.readouterr()
        return out, err

    return run


def payload(line: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(line.partition(" payload: ")[2])
    return found


def test_a_commit_is_one_line(segment: Path, dump: Dump) -> None:
    write(segment, (encode_key(COMMIT), encode_value(OffsetCommitValue(offset=42), 3)))
    out, _ = dump(segment)
    (line,) = record_lines(out)
    assert line == (
        "| offset: 0 CreateTime: 1700000000000 "
        'key: {"type":1,"data":{"group":"orders","topic":"t","partition":3}} '
        'payload: {"version":3,"data":{"offset":42,"leaderEpoch":-1,"metadata":"",'
        '"commitTimestamp":0}}'
    )


def test_only_fields_of_the_version_are_shown(segment: Path, dump: Dump) -> None:
    write(segment, (encode_key(COMMIT), encode_value(OffsetCommitValue(offset=42), 0)))
    out, _ = dump(segment)
    assert '{"version":0,"data":{"offset":42,"metadata":"","commitTimestamp":0}}' in (out)


def test_a_groups_members_are_opened(segment: Path, dump: Dump) -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=5, members=[MEMBER])
    write(segment, (encode_key(GroupMetadataKey(group="orders")), encode_value(value, 3)))
    out, _ = dump(segment)
    member = payload(record_lines(out)[0])["data"]["members"][0]  # type: ignore[index]
    assert member["memberId"] == "m-1"
    assert member["subscription"]["topics"] == ["t"]
    assert member["assignment"]["assignedPartitions"] == [{"topic": "t", "partitions": [0, 1]}]


def test_opaque_bytes_that_are_no_subscription_are_base64(segment: Path, dump: Dump) -> None:
    value = GroupMetadataValue(members=[MemberMetadata(subscription=b"\xff\xff\xff")])
    write(segment, (encode_key(GroupMetadataKey(group="connect")), encode_value(value, 3)))
    out, _ = dump(segment)
    assert '"subscription":"____"' in out


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
    record: tuple[bytes | None, bytes | None], text: str, segment: Path, dump: Dump
) -> None:
    write(segment, record)
    out, _ = dump(segment)
    assert text in record_lines(out)[0]


def test_other_topics_are_shown_as_text(tmp_path: Path, dump: Dump) -> None:
    segment = tmp_path / "00000000000000000000.log"
    write(segment, (b"caf\xc3\xa9", b"\xff\x00"), (None, None))
    out, _ = dump(segment)
    lines = record_lines(out)
    assert lines[0].endswith('key: "café" payload: "\\\\xff\\u0000"')
    assert lines[1].endswith("key: null payload: null")


def test_any_file_can_be_read_as_the_offsets_log(tmp_path: Path, dump: Dump) -> None:
    segment = tmp_path / "copy.log"
    write(segment, (encode_key(COMMIT), None))
    out, _ = dump("--offsets", segment)
    assert '"group":"orders"' in out


def test_a_file_or_its_folder(segment: Path, dump: Dump) -> None:
    write(segment, (encode_key(COMMIT), None))
    for path in segment, segment.parent:
        out, _ = dump(path)
        assert f"Dumping {segment}\nbaseOffset: 0 lastOffset: 0 " in out


def test_batches_alone(segment: Path, dump: Dump) -> None:
    write(segment, (encode_key(COMMIT), None))
    out, _ = dump("--no-records", segment)
    assert record_lines(out) == []
    assert "partitionLeaderEpoch: 4" in out


def test_a_folder_without_segments_is_said_to_be_one(tmp_path: Path, dump: Dump) -> None:
    _, err = dump(tmp_path, code=2)
    assert "no segment files" in err


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
    damage: object, problem: str, segment: Path, dump: Dump
) -> None:
    for base in range(2):
        write(segment, (b"\x00\x05" + bytes(8), b"value"), base=base)
    assert segment.stat().st_size == 2 * 83
    segment.write_bytes(damage(segment.read_bytes()))  # type: ignore[operator]  # one of the lambdas
    out, err = dump(segment, code=1)
    assert len(record_lines(out)) >= 1
    assert problem in err
    assert err.count("\n") == 1


def test_a_log_of_apache_kafka_is_read_whole(dump: Dump) -> None:
    out, _ = dump(*FROM_KAFKA.glob("*/"))
    assert "unreadable" not in out
    assert "endTxnMarker: COMMIT" in out
    assert "endTxnMarker: ABORT" in out
    assert set(re.findall(r'^\| .* key: {"type":(\d+)', out, re.MULTILINE)) >= {"1", "2", "3"}


# -- damage, and going on after it -----------------------------------------------------------------


def many(segment: Path, count: int = 5) -> list[int]:
    """Batches of one record each; returns where they begin."""
    starts = []
    for base in range(count):
        starts.append(segment.stat().st_size if segment.exists() else 0)
        write(segment, (b"\x00\x05" + bytes(8), b"value %d" % base), base=base)
    return starts


def flip(path: Path, position: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


def test_it_goes_on_after_every_damaged_place(segment: Path, dump: Dump) -> None:
    starts = many(segment, 7)
    flip(segment, starts[1] + 70)
    flip(segment, starts[3] + 10)
    flip(segment, starts[5] + 16)
    out, err = dump(segment, code=1)
    shown = re.findall(r"^baseOffset: (\d+) .* isvalid: (\w+)", out, re.MULTILINE)
    assert [int(offset) for offset, valid in shown if valid == "true"] == [0, 2, 4, 6]
    assert ("1", "false") in shown
    places = re.findall(r"at byte (\d+).*, a sound one follows at byte (\d+)$", err, re.MULTILINE)
    wanted = [(starts[n], starts[n + 1]) for n in (1, 3, 5)]
    assert [(int(place), int(next_one)) for place, next_one in places] == wanted
    assert all(str(segment) in line for line in err.splitlines())


def test_offsets_and_epochs_that_do_not_ascend_are_told(segment: Path, dump: Dump) -> None:
    starts = many(segment)
    flip(segment, starts[2] + 7, 4)
    flip(segment, starts[1] + 15, 8)
    out, err = dump(segment, code=1)
    assert len(record_lines(out)) == 5
    assert f"the batch at byte {starts[2]}: epoch 4 follows epoch 12" in err
    assert f"the batch at byte {starts[3]}: offset 3 follows offset 6" in err


def test_offsets_that_compaction_has_removed_are_told(segment: Path, dump: Dump) -> None:
    for base in (0, 5):
        write(segment, (b"\x00\x05", b"value"), base=base)
    out, _ = dump(segment)
    assert "\nno offsets 1 to 4\n" in out


def test_a_batch_with_a_delete_horizon_and_one_without_records(segment: Path, dump: Dump) -> None:
    """As Kafka's cleaner, and ours, leave them."""
    [header] = iter_batches(encode_batch(0, 4, 1_700_000_000_000, [(b"\x00\x05", None)]))
    data = bytearray(encode_batch(0, 4, 1_700_000_000_000, [(b"\x00\x05", None)]))
    data[22] |= 0x40
    empty = bytearray(encode_batch(7, 4, 1_700_000_000_000, [(b"", None)])[:61])
    empty[8:12] = (61 - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    for batch in (data, empty):
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    segment.write_bytes(bytes(data + empty))
    out, _ = dump(segment)
    one, _, gap, other = out.splitlines()[1:]
    assert f"isControl: false deleteHorizonMs: {header.base_timestamp} position: 0 " in one
    assert gap == "no offsets 1 to 6"
    assert other.startswith("baseOffset: 7 lastOffset: 7 count: 0 ")


def test_an_end_that_is_being_written_is_read_again(
    segment: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(segment)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])

    def written_meanwhile(seconds: float) -> None:
        segment.write_bytes(whole)

    monkeypatch.setattr("time.sleep", written_meanwhile)
    out, err = dump(segment)
    assert (len(record_lines(out)), err) == (5, "")


# -- folders, journals, directories ----------------------------------------------------------------


@pytest.fixture
def directory(serve: Callable[..., Served], tmp_path: Path) -> Path:
    """The directory of a server that was killed, with commits that only the journal has."""
    served = serve(*SETTINGS)
    live(served, flushes=30)
    commit_late(served, 77)
    served.machine.kill()
    save(served.disk, tmp_path / "data")
    return tmp_path / "data"


def test_a_directory_is_summed_up(directory: Path, dump: Dump) -> None:
    out, _ = dump(directory)
    [first, *lines] = out.splitlines()
    assert re.search(
        r"data: format: \d+ directory: \w+ partitions of __consumer_offsets: 4$", first
    )
    names = [line.partition(":")[0].removeprefix(f"{directory}/") for line in lines]
    assert [*names[:2], *names[-3:-1]] == ["catalog", "catalog-copy", "orders-0", "payments-2"]
    assert re.search(r"orders-0: segments: 2 compacted: 0 size: \d+ offsets: 0 to 29 ", out)
    assert re.search(r"journals/0-0.*: flushes: 1 to \d+ size: \d+ logs: 8$", out, re.MULTILINE)


def test_all_files_of_a_directory(directory: Path, dump: Dump) -> None:
    folders = {each.parent for each in (*directory.glob("*/*.log"), *directory.glob("journals/*"))}
    out, _ = dump(*folders)
    files = [*directory.glob("*/*.log"), *directory.glob("journals/*")]
    assert len(files) > 8
    assert all(f"Dumping {path}\n" in out for path in files)
    assert '"offset":77' in out


def test_a_folder_with_all_that_is_in_it(directory: Path, dump: Dump) -> None:
    folder = directory / "__consumer_offsets-0"
    (folder / "accept-loss").touch()
    (folder / "0.log.swap").touch()
    out, _ = dump("--no-records", folder)
    lines = out.splitlines()
    assert lines[0] == f"Folder {folder}"
    assert lines[1].startswith("manifest: begun: ")
    assert re.fullmatch(
        r"\| segment: 0 endOffset: \d+ size: \d+ crc: \d+ compacted: false", lines[2]
    )
    assert "leader-epoch-checkpoint: 1 0" in lines
    assert "other files: 0.log.swap accept-loss" in lines
    segments = [line for line in lines if line.startswith("Dumping ")]
    assert segments == [f"Dumping {path}" for path in sorted(folder.glob("*.log"))]


def test_a_folder_in_an_archive(directory: Path, dump: Dump) -> None:
    archive = directory / "archive" / "__consumer_offsets-0"
    archive.mkdir(parents=True)
    for path in (directory / "__consumer_offsets-0").glob("*.log"):
        (archive / path.name).hardlink_to(path)
    out, _ = dump(archive)
    assert '"group":"' in out
    out, _ = dump(directory)
    assert f"{archive}: segments: 2 " in out


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / f"{0:020}.log").unlink(), "0.log: missing: offsets 0 to "),
        (lambda folder: cut(folder / f"{0:020}.log", 100), r"has \d+ bytes, and \d+ when it was"),
        (lambda folder: flip(folder / "manifest", 20), "manifest is damaged"),
        (
            lambda folder: cut(folder / "leader-epoch-checkpoint", 2),
            "not a complete checkpoint of version 0",
        ),
    ],
)
def test_damage_to_a_folder_is_told(
    directory: Path, damage: Callable[[Path], None], problem: str, dump: Dump
) -> None:
    damage(directory / "__consumer_offsets-0")
    folder = directory / "__consumer_offsets-0"
    for path in (folder,) if "checkpoint" in problem else (folder, directory):
        _, err = dump(path, code=1)
        assert re.search(problem, err)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


def journal_of(directory: Path) -> Path:
    [path] = (directory / "journals").iterdir()
    return path


def test_a_journal_is_shown_flush_by_flush(directory: Path, dump: Dump) -> None:
    path = journal_of(directory)
    out, _ = dump(path)
    first, second, third, *lines = out.splitlines()
    assert first == f"Dumping {path}"
    assert second == f"node: 0 firstFlush: 1 salt: {path.name[-16:]}"
    assert third.startswith("flush: 1 position: 0 size: ")
    assert "claim of shard 3: epoch: 1" in lines
    flushes = [int(line.split()[1]) for line in lines if line.startswith("flush: ")]
    assert flushes == [*range(2, len(flushes) + 2)]
    batch = (
        r"batch of \S+: baseOffset: 1 lastOffset: 1 partitionLeaderEpoch: 1 position: \d+ size: \d+"
    )
    assert any(re.fullmatch(batch, line) for line in lines)
    assert any(line.startswith("| offset: ") and '"offset":77' in line for line in lines)
    ends = r"ends of the flushes from \d+ on: __consumer_offsets-\d: \d+"
    assert any(re.match(ends, line) for line in lines)


def test_the_marks_of_a_journal(serve: Callable[..., Served], tmp_path: Path, dump: Dump) -> None:
    served = serve(*SETTINGS)
    live(served, flushes=3)
    served.stop()
    save(served.disk, tmp_path)
    out, _ = dump(tmp_path / "journals")
    mark = r"^mark of __consumer_offsets-\d: segment: 0 size: \d+ endOffset: \d+ crc: \d+$"
    assert re.search(mark, out, re.MULTILINE)


def test_damage_to_a_journal_is_told_and_it_goes_on(directory: Path, dump: Dump) -> None:
    path = journal_of(directory)
    out, _ = dump(path)
    places = [int(at) for at in re.findall(r"^flush: \d+ position: (\d+)", out, re.MULTILINE)]
    flip(path, places[3] + 30)
    flip(path, places[-1] + 30)
    out, err = dump(path, code=1)
    assert len(re.findall(r"^flush: ", out, re.MULTILINE)) == len(places) - 2
    damaged = f"the flush at byte {places[3]} is damaged, a sound one follows at byte {places[4]}"
    unfinished = f"the flush at byte {places[-1]} is unfinished"
    assert err.splitlines() == [f"groupkeeper: {path}: {what}" for what in (damaged, unfinished)]


def test_a_file_that_a_server_removes_meanwhile_is_no_damage(
    directory: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_of(directory).rename(directory / "journals" / f"0-{5:020}-0123456789abcdef")
    listed = Files.list_folder

    def and_gone(files: Files, path: str) -> list[str]:
        return [*listed(files, path), f"{9:020}.log"] if "orders" in path else listed(files, path)

    monkeypatch.setattr(Files, "list_folder", and_gone)
    out, _ = dump(str(directory / "orders-0"))
    assert f"{9:020}.log was removed meanwhile" in out


def test_a_directory_of_a_running_server(
    serve: Callable[..., Served], tmp_path: Path, dump: Dump
) -> None:
    """Whatever is in the files at any time: no damage is seen."""
    served = serve(*SETTINGS)
    for number in range(5):
        live_on(served, 2)
        commit_late(served, number)
        save(served.disk, tmp_path / str(number))
        dump(tmp_path / str(number))


def test_progress_is_shown_on_a_terminal_only(segment: Path, dump: Dump, capsys: Capture) -> None:
    many(segment)
    with progress(on_terminal=True) as told:
        told("a file", 5)
    assert "a file" in capsys.readouterr().err
    _, err = dump(segment)
    assert err == ""
