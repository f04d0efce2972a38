"""The present of a group in words."""

from typing import Any

from groupkeeper.why.live import live_key, live_text


def member(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "member": f"{name}-1",
        "instance": None,
        "client_id": name,
        "host": "/10.0.0.7",
        "joined": False,
        "synced": True,
        "heard_ms_ago": 2_000,
    } | fields


def view(state: str = "Stable", **fields: Any) -> dict[str, Any]:
    return {
        "group": "g",
        "state": state,
        "state_ms": 60_000,
        "generation": 4,
        "members": [member("lea"), member("fred", instance="pod-3")],
        "pending": [],
        "waiting_for": [],
        "rebalance": None,
        "next_timer": None,
    } | fields


def test_a_stable_group() -> None:
    timer = {"name": "session", "member": "fred-1", "in_ms": 7_000}
    assert live_text(view(next_timer=timer)) == (
        "Now: Stable for 60 s, generation 4, 2 members. "
        "In 7.0 s the session of pod-3 ends unless it sends a heartbeat."
    )


def test_a_join_phase() -> None:
    rebalance = {
        "phase": "join",
        "since_ms": 3_000,
        "initial_delay": False,
        "cause": {"code": "member_left", "who": member("zoe"), "reason": None},
    }
    session = {"name": "session", "member": "fred-1", "in_ms": 8_000}
    timer = {"name": "join", "member": None, "in_ms": 57_000}
    text = live_text(
        view(
            "PreparingRebalance",
            rebalance=rebalance,
            waiting_for=["fred-1", "new-433ad937-7a31-4ef4-bd23-156bd0e5fd80"],
            pending=[{"member": "new-433ad937-7a31-4ef4-bd23-156bd0e5fd80"}],
            next_timer=session,
            phase_timer=timer,
        )
    )
    assert text == (
        "Now: PreparingRebalance for 3.0 s, generation 4, 2 members. zoe-1 (on 10.0.0.7) left. "
        "Waiting for 2 of 3: pod-3 (member fred-1, on 10.0.0.7), last heard from 2.0 s ago, "
        "new-433ad937 (got its member id, has not joined yet). In 8.0 s the session of pod-3 ends "
        "unless it sends a heartbeat. In 57 s the rebalance timeout ends the join phase: dynamic "
        "members that are missing are removed, static ones keep their places."
    )


def test_of_many_pending_ids_the_first_are_in_the_view_and_all_are_counted() -> None:
    ids = [f"new-{number}" for number in range(5)]
    text = live_text(
        view(
            "PreparingRebalance",
            waiting_for=ids,
            waiting_for_count=10_000,
            pending=[{"member": each} for each in ids],
            pending_count=10_000,
        )
    )
    assert "Waiting for 10000 of 10002: new-0 " in text
    assert " and 9997 more." in text


def test_an_initial_delay_and_a_sync_phase() -> None:
    delay = {"phase": "join", "initial_delay": True}
    assert "0 members joined; the group was empty, and waits for more." in live_text(
        view("PreparingRebalance", rebalance=delay, waiting_for=["lea-1"])
    )
    sync = {"phase": "sync", "initial_delay": False}
    rows = [member("lea", synced=False), member("fred", synced=False)]
    assert "Waiting for the leader lea-1 (on 10.0.0.7), last heard from 2.0 s ago to assign; " in (
        live_text(view("CompletingRebalance", rebalance=sync, waiting_for=["lea-1"], members=rows))
    )


def test_an_epoch_of_a_consumer_group() -> None:
    rows = [member("lea", epoch=4, heard=False), member("fred", epoch=3, heard=False)]
    epoch = {"phase": "reconcile", "since_ms": 7_000, "initial_delay": False, "cause": {}}
    now = view("Reconciling", rebalance=epoch, waiting_for=["fred-1"], members=rows)
    assert live_text(now) == (
        "Now: Reconciling for 7.0 s, epoch 4, 2 members. "
        "Waiting for 1 of 2 to reach epoch 4: fred-1 (on 10.0.0.7), at epoch 3."
    )


def test_only_time_passing_is_no_news() -> None:
    later = view(state_ms=61_000)
    assert live_key(view()) == live_key(later)
    assert live_key(view()) != live_key(view(generation=5))
    assert live_key(view()) != live_key(view(waiting_for=["lea-1"]))


def test_a_view_of_another_server_needs_no_field() -> None:
    assert live_text({}) == "Now: unknown, generation ?, 0 members."
    assert live_text({"next_timer": {"name": "tea"}, "members": None, "rebalance": None})


def test_lost_members_are_named() -> None:
    lost = member("fred", instance="pod-3", reserved_ms=3_000)
    text = live_text(view(members=[member("lea"), lost], seats_end_in_ms=57_000))
    assert text.endswith(" pod-3 lost: the partitions are reserved for another 57 s.")


def test_a_rebalance_that_an_observer_asked_for_says_so_and_who_came_and_is_gone() -> None:
    seen = {"first_ms": 1, "last_ms": 2, "came": ["sam-1"], "gone": ["fred-1"]}
    phase = {"phase": "join", "since_ms": 3_000, "initial_delay": False, "cause": {}}
    assert live_text(view("PreparingRebalance", rebalance=phase, seen=seen)) == (
        "Now: PreparingRebalance for 3.0 s, generation 4, 2 members. It is at least that old: the "
        "coordinator was asked. New: sam-1. Gone: fred-1."
    )
