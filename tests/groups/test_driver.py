"""One partition from loading to its end: what it answers when, and how it comes back."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from groupkeeper.coordinator import partition as core
from groupkeeper.coordinator.apis import refuse
from groupkeeper.observe import exposition
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.records.consumer_offsets import GroupMetadataKey, encode_key
from groupkeeper.storage.errors import Fenced, LockLost
from groupkeeper.storage.log.queued_log import Append
from tests.support.broken import boom, break_handler
from tests.support.fake_files import FakeFiles
from tests.support.requests import (
    codes_of,
    commit_request,
    fetch_request,
    heartbeat,
    join_request,
    leave_request,
    offset_delete_request,
    sync_request,
)
from tests.support.served import Client, Lines, Serve, Served, groups_apart, settle
from tests.support.slices import whole

PARTITIONS = 4


# -- loading ---------------------------------------------------------------------------------------

QUESTIONS: dict[str, tuple[int, Message]] = {
    "JoinGroup": (9, join_request(member_id="m")),
    "SyncGroup": (5, sync_request("m", 1)),
    "Heartbeat": (4, heartbeat("m", 1)),
    "LeaveGroup": (5, leave_request("m")),
    "OffsetCommit": (8, commit_request({("orders", 0): 1})),
    "OffsetFetch": (8, fetch_request("g")),
    "OffsetDelete": (0, offset_delete_request([("orders", 0)])),
    "DescribeGroups": (5, DescribeGroupsRequest(groups=["g"])),
    "ListGroups": (4, ListGroupsRequest()),
    "DeleteGroups": (2, DeleteGroupsRequest(groups_names=["g"])),
    "FindCoordinator": (4, FindCoordinatorRequest(coordinator_keys=["g"])),
}


def error_in(response: Any) -> int:
    """The first error code, wherever the API has it."""
    code = getattr(response, "error_code", 0)
    for part in ("groups", "results", "coordinators"):
        code = code or next((each.error_code for each in getattr(response, part, [])), 0)
    if not code and getattr(response, "topics", []):
        code = next(iter(codes_of(response).values()))
    return int(code)


def ask_everything(served: Served) -> dict[str, int]:
    """All questions at once, each on a connection of its own; the error codes."""
    clients = {served.client(): question for question in QUESTIONS.values()}
    served.at_once({client: client.frame(*question) for client, question in clients.items()})
    codes = [error_in(client.take()) for client in clients]
    return dict(zip(QUESTIONS, codes, strict=True))


def test_while_loading_heartbeats_are_believed_and_the_coordinator_found(served: Served) -> None:
    served.client().commit(1)
    served.restart()
    assert served.driver("g").snapshot().state == "loading"
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ask_everything(served) == dict.fromkeys(QUESTIONS, loading) | {
        "Heartbeat": 0,
        "FindCoordinator": 0,
    }


def test_after_loading_everything_is_as_before(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    assert client.commit(7, member_id=member_id, generation=generation) == 0
    served.recover()
    client = served.client()
    assert client.beat(member_id, generation) == 0
    assert client.fetched() == {("orders", 0): 7}
    assert client.sync(member_id, generation).assignment == b"plan"


def test_a_partition_without_a_log_serves_at_once(serve: Serve) -> None:
    served = serve()
    assert set(served.states()) == {"active"}
    assert served.server.metrics.replay_seconds.count() == len(served.server.group_partitions) == 50


def test_a_first_start_syncs_no_more_for_many_partitions_than_for_one(serve: Serve) -> None:
    many, one = serve(), serve("offsets.topic.num.partitions=1")
    syncs = [sum("sync" in line for line in each.disk.trace) for each in (many, one)]
    assert syncs[0] == syncs[1]


def test_every_start_writes_under_a_higher_epoch(served: Served) -> None:
    epochs = []
    for _ in range(3):
        served.recover()
        served.client().commit(1)
        epochs.append(served.log().last_epoch)
    assert epochs == sorted(set(epochs))


# -- a restart, for consumers ----------------------------------------------------------------------


def test_members_go_on_when_the_gap_is_shorter_than_their_session(served: Served) -> None:
    dynamic, static = served.client(), served.client()
    one = settle(dynamic, "d")
    two = settle(static, "s", group_instance_id="one")
    served.restart(after=9)
    client = served.client()
    assert client.beat(*one, "d") == client.beat(*two, "s", instance_id="one") == 0
    served.settled()
    assert client.beat(*one, "d") == client.beat(*two, "s", instance_id="one") == 0
    assert served.server.metrics.counts["rebalances", "member_joined"] == 0


def test_a_static_member_gets_its_place_back_after_a_restart(served: Served) -> None:
    settle(served.client(), group_instance_id="one")
    served.recover()
    client = served.client()
    joined = client.join(group_instance_id="one")
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert client.sync(joined.member_id, 1).assignment == b"plan"


def test_sessions_start_anew_after_a_restart_and_then_end(served: Served) -> None:
    settle(served.client())
    served.restart(after=60)
    served.settled()
    served.advance(9)
    assert served.members() == 1
    served.advance(1.1)
    assert served.members() == 0


# -- a log that cannot be read ---------------------------------------------------------------------


def damage(served: Served) -> Callable[[], None]:
    """Stop, and flip a bit in the first of many batches; the way to flip it back."""
    client = served.client()
    for offset in (*[0] * 9, 0, 1, 2):
        assert client.commit(offset) == 0
    path = f"data/{served.partition_log().name}/00000000000000000000.log"
    served.stop()

    def flip() -> None:
        served.disk.flip(path, 70)

    flip()
    return flip


def test_a_damaged_partition_is_not_ready_and_says_why_until_repaired(served: Served) -> None:
    repair = damage(served)
    served.start()
    served.advance(1)
    status, body = served.page("/readyz")
    [problem] = json.loads(body)["not_active"]
    assert (status, problem["partition"]) == (503, served.driver("g").index)
    assert "is damaged" in problem["reason"]
    repair()
    served.settled()
    assert served.client().fetched() == {("orders", 0): 2}
    assert served.page("/readyz")[0] == 200
    assert served.driver("g").snapshot().reason == ""


def test_a_damaged_partition_is_tried_again_ever_more_rarely(served: Served, lines: Lines) -> None:
    damage(served)
    served.start()
    served.advance(10)
    tries = [line for line in lines() if line["event"] == "cannot be loaded"]
    assert len(tries) == 7  # at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 seconds
    assert served.server.metrics.counts[("partition_loads_failed",)] == 7
    served.advance(600)
    assert 20 < len(lines()) < 40


def test_a_record_that_cannot_be_decoded_closes_its_partition(served: Served, lines: Lines) -> None:
    key = encode_key(GroupMetadataKey(group="g"))
    served.server.store.commit([Append(served.log(), 1 << 20, 0, [(key, b"\0\3odd")])])
    served.restart()
    served.advance(1)
    assert served.states().count("active") == PARTITIONS - 1
    assert served.page("/readyz")[0] == 503
    assert "cannot be loaded" in [line["event"] for line in lines()]


# -- a newer owner ---------------------------------------------------------------------------------


@pytest.fixture
def absent(served: Served) -> Served:
    """Another process has taken the lock of group g's partition, in which a join waited."""
    served.client().commit(1)
    path = f"data/leases/{served.driver('g').index}"
    served.disk.remove(path)
    other = FakeFiles(served.disk)
    assert other.lock(other.open(path, create=True))
    served.until(lambda: "absent" in served.states())
    return served


def test_a_partition_of_another_process_is_not_coordinated_here(absent: Served) -> None:
    codes = ask_everything(absent)
    assert codes.pop("ListGroups") == 0
    assert codes.pop("FindCoordinator") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(codes.values()) == {ErrorCode.NOT_COORDINATOR}


def test_those_who_wait_are_told_when_another_process_takes_the_partition(served: Served) -> None:
    waiting, beating = served.client(), served.client()
    member_id, generation = settle(beating)
    waiting.send(3, join_request())
    served.advance(0.01)
    served.driver("g").lost(Fenced("shard 3 is held by node 1"))
    assert waiting.take().error_code == ErrorCode.NOT_COORDINATOR
    assert beating.beat(member_id, generation) == ErrorCode.NOT_COORDINATOR


def test_a_steady_heartbeat_ends_with_the_ownership(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    for _ in range(5):
        assert client.beat(member_id, generation) == 0
    served.driver("g").lost(Fenced("shard 3 is held by node 1"))
    for _ in range(3):
        assert client.beat(member_id, generation) == ErrorCode.NOT_COORDINATOR


def test_a_partition_of_another_process_is_never_claimed_again(
    absent: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Mock()
    monkeypatch.setattr(absent.server.store, "claim", claim)
    before = len(absent.disk.trace)
    absent.advance(3600)
    assert not claim.called
    assert absent.disk.trace[before:] == []


def test_a_partition_of_another_process_is_seen_everywhere(absent: Served) -> None:
    index = absent.driver("g").index
    status, body = absent.page("/readyz")
    [problem] = json.loads(body)["not_active"]
    assert (status, problem["partition"], problem["state"]) == (503, index, "absent")
    assert problem["reason"] == (
        f"another process owns the partition: shard {index} is held by node unknown; "
        "end that process, then restart this one to claim the partition again"
    )
    metrics = b"".join(whole(exposition.Exposition(absent.server.metrics).page()))
    assert b'groupkeeper_partitions{state="absent"} 1.0' in metrics
    assert b'groupkeeper_partitions{state="active"} 3.0' in metrics


def test_groups_of_another_process_are_missing_in_a_list(served: Served, lines: Lines) -> None:
    served.client().commit(1)
    served.driver("g").lost(Fenced("shard 3 is held by node 1"))
    assert served.client().call(4, ListGroupsRequest()).error_code == 0
    [line] = [line for line in lines() if line["event"] == "groups are missing in a list"]
    assert line["partitions"] == f"[{served.driver('g').index}]"


def test_a_topic_is_deleted_without_waiting_for_it(absent: Served, lines: Lines) -> None:
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    [deleted] = absent.client().call(5, request).responses
    assert deleted.error_code == 0
    [line] = [each for each in lines() if each["event"].startswith("offsets of deleted topics")]
    assert line["partitions"] == f"[{absent.driver('g').index}]"


def test_what_comes_late_changes_nothing_about_it(absent: Served, lines: Lines) -> None:
    before, driver = len(lines()), absent.driver("g")
    driver.lost(LockLost("the lock was removed"))
    driver.not_written(OSError("full"))
    absent.advance(60)
    assert absent.states()[driver.index] == "absent"
    assert lines()[before:] == []


def test_a_partition_of_another_process_ends_with_this_one(absent: Served) -> None:
    absent.server.group_partitions.stop()
    assert absent.client().commit(1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    absent.server.group_partitions.close()


# -- a decision that fails -------------------------------------------------------------------------


def test_a_bug_is_the_end_of_its_request_and_of_what_waits(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, other = served.client(), served.client()
    member_id, generation = settle(other)
    waiting.send(3, join_request())
    served.advance(0.01)
    break_handler(monkeypatch, HeartbeatRequest)
    assert other.beat(member_id, generation) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.take().error_code == ErrorCode.NOT_COORDINATOR
    assert served.server.metrics.counts["partitions_closed", "RuntimeError"] == 1
    monkeypatch.undo()
    served.settled()
    assert other.beat(member_id, generation) == 0, "the partition is what its log says"
    assert other.commit(2, member_id=member_id, generation=generation) == 0


def test_members_of_a_partition_that_is_loaded_again_are_counted_once(served: Served) -> None:
    one, two = groups_apart(PARTITIONS)
    settle(served.client(), one)
    total = served.driver(one)._services.member_bytes
    alone = total.used
    settle(served.client(), two)
    assert total.used == 2 * alone > 0
    served.driver(one).not_written(OSError("full"))
    assert total.used == alone
    served.settled()
    assert total.used == 2 * alone


def test_a_bug_undoes_what_was_not_written_and_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records taken by a round under way are written, but not acknowledged."""
    committer, other = served.client(), served.client()
    break_handler(monkeypatch, HeartbeatRequest)
    served.at_once({committer: committer.commit_frame(5), other: other.frame(4, heartbeat("m", 1))})
    assert committer.committed() == ErrorCode.NOT_COORDINATOR
    assert other.take().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    served.settled()
    assert other.fetched() == {}


def test_a_bug_while_a_round_is_under_way_loses_nothing_of_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    committer, other = served.client(), served.client()
    served.at_once({committer: committer.commit_frame(5)})
    served.advance(0.0001)
    break_handler(monkeypatch, HeartbeatRequest)
    served.at_once({other: other.frame(4, heartbeat("m", 1))})
    assert committer.committed() == ErrorCode.NOT_COORDINATOR
    served.settled()
    assert served.client().fetched() == {("orders", 0): 5}
    assert [line["event"] for line in lines()] == ["a decision failed"]


def test_a_request_that_was_half_answered_is_refused_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step holds its answer, the member still holds its token."""
    waiting, other = served.client(), served.client()
    member_id, _ = settle(other)
    waiting.send(3, join_request())
    served.advance(0.01)
    token = next(m.awaiting_join for m in served.group().members.values() if m.awaiting_join)

    def half(groups: Any, request: Any, caller: Any, reply_to: Any, step: Any) -> None:
        step.reply(token, refuse(join_request(), caller, ErrorCode.NONE))
        boom()

    break_handler(monkeypatch, HeartbeatRequest, half)
    assert other.beat(member_id, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.take().error_code == ErrorCode.NOT_COORDINATOR
    served.settled()


def test_an_answer_given_before_the_bug_does_not_leave(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(groups: Any, request: Any, caller: Any, reply_to: Any, step: Any) -> None:
        step.reply(reply_to, refuse(request, caller, ErrorCode.NONE))
        boom()

    break_handler(monkeypatch, HeartbeatRequest, half)
    assert served.client().beat("m", 1) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_timer_that_fails_reloads_the_partition(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    settle(served.client())
    monkeypatch.setattr(core, "expire", boom)
    served.advance(10.1)
    monkeypatch.undo()
    served.settled()
    assert "a timer failed" in [line["event"] for line in lines()]
    assert served.members() == 1
    served.advance(10.1)
    assert served.members() == 0


def test_a_failure_while_loading_starts_loading_over(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    served.client().commit(7)
    served.restart()
    client = served.client()
    monkeypatch.setattr(core, "refuse", boom)
    served.at_once({client: client.frame(4, heartbeat("m", 1))})
    assert client.take().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    served.settled()
    served.advance(5)
    assert served.client().fetched() == {("orders", 0): 7}
    told = [line["event"] for line in lines() if line["logger"] != "access"]
    assert told == ["a decision failed"]


# -- time ------------------------------------------------------------------------------------------


def test_an_earlier_deadline_moves_the_alarm(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    settle(served.client(), "patient", session_timeout_ms=30_000)
    settle(served.client(), "hasty", session_timeout_ms=1_000)
    for seconds, left in ((0.99, (1, 1)), (0.02, (1, 0)), (28.97, (1, 0)), (0.04, (0, 0))):
        served.advance(seconds)
        assert (served.members("patient"), served.members("hasty")) == left


def test_a_deadline_that_moves_away_does_not_ring_for_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = served.driver("g")._alarm
    ring = Mock(wraps=alarm._ring)
    monkeypatch.setattr(alarm, "_ring", ring)
    client = served.client()
    member_id, generation = settle(client)
    for _ in range(300):
        served.advance(1)
        assert client.beat(member_id, generation) == 0
    assert 0 < ring.call_count < 50


def test_a_mass_expiry_takes_turns(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    clients = {served.client(): f"g{number}" for number in range(core.TIMERS_PER_TURN + 50)}
    requests = {c: c.frame(3, join_request(group)) for c, group in clients.items()}
    served.at_once(requests)
    assert all(client.take().error_code == 0 for client in clients)
    served.advance(61)
    assert sum(served.members(group) for group in clients.values()) == 0


# -- the offsets topic -----------------------------------------------------------------------------


@pytest.fixture
def grown(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Partitions and bytes, as those who fetch hear of them from now on."""
    grown: list[tuple[int, int]] = []
    services = served.partition_log()._services
    monkeypatch.setattr(services, "grew", lambda index, size: grown.append((index, size)))
    return grown


def test_who_fetches_the_offsets_topic_hears_how_much_is_new(
    served: Served, grown: list[tuple[int, int]]
) -> None:
    served.client().commit(1)
    served.advance(0.1)
    served.client().commit(2)
    served.advance(0.1)
    assert [index for index, _ in grown] == [served.driver("g").index] * 2
    assert sum(size for _, size in grown) == served.log().size


def test_who_fetches_hears_of_what_a_reload_brought(
    served: Served, grown: list[tuple[int, int]]
) -> None:
    served.client().commit(1)
    served.fail()
    served.log().close()
    served.partition_log().grown()
    assert grown == []
    served.settled()
    served.advance(0.1)
    assert sum(size for _, size in grown) == served.log().size > 0


def test_what_was_there_before_the_start_is_not_new(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.client().commit(1)
    served.recover()
    grown: list[int] = []
    services = served.partition_log()._services
    monkeypatch.setattr(services, "grew", lambda index, size: grown.append(size))
    before = served.log().size
    served.client().commit(2)
    served.advance(0.1)
    assert grown == [served.log().size - before]


# -- the end ---------------------------------------------------------------------------------------


def test_when_stopping_new_requests_are_15_and_waiting_ones_16(served: Served) -> None:
    waiting, other = served.client(), served.client()
    settle(other)
    waiting.send(3, join_request())
    served.advance(0.01)
    served.server.group_partitions.stop()
    codes = ask_everything(served)
    stopping = dict.fromkeys(QUESTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert codes == stopping | {"FindCoordinator": 0}
    served.server.group_partitions.close()
    assert waiting.take().error_code == ErrorCode.NOT_COORDINATOR


def test_a_stopping_partition_ends_no_session_and_is_not_loaded_again(served: Served) -> None:
    settle(served.client())
    served.server.group_partitions.stop()
    served.advance(60)
    assert served.members() == 1
    served.fail()
    driver = served.driver("g")
    assert (driver._partition.state, driver._loading) == ("closed", None)


def test_a_stop_while_loading_ends_the_loading(served: Served) -> None:
    served.client().commit(1)
    served.restart()
    loading = served.driver("g")._loading
    assert loading is not None
    served.stop()
    assert loading.cancelled()
    served.start()
    served.settled()
    assert served.client().fetched() == {("orders", 0): 1}


def test_a_stopping_server_is_not_ready(served: Served) -> None:
    assert served.page("/readyz")[0] == 200
    served.server.group_partitions.stop()
    assert served.page("/readyz")[0] == 503
    assert set(served.states()) == {"draining"}


def test_clients_see_the_end_of_their_connections(served: Served) -> None:
    client: Client = served.client()
    settle(client)
    served.stop()
    served.until(lambda: client.closed)
