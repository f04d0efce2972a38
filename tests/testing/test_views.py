"""What a test sees of a group, and how it waits for it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.testing import (
    Broker,
    BrokerDown,
    GroupNow,
    RequestFailed,
    Rule,
    WaitTimedOut,
    effects,
)
from tests.support.raw_member import RawMember, member, settle
from tests.support.requests import delete_records_request, produce_request


class Stage:
    """A broker with members that are closed at the end."""

    def __init__(self, stack: ExitStack, broker: Broker) -> None:
        self.broker = broker
        self.group = broker.group("billing")
        self._stack = stack

    def member(self, name: str, *, static: bool = False) -> RawMember:
        made = member(self.broker, name, instance=name if static else None)
        return self._stack.enter_context(made)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(topics={"orders": 3}))
        yield Stage(stack, broker)


def meanwhile(*steps: object) -> threading.Thread:
    """Run them on a thread while the test waits."""

    def run() -> None:
        for step in steps:
            step()  # type: ignore[operator]

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def fail_the_log(broker: Broker) -> Rule:
    """The coordinator knows no group until the rule is removed."""
    rule = broker.fault(effects.disk_full())
    with pytest.raises(RequestFailed):
        broker.commit("other", {("orders", 0): 1})
    return rule


# -- looking ---------------------------------------------------------------------------------------


def test_a_group_that_does_not_exist(stage: Stage) -> None:
    group = stage.group
    assert (group.exists, group.state, group.generation, group.members) == (False, "Dead", -1, ())
    assert (group.lag, group.rounds, group.timeline()) == (None, (), "")
    assert repr(group) == "<group 'billing': Dead>"
    assert stage.broker.groups() == []


def test_members_with_their_ids_and_partitions(stage: Stage) -> None:
    lea, fred = stage.member("lea", static=True), stage.member("fred")
    settle(lea, fred, plan={"lea": [2, 0], "fred": [1]})
    first, second = stage.group.members
    assert (first.member_id, first.instance_id, first.client_id) == (lea.member_id, "lea", "lea")
    assert (second.member_id, second.instance_id) == (fred.member_id, None)
    assert (first.host, first.session_timeout_ms) == ("127.0.0.1", 10_000)
    assert (first.partitions, second.partitions) == ({"orders": [0, 2]}, {"orders": [1]})
    assert stage.group.assigned == {"orders": [0, 1, 2]}
    assert stage.group.member("lea") == stage.group.member(lea.member_id) == first
    assert stage.broker.groups() == ["billing"]


def test_a_member_that_is_not_there_is_named_beside_those_that_are(stage: Stage) -> None:
    settle(stage.member("lea"))
    with pytest.raises(LookupError, match="'billing' has no member 'sam'; members: 'lea'"):
        stage.group.member("sam")


def test_nothing_is_assigned_while_the_group_rebalances(stage: Stage) -> None:
    settle(stage.member("lea"))
    stage.member("fred").ask_join()
    stage.group.wait_until(state="PreparingRebalance")
    assert stage.group.assigned == {}


def test_all_of_a_group_at_one_moment(stage: Stage) -> None:
    settle(stage.member("lea"))
    now = stage.group.now
    assert isinstance(now, GroupNow)
    assert (now.is_stable, now.generation, now.protocol, now.began) == (True, 1, "range", 1)
    assert now.leader == now.members[0].member_id
    assert repr(now) == (
        "<group 'billing': Stable, generation 1, 1 member [<lea: orders 0>], lag 0, "
        f"1 round, the last {now.rounds[-1]!r}>"
    )


def test_lag_counts_partitions_that_are_assigned_without_an_offset(stage: Stage) -> None:
    stage.broker.produce_many("orders", [*"abc"], partition=0)
    stage.broker.produce_many("orders", [*"de"], partition=1)
    stage.broker.commit("billing", {("orders", 1): 1})
    assert (stage.group.lag, dict(stage.group.lags)) == (1, {("orders", 1): 1})
    settle(stage.member("lea"))
    assert dict(stage.group.lags) == {("orders", 0): 3, ("orders", 1): 1}
    assert stage.group.lag == 4


# -- rounds and causes -----------------------------------------------------------------------------


def test_a_round_says_why_and_who(stage: Stage) -> None:
    lea, fred = stage.member("lea", static=True), stage.member("fred")
    settle(lea)
    fred.ask_join()
    stage.group.wait_until(rounds=2)
    settle(lea, fred)
    first, second = stage.group.rounds
    assert (first.cause, first.who, first.outcome) == ("static_member_joined", "lea", "completed")
    assert (second.cause, second.who, second.member_id) == ("member_joined", "fred", fred.member_id)
    assert (second.members, second.generation, second.protocol) == (2, 2, "range")
    assert (second.added, second.removed, second.more_causes) == (["fred"], [], [])
    assert (second.moved, second.likely, second.reason) == (1, None, None)
    assert second.duration_ms is not None
    assert second.started_at_ms is not None
    assert second.advice in second.text
    assert "member_joined by fred, completed in" in repr(second)


def test_a_round_under_way_stays_as_it_was_seen(stage: Stage) -> None:
    lea, fred = stage.member("lea"), stage.member("fred")
    settle(lea)
    fred.ask_join()
    begun = stage.group.wait_until(rounds=2).rounds[-1]
    stage.member("sam").ask_join()
    stage.group.wait_until(members=3)
    assert (begun.outcome, begun.members, begun.duration_ms, begun.advice) == (
        "under_way",
        None,
        None,
        "",
    )
    assert (begun.added, begun.more_causes) == (["fred"], [])
    assert stage.group.rounds[-1].more_causes == ["member_joined"]


def test_a_session_that_ended_is_the_cause(stage: Stage) -> None:
    lea, fred = stage.member("lea"), stage.member("fred")
    settle(lea, fred)
    stage.group.expire("fred")
    assert stage.group.wait_until(cause="session_expired").rounds[-1].removed == ["fred"]
    settle(lea)
    last = stage.group.rounds[-1]
    assert last.evidence["session_timeout_ms"] == 10_000
    assert last.likely == "crash_or_network"


def test_the_timeline_has_rounds_other_events_and_what_is_now(stage: Stage) -> None:
    lea = stage.member("lea")
    settle(lea)
    lea.commit(3)
    lea.leave()
    stage.group.wait_until(state="Empty")
    text = stage.group.timeline()
    assert "rebalance to generation 1" in text
    assert "it was closed" in text
    assert "\nNow: Empty for" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_group_of_which_only_offsets_were_loaded_is_empty_for_an_unknown_time(
    stage: Stage,
) -> None:
    stage.broker.commit("billing", {("orders", 0): 1})
    stage.broker.restart()
    assert "Now: Empty, generation 0, 0 members." in stage.group.timeline()


def test_requests_that_were_refused_alike_are_one_line(stage: Stage) -> None:
    lea = stage.member("lea")
    settle(lea)
    lea.member_id = "old"
    assert [lea.beat() for _ in range(3)] == [25, 25, 25]
    assert "3 requests (Heartbeat)" in stage.group.timeline()


# -- over crashes and restarts ---------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "disk"])
def test_rounds_are_remembered_over_crashes(data: str | None, tmp_path: Path) -> None:
    with Broker(topics={"orders": 3}, data=data and tmp_path / data) as broker:
        group = broker.group("billing")
        with member(broker, "lea") as lea, member(broker, "fred") as fred:
            settle(lea)
            fred.ask_join()
            group.wait_until(rounds=2)
            broker.crash()
            assert "rebalance to generation 1" in group.timeline()
            assert repr(group).startswith("<group 'billing': the broker is not running")
            with pytest.raises(BrokerDown):
                _ = group.state
        broker.restart()
        assert [each.outcome for each in group.rounds] == ["completed", "lost"]
        assert "the coordinator loaded 1 group with 1 member" in group.timeline()
        assert (group.state, group.generation) == ("Stable", 1)
        broker.reset() if data is None else None
        assert len(group.rounds) == (0 if data is None else 2)


def test_what_was_answered_is_told_by_a_crash_right_after(stage: Stage) -> None:
    settle(stage.member("lea"))
    stage.broker.crash()
    assert "rebalance to generation 1" in stage.broker.timeline("billing")


# -- waiting ---------------------------------------------------------------------------------------


def test_waiting_ends_when_all_is_so_at_one_moment(stage: Stage) -> None:
    lea, fred = stage.member("lea"), stage.member("fred", static=True)
    settle(lea)
    thread = meanwhile(lambda: settle(lea, fred, plan={"lea": [0, 1], "fred": [2]}))
    now = stage.group.wait_until(
        stable=True, members=2, generation=2, assigned={"fred": {"orders": [2]}, "orders": range(3)}
    )
    thread.join()
    assert [each.client_id for each in now.members] == ["lea", "fred"]


def test_waiting_for_offsets_and_lag(stage: Stage) -> None:
    lea = stage.member("lea")
    settle(lea)
    stage.broker.produce_many("orders", [*"abc"], partition=0)
    thread = meanwhile(lambda: lea.commit(2))
    stage.group.wait_until(committed={("orders", 0): 2}, lag=1)
    thread.join()
    thread = meanwhile(lambda: stage.broker.produce("orders", "d", partition=0))
    stage.group.wait_until(lag=2)
    thread.join()


def test_waiting_for_lag_sees_what_clients_produce_and_delete(stage: Stage) -> None:
    lea = stage.member("lea")
    settle(lea)
    thread = meanwhile(lambda: lea.call(9, produce_request("orders", 0, b"x")))
    stage.group.wait_until(lag=1)
    thread.join()
    thread = meanwhile(lambda: lea.call(2, delete_records_request("orders", 0, 1)))
    stage.group.wait_until(lag=0)
    thread.join()


def test_waiting_for_an_end(stage: Stage) -> None:
    settle(lea := stage.member("lea"))
    thread = meanwhile(lea.leave)
    stage.group.wait_until(members=0, stable=False, exists=True)
    thread.join()


def test_waiting_goes_on_over_crash_restart_and_reset(stage: Stage) -> None:
    broker, group = stage.broker, stage.group
    stage.broker.commit("billing", {("orders", 0): 5})

    def upheaval() -> None:
        broker.crash()
        broker.restart()
        broker.reset()
        settle(stage.member("lea"))

    thread = meanwhile(upheaval)
    now = group.wait_until(stable=True)
    thread.join()
    assert (now.generation, dict(now.committed)) == (1, {})


def test_a_wait_that_is_over_says_what_is_not_so(stage: Stage) -> None:
    lea, fred = stage.member("lea"), stage.member("fred")
    settle(lea)
    fred.ask_join()
    stage.group.wait_until(rounds=2)
    with pytest.raises(WaitTimedOut) as error:
        stage.group.wait_until(
            stable=True,
            state="Empty",
            exists=False,
            members=3,
            generation=2,
            lag=1,
            committed={("orders", 0): 5},
            rounds=3,
            cause="session_expired",
            assigned={"orders": [1]},
            timeout=0,
        )
    text = str(error.value)
    for line in (
        "group 'billing' did not meet the conditions within 0 s:",
        "stable=True: it is PreparingRebalance",
        "state='Empty': it is PreparingRebalance",
        "exists=False: it is PreparingRebalance",
        "members=3: it has 2: lea, fred",
        "generation=2: it is 1",
        "lag=1: it is None; nothing is assigned or committed",
        "committed: orders-0=5: it is None",
        "rounds=3: 2 have started",
        "cause='session_expired': the last round's is 'member_joined'",
        "assigned: nothing is assigned while the group is PreparingRebalance",
        "Now: PreparingRebalance",
        f"Waiting for 1 of 2: {lea.member_id[:8]}",
        "The last of 2 rounds:",
    ):
        assert line in text
    assert isinstance(error.value, AssertionError)


def test_a_wait_for_assignments_says_who_has_what(stage: Stage) -> None:
    settle(stage.member("lea"), stage.member("fred"), plan={"lea": [0, 1]})
    stage.broker.produce("orders", "x", partition=1)
    with pytest.raises(WaitTimedOut) as error:
        stage.group.wait_until(
            assigned={
                "orders": [1, 2],
                "lea": {"orders": [0]},
                "fred": {"orders": [2]},
                "sam": {"orders": [2]},
            },
            lag=0,
            timeout=0,
        )
    assert (
        "assigned: orders 2 is assigned to no member; lea has orders 0-1, not orders 0; "
        "fred has nothing, not orders 2; there is no member 'sam'" in str(error.value)
    )
    assert "lag=0: it is 1 in orders-1: 1" in str(error.value)


def test_a_wait_for_a_group_that_is_not_there_names_those_that_are(stage: Stage) -> None:
    with pytest.raises(WaitTimedOut, match="No group exists"):
        stage.group.wait_until(stable=True, timeout=0)
    stage.broker.commit("biling", {("orders", 0): 1})
    with pytest.raises(WaitTimedOut, match="The group does not exist, only 'biling'"):
        stage.group.wait_until(stable=True, timeout=0)


def test_a_wait_for_a_broker_that_is_down_says_so(stage: Stage) -> None:
    stage.broker.crash()
    with pytest.raises(WaitTimedOut, match="within 0 s: the broker is not running"):
        stage.group.wait_until(stable=True, timeout=0)


def test_what_can_never_be_is_refused_at_once(stage: Stage) -> None:
    wait = stage.group.wait_until
    with pytest.raises(ValueError, match="needs a condition: stable, state"):
        wait()
    with pytest.raises(ValueError, match="cause='crashed' does not exist; known are member_joined"):
        wait(cause="crashed")
    with pytest.raises(ValueError, match="state='stable' does not exist; known are Empty"):
        wait(state="stable")
    with pytest.raises(TypeError, match="has no condition 'stabel', only stable"):
        wait(stabel=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "wanted", [{"exists": False}, {"members": 0}, {"stable": False}, {"committed": {}}]
)
def test_of_a_group_that_is_not_known_now_nothing_is_so(
    stage: Stage, wanted: dict[str, Any]
) -> None:
    settle(stage.member("lea"), plan={"lea": [0]})
    fail_the_log(stage.broker)
    assert stage.group.state == "Unknown"
    with pytest.raises(WaitTimedOut, match="it is Unknown"):
        stage.group.wait_until(**wanted, timeout=0.05)
    stage.group.wait_until(state="Unknown", rounds=1, cause="member_joined")


def test_no_rebalance_knows_the_rounds_of_a_group_whose_log_has_failed(stage: Stage) -> None:
    settle(stage.member("lea"), plan={"lea": [0]})
    watch = stage.group.no_rebalance()
    watch.__enter__()
    stage.group.rebalance()
    rule = fail_the_log(stage.broker)
    with pytest.raises(AssertionError, match="rebalanced: operator"):
        watch.__exit__(None, None, None)
    with stage.group.no_rebalance():
        rule.remove()
        stage.broker.restart()
        stage.group.wait_until(exists=True)


async def test_a_wait_that_blocks_its_event_loop_says_so(stage: Stage) -> None:
    with pytest.raises(WaitTimedOut, match=r"await broker\.aio\.group\('billing'\)\.wait_until"):
        stage.group.wait_until(stable=True, timeout=0)


async def test_waiting_in_a_coroutine(stage: Stage) -> None:
    group = stage.broker.aio.group("billing")
    thread = meanwhile(lambda: settle(stage.member("lea")))
    now = await group.wait_until(stable=True, members=1)
    thread.join()
    assert (now.generation, group.state, stage.broker.aio.groups()) == (1, "Stable", ["billing"])
    assert "rebalance to generation 1" in stage.broker.aio.timeline("billing")
    with pytest.raises(WaitTimedOut, match="members=2: it has 1: lea"):
        await group.wait_until(members=2, timeout=0)
    async with group.no_rebalance():
        pass


# -- no rebalance ----------------------------------------------------------------------------------


def test_no_rebalance_says_why_there_was_one(stage: Stage) -> None:
    lea = stage.member("lea")
    settle(lea)
    without_one = stage.group.no_rebalance()
    without_one.__enter__()
    stage.member("fred").ask_join()
    stage.group.wait_until(members=2)
    with pytest.raises(AssertionError, match="'billing' rebalanced: member_joined\n") as error:
        without_one.__exit__(None, None, None)
    assert stage.group.rounds[-1].text in str(error.value)


def test_no_rebalance_begins_anew_with_a_reset(stage: Stage) -> None:
    settle(stage.member("lea"))
    with stage.group.no_rebalance():
        stage.broker.reset()
        stage.group.wait_until(exists=False, rounds=0)


def test_a_static_member_that_comes_back_begins_no_rebalance(stage: Stage) -> None:
    settle(stage.member("lea", static=True))
    with stage.group.no_rebalance():
        again = stage.member("lea", static=True)
        again.ask_join()
        again.joined()
        broker = stage.broker
        broker.crash()
        broker.restart()
    with stage.group.no_rebalance():
        stage.broker.crash()


def test_an_error_within_no_rebalance_is_not_hidden(stage: Stage) -> None:
    def breaks() -> None:
        with stage.group.no_rebalance():
            settle(stage.member("lea"))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        breaks()
