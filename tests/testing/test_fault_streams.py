"""Effects on requests, answers and connections, over the raw wire."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from groupkeeper.apis.list_groups import ListGroupsHandler
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.testing import Broker, BrokerDown, effects
from groupkeeper.testing.running import RunningServer
from tests.support.requests import (
    commit_request,
    delete_topic_request,
    fetch_request,
    heartbeat,
    join_request,
    sync_request,
)
from tests.support.wire import Gone, connect, frame
from tests.testing.wired import (
    commit,
    committed,
    dial,
    hears_nothing,
    metadata_request,
    produce_request,
    wired,
)

PLACE = ("orders", 0)
BROKEN = (Gone, ConnectionError)


@pytest.mark.parametrize("effect", [effects.delay(0.05), effects.delay_answer(0.05)])
def test_a_delayed_request_is_answered_later_and_others_are_not(effect: effects.Effect) -> None:
    with wired() as (broker, client), dial(broker) as other:
        broker.fault(effect, group="h", times=1)
        began = time.monotonic()
        client.send(8, fetch_request("g", "h"))
        assert other.call(4, ListGroupsRequest()).groups == []
        assert [each.group_id for each in client.take().groups] == ["g", "h"]
        assert time.monotonic() - began >= 0.05
        assert client.call(8, fetch_request("g", "h")).groups


def test_an_answer_s_delay_is_after_its_effect_and_a_request_s_before() -> None:
    """No delay ends within the test, so it does not matter how long the questions take."""
    with wired() as (broker, client), dial(broker) as early, dial(broker) as late:
        for delayed, effect, found in (
            (early, effects.delay(600), {}),
            (late, effects.delay_answer(600), {PLACE: 1}),
        ):
            with broker.fault(effect, api="OffsetCommit") as rule:
                delayed.send(8, commit_request({PLACE: 1}, "g"))
                rule.wait()
                assert committed(client) == found
                assert hears_nothing(delayed)


def test_a_request_that_was_delayed_has_its_effect_later() -> None:
    with wired() as (broker, client), dial(broker) as other:
        broker.fault(effects.delay(0.05), api="OffsetCommit")
        assert commit(client, {PLACE: 1}) == {PLACE: 0}
        assert committed(other) == {PLACE: 1}


def test_a_bug_in_a_delayed_request_costs_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ListGroupsHandler, "handle", fail)
    with wired() as (broker, client):
        broker.fault(effects.delay(0.001), api="ListGroups")
        with pytest.raises(BROKEN):
            client.call(4, ListGroupsRequest())
        assert any("request failed" in line for line in broker.logs)


@pytest.mark.parametrize("handled", [False, True])
def test_a_dropped_request_is_never_answered_nor_what_follows(handled: bool) -> None:
    with wired() as (broker, client), dial(broker) as lost:
        rule = broker.fault(effects.drop(handled=handled), api="OffsetCommit", times=1)
        lost.send(8, commit_request({PLACE: 1}, "g"))
        rule.wait()  # the answer is there, or there will be none
        assert hears_nothing(lost)
        lost.send(4, ListGroupsRequest())
        assert hears_nothing(lost)
        assert committed(client) == ({PLACE: 1} if handled else {})


@pytest.mark.parametrize("handled", [False, True])
def test_a_connection_is_closed_instead(handled: bool) -> None:
    with wired() as (broker, client), dial(broker) as closed:
        broker.fault(effects.close(handled=handled), api="OffsetCommit", times=1)
        assert closed.call(4, ListGroupsRequest()).groups == []
        with pytest.raises(BROKEN):
            commit(closed, {PLACE: 1})
        assert committed(client) == ({PLACE: 1} if handled else {})


def test_answers_made_before_leave_a_closed_connection() -> None:
    with wired() as (broker, client):
        broker.fault(effects.close(), api="OffsetFetch")
        client.send_frame(frame(4, ListGroupsRequest(), 1) + frame(8, fetch_request("g"), 2))
        assert client.read_frame()[:4] == b"\0\0\0\1"
        with pytest.raises(BROKEN):
            client.read_frame()


def test_a_half_open_connection_stays_and_takes_nothing() -> None:
    with wired() as (broker, client), dial(broker) as stuck:
        rule = broker.fault(effects.half_open(), api="ListGroups", times=1)
        stuck.send(4, ListGroupsRequest())
        rule.wait()
        assert hears_nothing(stuck)
        stuck.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):  # until the buffers of the kernel are full
            stuck.send_frame(bytes(50_000_000))
        assert client.call(4, ListGroupsRequest()).groups == []


@pytest.mark.parametrize("long", [True, False])
def test_a_truncated_answer_ends_in_its_middle(long: bool) -> None:
    request, version = (MetadataRequest(topics=None), 9) if long else (heartbeat("m", 1), 4)
    with wired() as (broker, client):
        broker.fault(effects.truncated(), times=1)
        with dial(broker) as cut:
            cut.send(version, request)
            with pytest.raises(Gone, match=r"\d+ of \d+ bytes"):
                cut.read_frame()
        client.send(version, request)
        assert client.read_frame()


def test_a_damaged_answer_has_other_bytes_the_same_for_a_seed() -> None:
    def answers(seed: int) -> list[bytes]:
        frames = []
        for _ in range(3):
            client.send_frame(frame(4, FindCoordinatorRequest(coordinator_keys=["g"]), 7))
            frames.append(client.read_frame())
        return frames

    with wired() as (broker, client):
        [sound, *_] = answers(0)
        found = []
        for seed in (1, 1, 2):
            with broker.fault(effects.damaged(seed=seed, count=2)):
                found.append(answers(seed))
    assert found[0] == found[1] != found[2]
    for damaged in (*found[0], *found[2]):
        assert (damaged[:4], len(damaged)) == (sound[:4], len(sound))
        assert sum(a != b for a, b in zip(damaged, sound, strict=True)) == 2


def test_a_throttled_client_is_told_at_once_and_then_muted() -> None:
    with wired() as (broker, client), dial(broker) as muted:
        broker.fault(effects.throttle(60_000), api="OffsetFetch", client_id="tester", times=1)
        assert muted.call(8, fetch_request("g")).throttle_time_ms == 60_000
        assert client.call(8, fetch_request("g")).throttle_time_ms == 0
        muted.send(4, ListGroupsRequest())
        assert hears_nothing(muted)


def test_a_muted_client_is_served_when_its_time_is_over() -> None:
    with wired() as (broker, client):
        broker.fault(effects.throttle(60), api="OffsetFetch", times=1)
        began = time.monotonic()
        assert client.call(8, fetch_request("g")).throttle_time_ms == 60
        assert client.call(4, ListGroupsRequest()).throttle_time_ms == 0
        assert time.monotonic() - began >= 0.06


def test_what_a_client_sends_is_read_slowly() -> None:
    with wired() as (broker, client):
        broker.fault(effects.slow_reading(10_000), api="ListGroups")
        client.call(4, ListGroupsRequest())
        began = time.monotonic()
        answer = client.call(5, DescribeGroupsRequest(groups=["x" * 500, "y" * 500]))
        assert [len(each.group_id) for each in answer.groups] == [500, 500]
        assert time.monotonic() - began > 0.1


def test_a_slow_reader_holds_little_and_its_client_may_go() -> None:
    with wired() as (broker, client), dial(broker) as slow:
        broker.fault(effects.slow_reading(10), api="ListGroups", times=1)
        slow.call(4, ListGroupsRequest())
        slow.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            slow.send_frame(bytes(50_000_000))
        slow.close()
        assert client.call(4, ListGroupsRequest()).groups == []


# -- contents --------------------------------------------------------------------------------------


def test_metadata_is_as_it_was() -> None:
    def topics(request: MetadataRequest) -> dict[str, tuple[int, int]]:
        found = client.call(9, request).topics
        return {each.name: (each.error_code, len(each.partitions)) for each in found}

    new = [CreatableTopic(name="new", num_partitions=2, replication_factor=1)]
    with wired() as (broker, client):
        rule = broker.fault(effects.stale_metadata())
        client.call(7, CreateTopicsRequest(topics=new, timeout_ms=1000))
        client.call(6, delete_topic_request("payments"))
        assert topics(metadata_request("payments", "new")) == {"payments": (0, 1), "new": (3, 0)}
        all_topics = topics(MetadataRequest(topics=None))
        assert all_topics["payments"] == (0, 1)
        assert "new" not in all_topics
        rule.remove()
        broker.fault(effects.stale_metadata(), topic="new")
        client.call(6, delete_topic_request("new"))
        assert topics(metadata_request("payments", "new"))["new"] == (0, 2)
        assert topics(MetadataRequest(topics=None))["new"] == (0, 2)
        assert topics(metadata_request("orders"))["orders"] == (0, 3)


def test_metadata_of_several_nodes_is_as_it_was() -> None:
    def leader() -> int:
        [topic] = client.call(9, metadata_request("orders")).topics
        return int(topic.partitions[0].leader_id)

    with Broker(topics={"orders": 3}, brokers=3) as broker:
        host, port = broker.bootstrap_servers.split(",")[0].split(":")
        broker.move_leader("orders", 0, to=1)
        rule = broker.fault(effects.stale_metadata())
        broker.move_leader("orders", 0, to=2)
        with connect((host, int(port))) as client:
            assert leader() == 1
            rule.remove()
            assert leader() == 2


def test_a_wrong_coordinator_refuses_what_it_is_asked() -> None:
    with wired() as (broker, client):
        with broker.fault(effects.wrong_coordinator(), group="g"):
            found = client.call(4, FindCoordinatorRequest(coordinator_keys=["g", "h"])).coordinators
            port = int(broker.bootstrap_servers.split(":")[1])
            assert [(each.node_id, each.port) for each in found] == [(1, port), (0, port)]
            assert client.call(4, heartbeat("m", 1)).error_code == 16
            assert commit(client, {PLACE: 1}) == {PLACE: 16}
            assert commit(client, {PLACE: 1}, "h") == {PLACE: 0}
        with broker.fault(effects.wrong_coordinator(node_id=7, host="gone", port=9)):
            old = client.call(1, FindCoordinatorRequest(key="g"))
            assert (old.node_id, old.host, old.port, old.error_code) == (7, "gone", 9, 0)
            other = client.call(1, FindCoordinatorRequest(key="g", key_type=1))
            assert other.node_id != 7
        assert client.call(1, FindCoordinatorRequest(key="g")).node_id == 0


def test_a_loading_coordinator_is_so_for_a_while() -> None:
    with wired() as (broker, client):
        rule = broker.fault(effects.loading(60), group="g")
        assert commit(client, {PLACE: 1}) == {PLACE: 14}
        assert client.call(4, heartbeat("m", 1)).error_code == 0
        assert client.call(9, join_request()).error_code == 14
        assert client.call(4, FindCoordinatorRequest(coordinator_keys=["g"])).coordinators
        assert rule.hits == 3
        broker.advance(60)
        assert commit(client, {PLACE: 1}) == {PLACE: 0}
        assert client.call(4, heartbeat("m", 1)).error_code == 25


def test_a_stale_generation_makes_the_member_s_next_request_illegal() -> None:
    with wired(settings={"group.initial.rebalance.delay.ms": 0}) as (broker, client):
        rule = broker.fault(effects.stale_generation(), group="g")
        first = client.call(9, join_request())
        assert (first.error_code, rule.hits) == (79, 0)
        joined = client.call(9, join_request(member_id=first.member_id))
        assert (joined.error_code, joined.generation_id, rule.hits) == (0, 0, 1)
        assert client.call(5, sync_request(first.member_id, 0)).error_code == 22


def test_joins_wait_until_the_rule_is_removed() -> None:
    with wired(settings={"group.initial.rebalance.delay.ms": 0}) as (broker, client):
        with broker.fault(effects.hold_joins(), group="g") as rule:
            client.send(3, join_request())
            rule.wait()
            with dial(broker) as other:
                assert other.call(3, join_request("h")).error_code == 0
                assert other.call(4, ListGroupsRequest()).groups != []
                [group] = other.call(5, DescribeGroupsRequest(groups=["g"])).groups
                assert group.group_state == "Dead"
        joined = client.take()
        assert (joined.error_code, joined.generation_id) == (0, 1)


def test_held_joins_end_with_the_broker_s_life() -> None:
    with wired() as (broker, client):
        rule = broker.fault(effects.hold_joins())
        client.send(3, join_request())
        rule.wait()
        broker.restart()
        rule.remove()


def test_a_plan_is_lost_and_other_syncs_are_not() -> None:
    with wired(settings={"group.initial.rebalance.delay.ms": 0}) as (broker, client):
        rule = broker.fault(effects.lose_plan(), group="g")
        joined = client.call(3, join_request())
        member_id = joined.member_id
        client.send(5, sync_request(member_id, 1, plan={member_id: b"plan"}))
        rule.wait()
        with dial(broker) as other:
            [group] = other.call(5, DescribeGroupsRequest(groups=["g"])).groups
            assert group.group_state == "CompletingRebalance"
            assert other.call(5, sync_request(member_id, 1)).error_code == 0


# -- crashes and the disk --------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "disk"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_crash_leaves_what_was_durable(data: str | None, durable: bool, tmp_path: Path) -> None:
    effect = effects.crash_when_durable() if durable else effects.crash_before_durable()
    where = data and tmp_path / data
    with Broker(topics={"orders": 1}, data=where) as broker:
        broker.fault(effect, api="OffsetCommit", times=1)
        with dial(broker) as client, pytest.raises(BROKEN):
            commit(client, {PLACE: 7})
        with pytest.raises(BrokerDown, match="a fault rule has crashed the broker: restart"):
            broker.crash()
        broker.restart()
        with dial(broker) as client:
            assert committed(client) == ({PLACE: 7} if durable else {})
            assert commit(client, {PLACE: 8}) == {PLACE: 0}


def test_a_broker_that_a_fault_has_crashed_can_be_left_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = {*threading.enumerate()}
    with Broker(topics={"orders": 1}) as broker:
        broker.fault(effects.crash_when_durable(), api="Produce")
        with dial(broker) as client, pytest.raises(BROKEN):
            client.call(9, produce_request([PLACE]))
    assert {*threading.enumerate()} <= before
    assert capfd.readouterr() == ("", "")


def test_a_fault_may_crash_a_broker_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start_and_be_asked(self: RunningServer) -> None:
        await self.server.start()
        _, writer = await asyncio.open_connection(*self.server.address("PLAINTEXT"))
        writer.write(frame(4, ListGroupsRequest()))
        await asyncio.sleep(60)

    with Broker() as broker:
        broker.fault(effects.crash_before_durable(), api="ListGroups", times=1)
        monkeypatch.setattr(RunningServer, "_start", start_and_be_asked)
        with pytest.raises(BrokerDown, match="during its start: restart"):
            broker.restart()
        monkeypatch.undo()
        broker.restart()
        with dial(broker) as client:
            assert client.call(4, ListGroupsRequest()).groups == []


@pytest.mark.parametrize("data", [None, "disk"])
def test_a_full_disk_refuses_commits_until_there_is_room(data: str | None, tmp_path: Path) -> None:
    where = data and tmp_path / data
    with Broker(topics={"orders": 1}, data=where) as broker, dial(broker) as client:
        assert commit(client, {PLACE: 1}) == {PLACE: 0}
        with broker.fault(effects.disk_full()) as rule:
            codes = {commit(client, {PLACE: 2})[PLACE] for _ in range(3)}
            assert 0 not in codes
            rule.wait(5, timeout=60)  # loading fails, too, with ever longer pauses
            assert rule.hits
        assert commit(client, {PLACE: 3}) == {PLACE: 0}
        assert committed(client) == {PLACE: 3}
