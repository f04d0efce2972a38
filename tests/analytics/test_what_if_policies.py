"""What a replay does under the policies of a group, and what it measures."""

from dataclasses import replace
from random import Random

import pytest

from groupkeeper.analytics.what_if.behaviour import Behaviour
from groupkeeper.analytics.what_if.lives import Life
from groupkeeper.analytics.what_if.measures import Measures
from groupkeeper.analytics.what_if.replay import Outcome, ReplaySettings, replay
from groupkeeper.coordinator.policy import ANY, BY_CLIENT, LEFT, LOST, Policy

S = 1_000
HOUR = 3_600 * S
OFF = Policy()
GRACE = Policy(grace_ms=60 * S)
EIGHT = Behaviour(partitions=8)


def process(name: str, start: int = 0, end: int | None = None, *, leaves: bool = False) -> Life:
    return Life(name, None, name, f"host-{name}", start, end, leaves)


def others(number: int = 3) -> list[Life]:
    """Members that run all the time: `b`, `c` and so on."""
    return [process(chr(ord("b") + each), each * 100) for each in range(number)]


def killed(away: int | None) -> list[Life]:
    """`a` is killed, and back after a time; others go on."""
    back = [] if away is None else [process("a", 100 * S + away)]
    return [process("a", 50, 100 * S), *others(), *back]


def run(lives: list[Life], policy: Policy = OFF, **changed: bool) -> Outcome:
    ordered = sorted(lives, key=lambda life: life.start_ms)
    return replay(ordered, EIGHT, ReplaySettings(policy=policy, **changed), HOUR)


# ---------------------------------------------------------------- places that are kept


def test_a_member_that_is_back_within_the_grace_costs_no_rebalance() -> None:
    outcome = run(killed(away=75 * S), GRACE)
    assert (outcome.rounds, outcome.moved, outcome.replaced, outcome.rejoins) == (1, 0, 1, 0)
    assert outcome.unread_ms == 2 * 75 * S
    assert outcome.reserved_ms == 2 * 30 * S  # from the end of the session on
    without = run(killed(away=75 * S))
    assert (without.rounds, without.reserved_ms) == (3, 0)
    assert without.rejoins == 2 * 3


def test_a_killed_process_need_not_wait_for_its_own_session() -> None:
    outcome = run(killed(away=20 * S), GRACE)
    assert (outcome.rounds, outcome.unread_ms, outcome.reserved_ms) == (1, 2 * 20 * S, 0)


def test_a_host_that_vanished_leaves_its_connection_open() -> None:
    """Nobody can take the place before the session ends; then its client is back already."""
    first, *rest = killed(away=20 * S)
    cut = replace(first, is_cut_off=True)
    outcome = run([cut, *rest], GRACE)
    assert (outcome.rounds, outcome.reserved_ms) == (2, 0)
    assert outcome.unread_ms == run([cut, *rest]).unread_ms


def test_a_paused_client_comes_back_to_its_place() -> None:
    paused = process("a")
    paused.pauses = [(100 * S, 175 * S)]
    outcome = run([paused, *others()], GRACE)
    assert (outcome.rounds, outcome.moved, outcome.reserved_ms) == (1, 0, 2 * 30 * S)


def test_a_place_for_which_nobody_comes_is_kept_in_vain() -> None:
    kept, not_kept = run(killed(away=None), GRACE), run(killed(away=None))
    assert kept.rounds == not_kept.rounds == 2
    assert kept.reserved_ms == 2 * 60 * S
    assert kept.unread_ms - not_kept.unread_ms == pytest.approx(2 * 60 * S, abs=8 * 3 * S)
    assert (not_kept.detections, kept.detections) == ([45 * S], [105 * S])


def test_who_leaves_is_waited_for_only_if_the_policy_says_so() -> None:
    lives = [process("a", 50, 100 * S, leaves=True), *others(), process("a", 120 * S)]
    assert run(lives, GRACE).rounds == 3
    outcome = run(lives, replace(GRACE, reserve_on=frozenset({LOST, LEFT})))
    assert (outcome.rounds, outcome.reserved_ms) == (1, 2 * 20 * S)


@pytest.mark.parametrize(("match", "rounds"), [(BY_CLIENT, 1), (ANY, 1), (None, 3)])
def test_a_pod_has_another_host(match: object, rounds: int) -> None:
    lives = killed(away=75 * S)
    lives[-1].host = "another"
    policy = GRACE if match is None else replace(GRACE, seat_match=match)
    assert run(lives, policy).rounds == rounds


def test_a_kept_place_has_its_share_in_another_rebalance() -> None:
    newcomers = [process(f"n{each}", 160 * S) for each in range(4)]
    lives = [*others(4), *newcomers, process("c", 200 * S)]
    lives[1].end_ms = 100 * S
    for is_cooperative in (False, True):
        outcome = run(lives, GRACE, is_cooperative=is_cooperative)
        assert (outcome.replaced, outcome.generations) == (1, 3 if is_cooperative else 2)
        # Two of eight until there are eight members, and one from then on.
        assert outcome.reserved_ms == pytest.approx((2 * 15 + 1 * 40) * S, abs=2 * 3 * S)


# ---------------------------------------------------------------- spares, and a window


def test_a_spare_takes_over_without_a_rebalance() -> None:
    lives = [*killed(away=75 * S), process("spare", 1_000)]
    outcome = run(lives, Policy(target_size=4))
    assert (outcome.rounds, outcome.asks, outcome.rejoins) == (1, 1, 1)
    assert outcome.moved == 2
    assert outcome.unread_ms == pytest.approx(2 * 45 * S, abs=2 * 3 * S)


def test_partitions_of_two_lost_members_move_one_after_the_other() -> None:
    lives = [*killed(away=75 * S), process("spare", 1_000), process("d", 0, 400 * S)]
    lives = [each for each in lives if each.client != "d" or each.end_ms]
    outcome = run(lives, Policy(target_size=4))
    assert (outcome.rounds, outcome.asks, outcome.moved, outcome.moved_most) == (1, 2, 4, 2)


def test_spares_are_meant_to_be_idle() -> None:
    lives = [process("a"), *others(), process("spare", 1_000)]
    assert run(lives, Policy(target_size=4)).imbalance_ms == 0
    assert run(lives, Policy(target_size=5)).imbalance_ms == 0  # eight among five
    late = [process("a"), *others(), process("e", 100 * S)]
    assert run(late, Policy(target_size=5, window_ms=30 * S)).imbalance_ms >= 30 * S


def test_a_member_that_was_asked_is_at_rest_again() -> None:
    """Its next JoinGroup is one like any other."""
    lives = [*killed(away=None), process("spare", 1_000)]
    behaviour = replace(EIGHT, changes=((300 * S, "spare"),))
    settings = ReplaySettings(policy=Policy(target_size=4))
    lives.sort(key=lambda life: life.start_ms)
    assert replay(lives, behaviour, settings, HOUR).rounds == 2


def test_newcomers_of_a_window_share_a_rebalance() -> None:
    lives = [*others(), *(process(f"n{each}", 100 * S + each * 4 * S) for each in range(4))]
    assert run(lives).rounds == 5
    outcome = run(lives, Policy(window_ms=10 * S))
    assert outcome.rounds == outcome.generations == 2
    # From the first of them to the end of the window: 3 or 2 partitions, or none.
    assert outcome.imbalance_ms == pytest.approx(2 * 22 * S, abs=2 * 4 * S)


def test_the_server_moves_a_few_partitions_at_a_time() -> None:
    lives = [*others(2), process("n", 100 * S)]
    steps = Policy(remote_assignor="uniform", step_partitions=1)
    for is_cooperative in (False, True):
        outcome = run(lives, steps, is_cooperative=is_cooperative)
        assert (outcome.rounds, outcome.moved) == (1, 2)
        assert outcome.moved_most == 1
        assert outcome.unread_ms <= 2 * 2 * 3_000
    without = run(lives)
    assert (without.rounds, without.moved > 2) == (2, True)


def test_quiet_weeks_of_an_assignment_by_the_server_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupkeeper.analytics.what_if.replay.MOST_STEPS", 500)
    settings = ReplaySettings(policy=Policy(remote_assignor="uniform"))
    outcome = replay(killed(away=75 * S), EIGHT, settings, 14 * 24 * HOUR)
    assert (outcome.rounds, outcome.moved) == (1, 4)


# ---------------------------------------------------------------- whatever happens

LEFT_TOO = frozenset({LOST, LEFT})
POLICIES = (
    Policy(grace_ms=60 * S, reserve_on=LEFT_TOO),
    Policy(grace_ms=60 * S, reserve_on=LEFT_TOO, seat_match=ANY),
    Policy(target_size=3),
    Policy(window_ms=10 * S),
    Policy(min_interval_ms=30 * S),
    Policy(remote_assignor="uniform", step_partitions=5),
    Policy(60 * S, LEFT_TOO, BY_CLIENT, 10 * S, 30 * S, 3),
)


def anything(random: Random) -> list[Life]:
    """An hour of up to nine clients that come and go, some of which look alike."""
    found = []
    for number in range(random.randint(2, 9)):
        name, at = f"c{number}", random.randint(0, 20 * S)
        client_id = name if random.random() < 0.7 else "app"
        while at < 3_000 * S:
            end = at + random.choice([random.randint(5, 60), random.randint(60, 900), 5_000]) * S
            life = Life(name, None, client_id, "h", at, end, leaves=random.random() < 0.5)
            life.is_cut_off = random.random() < 0.3
            found.append(life)
            at = end + random.choice([random.randint(0, 5), random.randint(5, 300)]) * S
    return sorted(found, key=lambda life: life.start_ms)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_partition_is_read_by_two_members_that_live(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = []

    def reads(self: Measures, client: object, numbers: list[int], share: int | None) -> None:
        real(self, client, numbers, share)
        most.append(max(self._readers._count))

    real = Measures.reads
    monkeypatch.setattr(Measures, "reads", reads)
    for seed in range(12):
        lives = anything(Random(seed))
        for is_cooperative in (False, True):
            settings = ReplaySettings(policy=policy, is_cooperative=is_cooperative)
            outcome = replay(lives, Behaviour(partitions=20), settings, HOUR)
            assert outcome.reserved_ms <= outcome.unread_ms
    assert max(most) == 1


# ---------------------------------------------------------------- measures


def test_what_comes_back_to_a_client_has_not_moved() -> None:
    lives = [process("a", 50, 100 * S, leaves=True), *others(1), process("a", 120 * S)]
    for is_cooperative in (False, True):
        outcome = run(lives, is_cooperative=is_cooperative)
        assert (outcome.moved, outcome.moved_most) == (8, 4)
        static = run(lives, is_static=True, is_cooperative=is_cooperative)
        assert static.moved == 0


def test_who_wakes_from_a_pause_moves_nothing_to_itself() -> None:
    paused = process("a", 50)
    paused.pauses = [(100 * S, 160 * S)]
    assert run([paused, *others(1)]).moved == 8  # to the other one, and back


def test_a_partition_that_two_clients_have_hides_none_that_nobody_has() -> None:
    """A client that is too busy to rejoin is removed, and reads what another one has by then."""
    lives = [process("a"), *others(2), process("d", 100 * S, 150 * S)]
    behaviour = Behaviour(partitions=9, busy={"a": [(99 * S, 200 * S)]})
    settings = ReplaySettings(rebalance_timeout_ms=20 * S)
    outcome = replay(lives, behaviour, settings, HOUR)
    # `d` is killed, and noticed after 45 s.
    assert outcome.unread_ms >= 3 * 45 * S


def test_rejoins_are_of_members_that_did_nothing() -> None:
    changed = replace(EIGHT, changes=((100 * S, "b"),))
    assert replay(others(), changed, ReplaySettings(), HOUR).rejoins == 2
    lives = [*others(), process("n", 100 * S)]
    assert run(lives).rejoins == 3
    outcome = run(lives, is_cooperative=True)
    assert outcome.generations == 3
    assert outcome.rejoins == 3 + 4  # the second round is of all
