"""Groups and offsets as log records, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Deadlines
from groupkeeper.coordinator.records import (
    checked_offset_value,
    group_key,
    offset_key,
    offset_key_head,
    offset_times,
    offset_value,
)
from groupkeeper.coordinator.stalls import Stalls
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
    decode_key,
    encode_key,
    encode_value,
)
from tests.support.scene import Scene, in_state, topics

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**31 - 1))
def test_an_offset_key_is_kafkas(group: str, topic: str, partition: int) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert offset_key(offset_key_head(group, topic), partition) == encode_key(key)


@given(INT64, st.integers(-1, 2**31 - 1), st.sampled_from(["", "x", "ü𝄞"]), INT64)
def test_an_offset_value_is_kafkas_version_3(
    offset: int, epoch: int, metadata: str, at: int
) -> None:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=at
    )
    assert offset_value(offset, epoch, metadata, at, -1) == encode_value(value, 3)
    assert checked_offset_value(encode_value(value, 3)) == encode_value(value, 3)


def test_an_explicit_expiry_needs_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=1, expire_timestamp=2)
    assert offset_value(5, -1, "m", 1, 2) == encode_value(value, 1)


def last_group_record(scene: Scene) -> GroupMetadataValue:
    groups = [value for key, value in scene.log if isinstance(decode_key(key), GroupMetadataKey)]
    assert groups[-1] is not None
    return decode_group_value(groups[-1])


def test_a_stable_group_is_written_with_members_and_assignments() -> None:
    value = last_group_record(in_state("Stable"))
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 2)
    assert value.leader == "lea-1"
    sam = next(m for m in value.members if m.member_id == "SAM-1")
    assert (sam.group_instance_id, sam.client_id, sam.client_host) == ("SAM", "SAM", "/SAM")
    assert (sam.session_timeout, sam.rebalance_timeout) == (10_000, 60_000)
    assert (sam.subscription, sam.assignment) == (topics("t"), b"for SAM")


def test_an_empty_group_is_written_without_protocol_and_leader() -> None:
    scene = in_state("Empty")
    value = last_group_record(scene)
    assert (value.protocol_type, value.protocol, value.leader) == ("consumer", None, None)
    assert (value.members, value.current_state_timestamp) == ([], scene.group.state_timestamp_ms)


def test_group_records_are_of_version_3() -> None:
    keys_and_values = [r for r in in_state("Stable").log if r[0][:2] == b"\x00\x02"]
    assert {value[:2] for _, value in keys_and_values if value} == {b"\x00\x03"}


@pytest.mark.parametrize("quiet", ["heartbeat", "a pending id", "a rebalance", "a departure"])
def test_nothing_is_written_for(quiet: str) -> None:
    scene = in_state("Stable")
    before = len(scene.log)
    if quiet == "heartbeat":
        scene.heartbeat("lea")
    elif quiet == "a pending id":
        scene.knock("new")
    elif quiet == "a rebalance":
        scene.join("lea")
    else:
        scene.leave("fred")
    assert len(scene.log) == before


def test_the_size_of_what_is_written_counts_keys_values_and_what_is_around_them() -> None:
    records = [(b"k" * 10, b"v" * 10), (b"k" * 10, None)]
    step = Step(0, 0, GroupConfig(), Deadlines(), str, {}, Stalls(), {})
    for record in records:
        step.append(*record)
    assert size_of(records) == step.size == 10 + 10 + 10 + 61 + 2 * 20


@pytest.mark.parametrize("loaded", [False, True])
def test_a_record_put_together_is_the_record_written_whole(loaded: bool) -> None:
    scene = in_state("Stable")
    if loaded:
        scene.crash()
    scene.restart("SAM")
    scene.restart("SAM", metadata=topics("u"), session=9_000)
    stored, group = last_group_record(scene), scene.group
    assert [m.member_id for m in stored.members] == list(group.members)
    for written, member in zip(stored.members, group.members.values(), strict=True):
        assert written.subscription == member.metadata(group.protocol_name)
        assert written.assignment == member.assignment
        assert written.session_timeout == member.session_timeout_ms
    assert encode_value(stored, 3) == [v for k, v in scene.log if k == group_key("g")][-1]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "words"])
def test_the_times_of_an_offset_are_read_from_any_version(version: int, metadata: str) -> None:
    value = OffsetCommitValue(
        offset=1, leader_epoch=2, metadata=metadata, commit_timestamp=77, expire_timestamp=99
    )
    expires = 99 if version == 1 else -1
    assert offset_times(encode_value(value, version)) == (77, expires)
