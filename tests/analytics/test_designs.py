"""Histories that one describes, and what they cost under each design."""

import pytest

from groupkeeper.analytics.what_if.cast import BadHistory
from groupkeeper.analytics.what_if.described import BUILT_IN, read_history, text_of
from groupkeeper.analytics.what_if.designs import DESIGNS, Measured, simulate

S = 1_000
SMALL = "members = 3\npartitions = 6\n"


def history(*events: str, more: str = ""):
    return read_history("small", f"{SMALL}{more}\nevents = {[*events]}")


def lives(*events: str, more: str = ""):
    found = history(*events, more=more).lives
    return [
        (each.client, each.start_ms // S, each.end_ms and each.end_ms // S, each.leaves)
        for each in found
        if each.end_ms is not None or each.start_ms > 3 * S
    ]


def measured(design: str, *events: str, more: str = "") -> Measured:
    return simulate(history(*events, more=more), DESIGNS[design])


# ---------------------------------------------------------------- what is described


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            "restart member=1 at=60s down=20s",
            [("member-1", 0, 60, True), ("member-1", 80, None, False)],
        ),
        (
            "restart member=1 at=1min down=500ms leave=false",
            [("member-1", 0, 60, False), ("member-1", 60, None, False)],
        ),
        ("stop member=0-1 at=60s every=5s", [("member-0", 0, 60, True), ("member-1", 0, 65, True)]),
        ("kill member=2 at=60s", [("member-2", 1, 60, False)]),
        (
            "kill member=2 at=60s back=7s",
            [("member-2", 1, 60, False), ("member-2", 67, None, False)],
        ),
        (
            "scale-up by=2 at=60s every=4s",
            [("member-3", 60, None, False), ("member-4", 64, None, False)],
        ),
        (
            "scale-down by=2 at=60s every=4s leave=false",
            [("member-1", 0, 64, False), ("member-2", 1, 60, False)],
        ),
        (
            "crash-loop member=0 at=60s times=2 up=30s down=10s",
            [
                ("member-0", 0, 60, False),
                ("member-0", 70, 100, False),
                ("member-0", 110, None, False),
            ],
        ),
    ],
)
def test_events(event: str, expected: list[object]) -> None:
    assert lives(event) == expected


def test_a_lost_node_closes_no_connection_and_a_pause_is_none_of_an_end() -> None:
    found = history("node-lost member=0 at=60s back=9s host=new", "pause member=1 at=50s for=7s")
    first, second, third, again = found.lives
    assert (first.is_cut_off, first.client) == (True, again.client)
    assert first.host != again.host
    assert (second.pauses, third.pauses) == ([(50 * S, 57 * S)], [])


def test_events_happen_in_the_order_of_their_times() -> None:
    assert lives("scale-down by=1 at=90s", "scale-up by=1 at=60s") == [("member-3", 60, 90, True)]


def test_heartbeats_of_members_come_at_different_times() -> None:
    found = history()
    offsets = {(each.start_ms + each.beat_offset_ms) % 3_000 for each in found.lives}
    assert len(offsets) == len(found.lives)


def test_all_keys_are_read() -> None:
    text = """\
title = "one"
protocol = "cooperative"
session = "10s"
heartbeat = "1s"
rebalance_timeout = "1min"
rejoin = "200ms"
beats = "together"
initial_delay = "0ms"
lasts = "5min"
grace = "30s"
reserve = "lost"
match = "host,client.id"
window = "4s"
spares = 2"""
    found = read_history("x", SMALL + text, {"window": "5s", "partitions": "7"})
    behaviour, timing = found.behaviour, found.timing
    assert (found.title, behaviour.is_cooperative, behaviour.partitions) == ("one", True, 7)
    assert (timing.session_ms, timing.heartbeat_ms, timing.lasts_ms) == (10 * S, S, 300 * S)
    assert (timing.rebalance_timeout_ms, behaviour.rejoin_ms) == (60 * S, 200)
    assert (behaviour.initial_delay_ms, behaviour.beats_anew) == (0, True)
    assert (found.grace_ms, found.reserve_on, found.window_ms) == (30 * S, {"lost"}, 5 * S)
    assert (found.seat_match, found.spares) == ("client.id,host", 2)
    assert {each.session_timeout_ms for each in found.lives} == {10 * S}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("members = ", "no TOML: "),
        ("partitions = 3", "members is missing"),
        (f"{SMALL}memebrs = 3", "unknown key 'memebrs'"),
        (f"{SMALL}session = 45", "session: '45' is no duration such as 45s"),
        (f"{SMALL}session = '0s'", "session: must be more than 0"),
        (f"{SMALL}session = '3s'", "heartbeat must be shorter than session"),
        (f"{SMALL}session = true", "session: a text or a whole number"),
        (f"{SMALL}grace = '31min'", "grace: 31min is more than 30min"),
        (f"{SMALL}match = 'pod'", "match: 'pod' is none of"),
        (f"{SMALL}reserve = ''", "reserve: '' is not lost, left"),
        (f"{SMALL}protocol = 'sticky'", "protocol: 'sticky' is neither"),
        (f"{SMALL}beats = 'never'", "beats: 'never' is neither apart nor together"),
        (f"{SMALL}spares = 0", "spares: '0' is no whole number"),
        ("members = 3\npartitions = 0", "partitions: '0' is no whole number"),
        ("members = 10001\npartitions = 1", "members: '10001' is no whole number from 1 to 10000"),
        (f"{SMALL}events = 'restart'", "events: a list of texts"),
        (f"{SMALL}events = [3]", "events: a list of texts"),
        (f"{SMALL}events = ['']", "event '': unknown event ''"),
        (f"{SMALL}events = ['explode member=1 at=3s']", "unknown event 'explode'"),
        (f"{SMALL}events = ['kill member=1 ad=3s']", "'ad=3s' is not one of the words of kill"),
        (f"{SMALL}events = ['kill member=1 at=3s at=4s']", "'at=4s' is not one of the words"),
        (f"{SMALL}events = ['kill member=1']", "kill needs at="),
        (f"{SMALL}events = ['kill member=2-1 at=3s']", "'2-1' is no member such as 3"),
        (f"{SMALL}events = ['kill member=7 at=3s']", "member 7 does not exist at 3 s"),
        (f"{SMALL}events = ['kill member=1 at=4s', 'kill member=1 at=5s']", "not running at 5 s"),
        (f"{SMALL}events = ['scale-down by=4 at=5s']", "no member runs at 5 s"),
        (f"{SMALL}events = ['kill member=1 at=2h']", "the history ends before, after 1200 s"),
        (f"{SMALL}events = ['restart member=1 at=5s down=1s leave=maybe']", "'maybe' is none of"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, problem: str) -> None:
    with pytest.raises(BadHistory) as raised:
        read_history("x", text)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_history_that_comes_with_the_program_is_read() -> None:
    for name in BUILT_IN:
        found = read_history(name, text_of(name))
        assert found.title != name
        assert found.behaviour.partitions == 60
    with pytest.raises(KeyError):
        text_of("../described")


# ---------------------------------------------------------------- what it costs


def test_an_eager_restart_is_two_rebalances_and_a_kept_place_none() -> None:
    event = "restart member=1 at=60s down=20s"
    eager, kept = measured("eager", event), measured("eager+II", event)
    assert (eager.rebalances, kept.rebalances) == (2, 0)
    assert (kept.unavailable_s, kept.reserved_s) == (40, 40)
    lost_only = measured("eager+II", event, more='reserve = "lost"')
    assert lost_only == eager
    assert measured("static", event).unavailable_s == 40


def test_cooperative_is_what_the_design_or_else_the_history_says() -> None:
    event = "scale-up by=1 at=60s"
    assert measured("I", event).rebalances == 2
    assert measured("eager", event, more='protocol = "cooperative"').rebalances == 1
    assert measured("static", event, more='protocol = "cooperative"').rebalances == 2


def test_spares_are_in_addition_to_the_members() -> None:
    found = measured("standby", "kill member=0-1 at=60s", more="spares = 2")
    assert (found.rebalances, found.asks, found.moved, found.moved_most) == (0, 2, 4, 2)
    one = measured("standby", "kill member=0-1 at=60s every=10s")
    assert (one.rebalances, one.asks) == (1, 1)


def test_a_window_is_as_long_as_the_history_says() -> None:
    event = "scale-up by=2 at=60s every=8s"
    assert measured("window", event).rebalances == 1
    assert measured("window", event, more='window = "3s"').rebalances == 2


def test_a_step_is_as_large_as_the_history_says() -> None:
    event, large = "scale-up by=1 at=60s", "partitions = 60"
    small = read_history("x", f"members = 3\n{large}\nevents = ['{event}']")
    found = simulate(small, DESIGNS["III"])
    assert (found.rebalances, found.moved, found.moved_most) == (0, 15, 5)
    one = read_history("x", f"members = 3\n{large}\nstep = 1\nevents = ['{event}']")
    slow = simulate(one, DESIGNS["III"])
    assert (slow.moved, slow.moved_most) == (15, 1)
    assert slow.imbalance_s > found.imbalance_s


def test_heartbeats_that_come_together_make_an_eager_rebalance_short() -> None:
    event = "restart member=1 at=60s down=20s"
    apart, together = measured("eager", event), measured("eager", event, more='beats = "together"')
    assert (apart.rebalances, together.rebalances) == (2, 2)
    assert together.unavailable_s < apart.unavailable_s
    # The first rebalance of the history comes after a long time.
    first = "stop member=1 at=60s"
    assert measured("eager", first, more='beats = "together"') == measured("eager", first)


def test_a_slow_application_makes_an_eager_rebalance_longer() -> None:
    event = "kill member=0 at=60s"
    quick, slow = measured("eager", event), measured("eager", event, more='rejoin = "10s"')
    assert slow.unavailable_s > quick.unavailable_s
