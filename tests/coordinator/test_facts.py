"""What is noted about rebalances, members, groups and offsets: all that an event needs."""

import pytest

from groupkeeper.coordinator.facts import (
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    MemberFenced,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    MembersNotBack,
    OffsetsCommitted,
    OffsetsRemoved,
    OffsetsReset,
    PendingMemberDropped,
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
    RequestRefused,
)
from groupkeeper.protocol.records.consumer_offsets import decode_offset_value
from tests.support.scene import RANGE_RR, Scene, in_state, topics

# -- rebalances ----------------------------------------------------------------------------------


def test_rounds_are_counted_and_facts_say_to_which_they_belong() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.join("lea")
    scene.join("fred")
    scene.sync_all("lea", "fred")
    assert [fact.round for fact in scene.noted(RebalanceStarted)] == [1, 2]
    assert [fact.round for fact in scene.noted(RebalanceJoined)] == [1, 2]
    assert [fact.round for fact in scene.noted(RebalanceCompleted)] == [1, 2]
    scene.commit("lea")
    assert scene.noted(OffsetsCommitted)[-1].round == 0, "outside of a rebalance"


def test_a_round_says_who_has_to_come() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM")
    scene.join("lea")
    assert scene.noted(RebalanceStarted)[-1].expected == ["fred-1", "SAM-1"]


def test_arrivals_are_noted_in_their_order_and_with_their_time() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM")
    scene.join("lea")
    scene.advance(400)
    scene.join("SAM")
    scene.join("SAM")
    scene.advance(100)
    scene.join("fred")
    joined = scene.noted(RebalanceJoined)[-1]
    assert [*joined.joined] == [("lea-1", None, 0), ("SAM-1", "SAM", 400), ("fred-1", None, 500)]
    assert (joined.duration_ms, joined.ended_by, joined.missing) == (500, "all_joined", [])


def test_a_member_that_arrived_and_left_did_not_arrive() -> None:
    scene = Scene()
    scene.form("lea", "fred", "bea")
    scene.join("lea")
    scene.join("fred")
    scene.leave_as("fred/2", ("fred-1", None))
    scene.join("bea")
    assert [member for member, _, _ in scene.noted(RebalanceJoined)[-1].joined] == [
        "lea-1",
        "bea-1",
    ]


def test_a_restart_in_the_join_phase_arrives_under_the_new_id() -> None:
    scene = Scene()
    scene.form("lea", "SAM", "fred")
    scene.join("SAM", protocols=RANGE_RR)
    scene.advance(50)
    scene.restart("SAM")
    scene.join("lea")
    scene.join("fred")
    joined = scene.noted(RebalanceJoined)[-1].joined
    assert [*joined] == [("SAM-2", "SAM", 50), ("lea-1", None, 50), ("fred-1", None, 50)]


def test_the_leaders_time_begins_with_the_end_of_the_join_phase() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.join("lea")
    scene.advance(300)
    scene.join("fred")
    scene.advance(70)
    scene.sync_all("lea", "fred")
    completed = scene.noted(RebalanceCompleted)[-1]
    assert (completed.leader_ms, completed.duration_ms) == (70, 370)
    assert completed.arrivals == {"lea-1": 0, "fred-1": 300}


def test_a_new_plan_is_noted_beside_the_last_one() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.leave("fred")
    scene.join("lea")
    scene.sync("lea", {"lea": b"all"})
    completed = scene.noted(RebalanceCompleted)[-1]
    assert completed.assignments == [("lea-1", None, b"all")]
    assert completed.previous == {"lea-1": b"for lea", "fred-1": b"for fred"}


def test_the_last_plan_outlives_rounds_that_are_abandoned() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    for _ in range(2):
        scene.join("lea")
        scene.join("SAM")
        scene.restart("SAM")
        scene.join("lea")
    scene.sync("lea", {"lea": b"a", "SAM": b"b"})
    previous = scene.noted(RebalanceCompleted)[-1].previous
    assert previous == {"lea-1": b"for lea", "SAM-3": b"for SAM"}
    assert not scene.group.old_plan, "until the next one is stored"


def test_a_round_that_another_one_follows_is_abandoned() -> None:
    scene = in_state("CompletingRebalance")
    scene.leave("fred")
    abandoned = scene.noted(RebalanceAbandoned)[-1]
    started = scene.noted(RebalanceStarted)[-1]
    assert (abandoned.why, started.round - abandoned.round) == ("superseded", 1)


def test_a_round_that_nobody_is_left_for_is_abandoned() -> None:
    scene = Scene()
    scene.form("lea")
    scene.leave("lea")
    [abandoned] = scene.noted(RebalanceAbandoned)
    assert (abandoned.why, abandoned.state) == ("emptied", "Empty")
    assert abandoned.round == scene.noted(GroupEmptied)[0].round == 2


# -- members -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "changed"),
    [
        ({}, ()),
        ({"protocols": {"range": topics("t", owned=1)}}, ("metadata",)),
        ({"protocols": {"roundrobin": topics("t"), "range": topics("t")}}, ("protocols",)),
        ({"session": 9_000}, ("timeouts",)),
        ({"rebalance": 9_000, "protocols": RANGE_RR}, ("protocols", "timeouts")),
    ],
)
def test_a_rejoin_says_what_differs(says: dict[str, object], changed: tuple[str, ...]) -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.join("fred", **says)
    [rejoined] = scene.noted(MemberRejoined)
    assert (rejoined.who.member, rejoined.changed) == ("fred-1", changed)


def test_the_first_join_of_a_static_member_says_how_long_it_may_be_away() -> None:
    scene = Scene()
    scene.form("lea")
    scene.join("SAM", instance="SAM", session=7_000)
    cause = scene.noted(RebalanceStarted)[-1].cause
    assert (cause.code, cause.evidence) == ("static_member_joined", {"session_timeout_ms": 7_000})


def test_an_unchanged_rejoin_in_a_join_phase_is_only_an_arrival() -> None:
    scene = Scene()
    scene.form("lea", "fred", "bea")
    scene.join("lea")
    scene.join("fred")
    scene.join("bea", session=9_000)
    assert [fact.who.member for fact in scene.noted(MemberRejoined)] == ["lea-1", "bea-1"]


@pytest.mark.parametrize("quick", [True, False])
def test_a_replacement_says_how_long_the_member_was_away(quick: bool) -> None:
    scene = Scene()
    scene.form("lea", "SAM", protocols=RANGE_RR)
    scene.heartbeat("SAM")
    scene.advance(1_500)
    protocols = RANGE_RR if quick else {"roundrobin": topics("t")}
    scene.restart("SAM", protocols=protocols)
    [replaced] = scene.noted(MemberReplaced)
    assert (replaced.who.member, replaced.old_member) == ("SAM-2", "SAM-1")
    assert (replaced.quick, replaced.away_ms) == (quick, 1_500)


def test_a_fenced_request_names_the_holder_and_its_host() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    scene.join("twin", instance="SAM")
    scene.heartbeat("SAM")
    [fenced] = scene.noted(MemberFenced)
    assert (fenced.who.member, fenced.who.host) == ("SAM-1", "/SAM")
    assert (fenced.current_member, fenced.current_host) == ("SAM-2", "/twin")


def test_a_removal_names_the_removed_and_the_remover() -> None:
    scene = Scene()
    scene.form("lea", "SAM")
    scene.leave_as("admin", ("", "SAM"), reason="scaling in")
    [removed] = scene.noted(MemberRemoved)
    assert (removed.who.member, removed.who.host) == ("SAM-1", "/SAM")
    assert removed.cause.who is not None
    assert (removed.cause.who.member, removed.cause.who.host) == ("", "/admin")


def test_an_admin_that_has_the_members_client_id_is_on_another_host() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    peer = scene.peer("admin")
    peer.client_id = "fred"
    scene.leave_as("admin", ("fred-1", None))
    assert scene.noted(MemberRemoved)[0].cause.code == "member_removed_by_admin"


@pytest.mark.parametrize(
    ("situation", "api", "error"),
    [
        ("heartbeat", "Heartbeat", "ILLEGAL_GENERATION"),
        ("sync", "SyncGroup", "ILLEGAL_GENERATION"),
        ("commit", "OffsetCommit", "ILLEGAL_GENERATION"),
        ("leave", "LeaveGroup", "UNKNOWN_MEMBER_ID"),
        ("join", "JoinGroup", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_stale_requests_are_noted(situation: str, api: str, error: str) -> None:
    scene = Scene()
    scene.form("lea", "fred")
    if situation in ("leave", "join"):
        scene.leave_as("admin", ("fred-1", None))
        scene.leave("fred") if situation == "leave" else scene.knock("fred")
    elif situation == "commit":
        scene.commit("fred", generation_id_or_member_epoch=7)
    else:
        getattr(scene, situation)("fred", generation_id=7)
    [refused] = scene.noted(RequestRefused)
    assert (refused.who.member, refused.api, refused.error) == ("fred-1", api, error)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda scene: scene.heartbeat("lea"), "UNKNOWN_MEMBER_ID"),
        (lambda scene: scene.sync("lea"), "UNKNOWN_MEMBER_ID"),
        (lambda scene: scene.knock("lea", as_id="x"), "UNKNOWN_MEMBER_ID"),
        (lambda scene: scene.commit("lea", generation_id_or_member_epoch=1), "GROUP_ID_NOT_FOUND"),
    ],
)
def test_stale_requests_for_a_group_that_is_gone_are_noted(ask: object, error: str) -> None:
    scene = Scene()
    assert callable(ask)
    ask(scene)
    [refused] = scene.noted(RequestRefused)
    assert (refused.state, refused.error) == ("Dead", error)


def test_being_told_to_rejoin_is_no_refusal() -> None:
    scene = in_state("PreparingRebalance")
    before = len(scene.noted(RequestRefused))
    scene.heartbeat("fred")
    scene.sync("fred")
    assert len(scene.noted(RequestRefused)) == before


def test_an_id_that_is_never_used_names_its_client() -> None:
    scene = Scene()
    scene.knock("ghost", session=7_000)
    scene.advance(7_000)
    [dropped] = scene.noted(PendingMemberDropped)
    assert (dropped.who.member, dropped.who.host) == ("ghost-1", "/ghost")
    assert dropped.cause.code == "pending_member_expired"
    assert dropped.cause.evidence == {"session_timeout_ms": 7_000}


def test_a_member_has_the_software_of_its_newest_connection() -> None:
    scene = Scene()
    scene.peer("SAM").software_name = "librdkafka"
    scene.form("lea", "SAM")
    scene.hang_up("SAM")
    scene.peer("SAM").software_version = "2.3.0"
    scene.heartbeat("SAM")
    scene.leave("SAM")
    who = scene.noted(MemberRemoved)[0].who
    assert (who.software_name, who.software_version) == ("", "2.3.0")


# -- after a load --------------------------------------------------------------------------------


def test_after_a_load_those_that_were_not_heard_of_are_named_together() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM", "TIM")
    scene.crash()
    scene.advance(5_000)
    scene.heartbeat("lea")
    scene.advance(5_000)
    [not_back] = scene.noted(MembersNotBack)
    assert {who.member for who in not_back.absent} == {"fred-1", "SAM-1", "TIM-1"}
    assert scene.group.returning is None


def test_when_all_come_back_nothing_is_noted() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM")
    scene.crash()
    scene.heartbeat("lea")
    scene.commit("fred")
    scene.restart("SAM")
    scene.advance(20_000)
    assert scene.noted(MembersNotBack) == []


def test_a_member_that_leaves_after_a_load_was_heard_of() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.crash()
    scene.leave("fred")
    scene.leave_as("admin", ("lea-1", None))
    assert scene.noted(MembersNotBack) == []


# -- groups and offsets --------------------------------------------------------------------------


def test_who_created_a_group_is_noted() -> None:
    scene = Scene()
    scene.knock("lea")
    scene.knock("lea")
    assert [fact.who.host for fact in scene.noted(GroupCreated)] == ["/lea"]


def test_a_reset_has_the_offsets_before_and_after() -> None:
    scene = Scene()
    scene.form("lea")
    scene.commit("lea", 100, partitions=(0, 1))
    scene.leave("lea")
    scene.commit("admin", 7, partitions=(1, 2))
    [reset] = scene.noted(OffsetsReset)
    found = [
        (index, before and decode_offset_value(before).offset, decode_offset_value(now).offset)
        for index, before, now in reset.offsets
    ]
    assert found == [(1, 100, 7), (2, None, 7)]
    assert (reset.who.host, reset.topic, reset.count) == ("/admin", "t", 2)


def resets(scene: Scene) -> list[list[int]]:
    """The partitions of each reset."""
    return [[index for index, _, _ in fact.offsets] for fact in scene.noted(OffsetsReset)]


def test_a_consumer_that_assigns_its_partitions_itself_is_noted_once() -> None:
    scene = Scene()
    for offset in range(200):
        scene.commit("sue", offset)
        scene.advance(1_000)
    assert resets(scene) == [[0]]
    assert len(scene.noted(OffsetsCommitted)) == 200
    scene.advance(59_000)
    scene.commit("sue", 200)
    assert resets(scene) == [[0], [0]], "after a pause"


def test_an_offset_that_falls_is_a_reset_whoever_sets_it_and_how_often() -> None:
    scene = Scene()
    scene.commit("sue", 5, partitions=(0, 1))
    scene.commit("sue", 5, partitions=(0, 1))
    scene.commit("sue", 4, partitions=(1,))
    scene.commit("sue", 3, partitions=(1,))
    assert resets(scene) == [[0, 1], [1], [1]]


def test_the_first_offset_of_a_partition_is_a_reset() -> None:
    scene = Scene()
    scene.commit("sue", partitions=(0,))
    scene.commit("sue", partitions=(0, 1))
    assert resets(scene) == [[0], [0, 1]]


def test_resets_of_two_clients_or_connections_are_all_noted() -> None:
    scene = Scene()
    for offset, name in enumerate(("sue", "admin", "sue")):
        scene.commit(name, offset)
    scene.hang_up("sue")
    scene.commit("sue", 9)
    assert len(resets(scene)) == 4


def test_a_reset_after_members_had_the_group_is_noted() -> None:
    scene = Scene()
    scene.commit("admin", 5)
    scene.form("lea")
    scene.leave("lea")
    scene.commit("admin", 6)
    assert resets(scene) == [[0], [0]]


def test_a_reset_of_more_partitions_than_are_looked_at_is_always_noted() -> None:
    scene = Scene()
    for offset in (1, 2):
        scene.commit("admin", offset, partitions=range(3_000))
    assert len(resets(scene)) == 2


def test_a_members_commit_is_no_reset_and_keeps_what_was_accepted() -> None:
    scene = Scene()
    scene.form("lea")
    scene.commit("lea", partitions=(3,))
    [committed] = scene.noted(OffsetsCommitted)
    assert scene.noted(OffsetsReset) == []
    [(topic, partitions)] = committed.partitions
    assert (topic, [*partitions]) == ("t", [3])
    assert committed.caller.peer.host == "/lea"


def test_of_a_huge_reset_the_first_offsets_are_noted() -> None:
    scene = Scene()
    scene.commit("admin", partitions=range(3_000))
    [reset] = scene.noted(OffsetsReset)
    assert (len(reset.offsets), reset.count) == (2_000, 3_000)


def test_who_deleted_offsets_and_groups_is_noted() -> None:
    scene = Scene()
    scene.commit("admin", partitions=(0, 1, 2))
    scene.delete_offsets("t", 0)
    scene.forget_topics("x")
    scene.delete()
    one, two = scene.noted(OffsetsRemoved)
    assert (one.why, one.partitions) == ("request", {"t": [0]})
    assert (two.why, two.partitions) == ("group_deleted", {"t": [1, 2]})
    [deleted] = scene.noted(GroupDeleted)
    assert one.who.host == two.who.host == deleted.who.host == "/anyone"


def test_offsets_of_a_deleted_topic_have_nobody_who_did_it() -> None:
    scene = Scene()
    scene.commit("admin", partitions=(0, 1))
    scene.forget_topics("t")
    [removed] = scene.noted(OffsetsRemoved)
    assert (removed.why, removed.partitions, removed.who) == ("topic_deleted", {"t": [0, 1]}, None)


def test_more_triggers_of_the_same_round_are_all_noted() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM", session=20_000)
    scene.join("lea")
    scene.join("ann")
    scene.restart("SAM")
    scene.leave("fred")
    codes = [str(fact.cause.code) for fact in scene.noted(RebalanceCauseAdded)[-3:]]
    assert codes == ["member_joined", "static_member_returned_unready", "member_left"]
    assert scene.noted(RebalanceStarted)[-1].cause.code == "leader_rejoined"
