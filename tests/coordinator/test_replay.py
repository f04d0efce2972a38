"""From a log to groups."""

import struct

import pytest

from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.records import group_key, offset_key, offset_key_head, offset_value
from groupkeeper.coordinator.replay import RESTORED_IN_A_SLICE, Replay
from groupkeeper.coordinator.step import KeyValue
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import CorruptBatch, encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    decode_offset_value,
    encode_value,
)
from tests.support.slices import counted, whole

COMMIT, ABORT = struct.pack(">hh", 0, 1), struct.pack(">hh", 0, 0)
MARKER = struct.pack(">hi", 0, 0)
TRANSACTIONAL, CONTROL = 0x10, 0x20


def offset(value: int, topic: str = "t") -> KeyValue:
    return offset_key(offset_key_head("g", topic), 0), offset_value(value, -1, "", 1, -1)


def group(version: int = 3, *members: str, **fields: object) -> KeyValue:
    stored = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range",
        generation=4,
        leader=members[0] if members else None,
        members=[
            MemberMetadata(member_id=m, session_timeout=9, rebalance_timeout=7) for m in members
        ],
    )
    return group_key("g"), encode_value(stored, version)


def doubled(*members: tuple[str, str | None]) -> Group:
    """A group restored from a record with these member and instance ids; the first one leads."""
    stored = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range",
        leader=members[0][0],
        members=[
            MemberMetadata(member_id=m, group_instance_id=i, client_id=f"client {n}")
            for n, (m, i) in enumerate(members)
        ],
    )
    return Log().plain((group_key("g"), encode_value(stored, 3))).replayed()["g"]


def marked(batch: bytes, attributes: int, producer: int) -> bytes:
    """The batch as a transactional producer's; the checksum is of no interest here."""
    return batch[:21] + attributes.to_bytes(2) + batch[23:43] + producer.to_bytes(8) + batch[51:]


class Log:
    """Batches of records, one after the other."""

    def __init__(self) -> None:
        self.data = b""
        self.next = 0

    def plain(self, *records: KeyValue) -> "Log":
        return self._add(encode_batch(self.next, 0, 1, records), len(records))

    def open(self, producer: int, *records: KeyValue) -> "Log":
        batch = encode_batch(self.next, 0, 1, records)
        return self._add(marked(batch, TRANSACTIONAL, producer), len(records))

    def end(self, producer: int, marker: bytes) -> "Log":
        batch = encode_batch(self.next, 0, 1, [(marker, MARKER)])
        return self._add(marked(batch, TRANSACTIONAL | CONTROL, producer), 1)

    def _add(self, batch: bytes, count: int) -> "Log":
        self.data += batch
        self.next += count
        return self

    def replayed(self) -> Groups:
        replay, groups = Replay(), Groups()
        replay.take(self.data)
        whole(replay.restore(groups))
        return groups


def found(log: Log) -> int:
    group = log.replayed().get("g")
    return decode_offset_value(group.offsets["t"][0]).offset if group and group.offsets else -1


def test_the_newest_value_of_a_key_counts() -> None:
    assert found(Log().plain(offset(1)).plain(offset(2), offset(3))) == 3


def test_a_tombstone_removes() -> None:
    assert Log().plain(offset(1)).plain((offset(1)[0], None)).replayed() == {}


def test_offsets_without_a_group_record_make_a_simple_group() -> None:
    groups = Log().plain(offset(1)).replayed()
    assert (groups["g"].state, groups["g"].protocol_type) == ("Empty", "")
    assert groups["g"].state_timestamp_ms == -1


def test_offsets_after_a_groups_tombstone_make_a_simple_group() -> None:
    log = Log().plain(group(3, "a"), offset(1)).plain((group()[0], None)).plain(offset(2))
    assert (log.replayed()["g"].state, found(log)) == ("Empty", 2)


def test_a_group_with_members_is_stable_and_one_without_is_empty() -> None:
    assert Log().plain(group(3, "a")).replayed()["g"].state == "Stable"
    assert Log().plain(group(3)).replayed()["g"].state == "Empty"


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_record_is_read(version: int) -> None:
    member = Log().plain(group(version, "a")).replayed()["g"].members["a"]
    assert member.session_timeout_ms == 9
    assert member.rebalance_timeout_ms == (7 if version else 9)


def test_records_of_other_kinds_are_passed_over() -> None:
    assert Log().plain((b"\x00\x09xyz", b"?"), (b"\x00\x03..", None)).replayed() == {}


def test_a_broken_value_is_an_error_and_not_an_empty_group() -> None:
    with pytest.raises(DecodeError):
        Log().plain((group()[0], b"\x00\x03\x00")).replayed()


def test_a_broken_value_that_was_overwritten_is_of_no_interest() -> None:
    assert found(Log().plain((offset(1)[0], b"?")).plain(offset(2))) == 2


def test_bytes_that_are_no_batch_are_an_error() -> None:
    with pytest.raises(CorruptBatch):
        Replay().take(b"\x00" * 100)


def test_records_are_counted() -> None:
    replay = Replay()
    replay.take(Log().plain(offset(1), offset(2)).plain(offset(3)).data)
    assert replay.record_count == 3


# -- transactions, which a log of Apache Kafka may hold --------------------------------------------


def test_a_transactional_commit_counts_from_its_commit_marker_on() -> None:
    log = Log().plain(offset(1)).open(7, offset(2))
    assert found(log) == 1
    assert found(log.end(7, COMMIT)) == 2


def test_an_aborted_one_never_counts() -> None:
    assert found(Log().plain(offset(1)).open(7, offset(2)).end(7, ABORT)) == 1


def test_a_plain_commit_that_was_written_later_wins() -> None:
    assert found(Log().open(7, offset(2)).plain(offset(3)).end(7, COMMIT)) == 3


def test_producers_are_told_apart() -> None:
    log = Log().open(7, offset(2)).open(8, offset(3)).end(8, ABORT).end(7, COMMIT)
    assert found(log) == 2


def test_a_marker_without_anything_open_is_ignored() -> None:
    assert found(Log().plain(offset(1)).end(9, COMMIT)) == 1


def test_a_value_that_is_none_is_found_while_loading() -> None:
    broken = (offset_key(offset_key_head("g", "t"), 0), b"\0\3" + bytes(7))
    with pytest.raises(DecodeError):
        Log().plain(broken).replayed()


def test_of_two_members_of_one_instance_the_later_one_stays() -> None:
    group = doubled(("a", "i"), ("b", "i"), ("c", None))
    assert (list(group.members), group.instances) == (["b", "c"], {"i": "b"})
    assert (group.leader_id, group.support) == ("b", {"range": 2})
    for member in list(group.members.values()):
        group.remove(member)
    assert (group.instances, group.support, group.leader_id) == ({}, {}, None)


def test_of_two_members_of_one_id_the_later_one_stays() -> None:
    group = doubled(("a", "i"), ("a", "j"), ("b", "i"))
    assert {m.member_id: m.client_id for m in group.members.values()} == {
        "a": "client 1",
        "b": "client 2",
    }
    assert (group.instances, group.support) == ({"i": "b", "j": "a"}, {"range": 2})


def test_groups_are_restored_in_slices() -> None:
    value = offset_value(1, -1, "", 1, -1)
    log = Log()
    for number in range(500):
        log.plain((offset_key(offset_key_head(f"g{number}", "t"), 0), value))
    replay, groups = Replay(), Groups()
    replay.take(log.data)
    _, slices = counted(replay.restore(groups))
    assert len(groups) == 500
    assert slices >= 2 * 500 // RESTORED_IN_A_SLICE  # every record is gone through twice


def test_what_was_restored_is_freed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.replay.FORGOTTEN_IN_A_SLICE", 10)
    log = Log()
    for number in range(500):
        log.plain((offset_key(offset_key_head("g", "t"), number), None))
    replay = Replay()
    replay.take(log.data)
    _, slices = counted(replay.restore(Groups()))
    assert slices >= 500 // RESTORED_IN_A_SLICE + 500 // 10
