"""OffsetCommit, OffsetFetch, OffsetDelete, and what a deleted topic takes with it."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import OffsetsCommitted, OffsetsRemoved
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupkeeper.protocol.records.consumer_offsets import decode_offset_value
from tests.support.scene import Scene, in_state, topics

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
IDS, GEN, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
AGAIN, NO_GROUP = "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND"
ADMIN = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}
TABLE: list[tuple[str, dict[str, Any], str]] = [
    ("admin", ADMIN, f"NONE NONE {IDS} {IDS} {IDS}"),
    ("fred", {"generation_id_or_member_epoch": -1}, f"NONE NONE {GEN} {GEN} {GEN}"),
    ("fred", ADMIN | {"member_id": "x"}, f"NONE NONE {IDS} {IDS} {IDS}"),
    ("SAM", ADMIN | {"group_instance_id": "SAM"}, f"NONE NONE {FENCED} {FENCED} {FENCED}"),
    ("fred", {}, f"{NO_GROUP} {IDS} NONE {AGAIN} NONE"),
    ("SAM", {}, f"{NO_GROUP} {IDS} NONE {AGAIN} NONE"),
    ("fred", {"generation_id_or_member_epoch": 0}, f"{NO_GROUP} {IDS} {GEN} {GEN} {GEN}"),
    ("fred", {"member_id": "x"}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("fred", {"member_id": ""}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("SAM", {"member_id": "x"}, f"{NO_GROUP} {IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"group_instance_id": "N"}, f"{NO_GROUP} {IDS} {IDS} {IDS} {IDS}"),
    ("fred", {"version": 8}, f"{GEN} {IDS} NONE {AGAIN} NONE"),
    ("fred", {"version": 1}, f"{GEN} {IDS} NONE {AGAIN} NONE"),
]


@pytest.mark.parametrize(
    ("state", "who", "other", "expected"),
    [
        (state, who, other, outcome)
        for who, other, row in TABLE
        for state, outcome in zip(STATES, row.split(), strict=True)
    ],
)
def test_who_may_commit_when(state: str, who: str, other: dict[str, Any], expected: str) -> None:
    scene = in_state(state)
    scene.person(who).generation = scene.group.generation if state != "Dead" else 1
    assert scene.commit(who, 42, **other).outcome == expected
    assert scene.offset() == (42 if expected == "NONE" else -1)


def test_a_pending_id_may_not_commit() -> None:
    scene = in_state("Stable")
    scene.knock("new")
    assert scene.commit("new").outcome == IDS


def test_a_group_error_is_shown_on_every_partition() -> None:
    scene = in_state("CompletingRebalance")
    (topic,) = scene.commit("fred", partitions=(0, 1, 5)).response.topics
    assert [p.error_code for p in topic.partitions] == [27, 27, 27]


def test_an_empty_commit_asks_nobody_and_keeps_nobody_alive() -> None:
    scene = in_state("Stable")
    scene.advance(9_999)
    assert scene.commit("fred", partitions=()).outcome == "NONE"
    assert scene.ask("x", OffsetCommitRequest(group_id="other"), 9).outcome == "NONE"
    scene.advance(1)
    assert scene.groups() == {"g": "Empty"}


@pytest.mark.parametrize("state", ["PreparingRebalance", "Stable"])
def test_an_accepted_commit_is_a_heartbeat(state: str) -> None:
    scene = in_state(state)
    scene.advance(9_999)
    scene.commit("fred")
    scene.advance(9_999)
    assert list(scene.group.members) == ["fred-1"]


def test_a_refused_commit_is_no_heartbeat() -> None:
    scene = in_state("CompletingRebalance")
    scene.advance(9_999)
    scene.commit("fred")
    scene.advance(1)
    assert "fred-1" not in scene.group.members


def test_a_commit_creates_a_simple_group() -> None:
    scene = Scene()
    scene.commit("admin")
    described = scene.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")
    assert scene.groups() == {"g": "Empty"}


def test_a_simple_group_can_be_joined_and_then_refuses_administrators() -> None:
    scene = Scene()
    scene.commit("admin", 3)
    scene.form("alice")
    assert scene.commit("admin", 4).outcome == IDS
    scene.leave("alice")
    assert scene.commit("admin", 5).outcome == "NONE"
    assert scene.offset() == 5


def test_an_empty_group_id_is_like_any_other() -> None:
    scene = Scene()
    assert scene.commit("admin", group_id="").outcome == "NONE"
    assert scene.fetch("t", group="").topics[0].partitions[0].committed_offset == 7


@pytest.mark.parametrize("offset", [-1, -5, 2**62])
def test_any_offset_is_stored(offset: int) -> None:
    scene = Scene()
    scene.commit("admin", offset)
    assert scene.offset() == offset


def test_an_older_offset_overwrites_a_newer_one() -> None:
    scene = Scene()
    scene.commit("admin", 10)
    scene.commit("admin", 3)
    assert scene.offset() == 3


def test_null_metadata_is_stored_as_empty() -> None:
    scene = Scene()
    scene.commit("admin", metadata=None)
    assert scene.fetch().topics[0].partitions[0].metadata == ""


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [("a" * 8, True), ("a" * 9, False), ("ü" * 8, True), ("𝄞" * 4, True), ("𝄞" * 4 + "a", False)],
)
def test_metadata_is_measured_as_java_counts(metadata: str, fits: bool) -> None:
    scene = Scene(offset_metadata_max_bytes=8)
    outcome = scene.commit("admin", metadata=metadata).outcome
    assert outcome == ("NONE" if fits else "OFFSET_METADATA_TOO_LARGE")
    assert scene.offset() == (7 if fits else -1)


def test_metadata_too_long_fails_its_partition_only() -> None:
    scene = Scene(offset_metadata_max_bytes=8)
    rows = _rows("short", "much too long", "fine")
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=rows)]
    )
    reply = scene.ask("admin", request, 9).response
    assert [p.error_code for p in reply.topics[0].partitions] == [0, 12, 0]
    assert scene.offset("t", 1) == -1


def _rows(*metadata: str) -> list[OffsetCommitRequestPartition]:
    return [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata=text)
        for n, text in enumerate(metadata)
    ]


def test_a_commit_too_large_to_write_changes_nothing() -> None:
    scene = Scene(message_max_bytes=1_000)
    call = scene.commit("admin", partitions=range(100))
    assert call.outcome == "UNKNOWN_SERVER_ERROR"
    assert scene.groups() == {}


def test_version_1_may_bring_its_own_timestamp() -> None:
    scene = Scene()
    scene.commit("admin", version=1, timestamp=123)
    scene.commit("admin", version=1, partitions=(1,))
    stored = [decode_offset_value(scene.group.offsets["t"][partition]) for partition in (0, 1)]
    assert [value.commit_timestamp for value in stored] == [123, scene.wall]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_2_to_4_may_bring_a_retention(version: int) -> None:
    scene = Scene()
    scene.commit("admin", version=version, retention_time_ms=500)
    assert decode_offset_value(scene.log[-1][1] or b"").expire_timestamp == scene.wall + 500


def test_commits_are_counted() -> None:
    scene = Scene()
    scene.commit("admin", partitions=(0, 1, 2))
    (fact,) = scene.noted(OffsetsCommitted)
    assert fact.offsets == 3


def test_a_commit_is_acknowledged_and_shown_only_when_durable() -> None:
    scene = Scene(hold=True)
    commit, fetch = scene.commit("admin"), scene.try_fetch()
    assert commit.parked
    assert fetch.parked
    scene.flush()
    assert (commit.outcome, fetch.outcome) == ("NONE", "NONE")


def test_what_was_acknowledged_survives_a_crash() -> None:
    scene = Scene()
    scene.commit("admin", 5, metadata="hello")
    scene.commit("admin", 6, partitions=(1,))
    scene.crash()
    first = scene.fetch().topics[0].partitions[0]
    assert (first.committed_offset, first.metadata) == (5, "hello")
    assert scene.offset("t", 1) == 6


# -- OffsetFetch -----------------------------------------------------------------------------------


def test_nothing_stored_is_no_error() -> None:
    (row,) = Scene().fetch("t", 3).topics[0].partitions
    assert (row.committed_offset, row.committed_leader_epoch) == (-1, -1)
    assert (row.metadata, row.error_code) == ("", 0)


def test_all_topics_of_an_unknown_group_are_none() -> None:
    assert Scene().fetch(None).topics == []


def test_null_topics_ask_for_everything_stored() -> None:
    scene = Scene()
    scene.commit("admin", topic="a", partitions=(0, 1))
    scene.commit("admin", topic="b")
    fetched = {t.name: len(t.partitions) for t in scene.fetch(None).topics}
    assert fetched == {"a": 2, "b": 1}


def test_an_empty_list_asks_for_nothing() -> None:
    scene = Scene()
    scene.commit("admin")
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[])])
    assert scene.ask("x", request, 8).response.groups[0].topics == []


def test_several_groups_are_answered_in_order() -> None:
    scene = Scene()
    scene.commit("admin")
    rows = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = [OffsetFetchRequestGroup(group_id=g, topics=rows) for g in ("x", "g")]
    groups = scene.ask("x", OffsetFetchRequest(groups=asked), 9).response.groups
    found = {g.group_id: g.topics[0].partitions[0].committed_offset for g in groups}
    assert list(found.items()) == [("x", -1), ("g", 7)]


@pytest.mark.parametrize("state", STATES[1:])
def test_anybody_may_fetch_in_any_state(state: str) -> None:
    scene = in_state("Stable")
    scene.commit("fred", 11)
    if state == "PreparingRebalance":
        scene.leave("TIM")
    elif state == "Empty":
        scene.advance(10_000)
    assert scene.offset() == 11


# -- OffsetDelete ----------------------------------------------------------------------------------


def test_an_unknown_group_is_not_found() -> None:
    assert Scene().delete_offsets().outcome == "GROUP_ID_NOT_FOUND"
    assert Scene().delete_offsets(group="").outcome == "INVALID_GROUP_ID"


def test_an_empty_group_loses_any_offset_and_more() -> None:
    scene = Scene()
    scene.commit("admin")
    reply = scene.delete_offsets("t", 0, 9).response
    assert [p.error_code for p in reply.topics[0].partitions] == [0, 0]
    assert scene.offset() == -1
    scene.crash()
    assert scene.offset() == -1


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_subscribed_topics_are_kept_and_others_deleted(state: str) -> None:
    scene = in_state(state)
    assert scene.delete_offsets("t").outcome == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert scene.delete_offsets("u").outcome == "NONE"


def test_in_the_very_first_join_phase_every_topic_counts_as_subscribed() -> None:
    scene = Scene()
    scene.join("alice")
    assert scene.delete_offsets("u").outcome == "GROUP_SUBSCRIBED_TO_TOPIC"


def test_members_of_another_protocol_type_forbid_it_altogether() -> None:
    scene = Scene()
    scene.form("worker", type="connect", protocols={"default": b""})
    call = scene.delete_offsets()
    assert (call.outcome, call.response.topics) == ("NON_EMPTY_GROUP", [])


UNREADABLE = [b"", b"\x00", b"\x00\x01\xff\xff\xff\xff", b"\x00\x01\x7f\xff\xff\xff", b"\xff" * 9]


@pytest.mark.parametrize("metadata", [*UNREADABLE, topics("t")[:8]])
def test_unreadable_metadata_counts_as_every_topic_and_blocks_nobody(metadata: bytes) -> None:
    """Kafka 4 never answers the join, and the group id is lost for good."""
    scene = Scene()
    scene.form("alice", "foreign")
    scene.leave("foreign")
    scene.restart("foreign", protocols={"range": metadata})
    assert scene.join("alice").outcome == "NONE"
    assert scene.delete_offsets("u").outcome == "GROUP_SUBSCRIBED_TO_TOPIC"
    scene.leave("alice", "foreign")
    assert scene.state == "Empty"


def test_a_stable_group_remembers_its_topics_after_a_crash() -> None:
    scene = in_state("Stable")
    scene.crash()
    assert scene.delete_offsets("t").outcome == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert scene.delete_offsets("u").outcome == "NONE"


def test_deletions_are_counted() -> None:
    scene = Scene()
    scene.commit("admin", partitions=(0, 1))
    scene.delete_offsets("t", 0, 1, 2)
    (fact,) = scene.noted(OffsetsRemoved)
    assert (fact.offsets, fact.why, fact.partitions) == (2, "request", {"t": [0, 1]})


# -- deleted topics --------------------------------------------------------------------------------


def test_a_deleted_topic_takes_its_offsets_from_every_group() -> None:
    scene = Scene()
    for group in ("g", "h"):
        scene.commit("admin", group_id=group, partitions=(0, 1))
        scene.commit("admin", group_id=group, topic="kept")
    scene.forget_topics("t", "never there")
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)
    scene.crash()
    assert [t.name for t in scene.fetch(None, group="h").topics] == ["kept"]


def test_a_topic_that_goes_while_its_partition_loads_is_forgotten() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.commit("admin", topic="kept")
    scene.crash("t", "never there")
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)
    scene.crash()
    assert (scene.offset("t"), scene.offset("kept")) == (-1, 7)


def test_nothing_is_answered_before_that_is_durable() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.hold = True
    scene.crash("t")
    call = scene.try_fetch("t")
    assert call.parked
    scene.flush()
    assert call.response.groups[0].topics[0].partitions[0].committed_offset == -1


def test_a_topic_made_again_after_loading_may_be_committed_to() -> None:
    scene = Scene()
    scene.commit("admin")
    scene.crash("t")
    scene.commit("admin", 3)
    scene.crash()
    assert scene.offset("t") == 3
