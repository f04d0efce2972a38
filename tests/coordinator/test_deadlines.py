"""Timers as data."""

from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.coordinator.deadlines import (
    SLACK,
    STALE_AT_ONCE,
    STALE_CHARACTERS,
    Deadlines,
    Timer,
    TimerKind,
)

A, B, C = (Timer(TimerKind.SESSION, "g", name) for name in "abc")


def popped(deadlines: Deadlines, now: int) -> list[Timer]:
    taken = []
    while (timer := deadlines.pop(now)) is not None:
        taken.append(timer)
    return taken


def test_timers_come_up_in_the_order_of_their_time() -> None:
    deadlines = Deadlines()
    for timer, at in ((B, 20), (C, 30), (A, 10)):
        deadlines.set(timer, at)
    assert deadlines.next() == 10
    assert popped(deadlines, 25) == [A, B]
    assert deadlines.next() == 30


def test_a_timer_is_due_at_its_time_and_not_before() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 10)
    assert deadlines.pop(9) is None
    assert deadlines.pop(10) == A
    assert deadlines.next() is None


def test_a_timer_moves_both_ways() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 10)
    deadlines.set(A, 50)
    assert deadlines.next() == 50
    deadlines.set(A, 20)
    assert deadlines.next() == 20


def test_moving_the_truth_later_is_enough() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 10)
    deadlines.due[A] = 99
    assert popped(deadlines, 98) == []
    assert popped(deadlines, 99) == [A]


def test_a_cancelled_timer_never_comes_up_and_may_be_set_again() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 10)
    deadlines.cancel(A)
    deadlines.cancel(B)
    assert deadlines.next() is None
    deadlines.set(A, 10)
    assert popped(deadlines, 10) == [A]


def test_cancelled_timers_do_not_pile_up() -> None:
    deadlines = Deadlines()
    for timer, at in ((C, 30), (B, 20), (A, 10)):
        deadlines.set(timer, at)
    for number in range(5 * SLACK):
        timer = Timer(TimerKind.SESSION, "g", str(number))
        deadlines.set(timer, 1_000_000)
        deadlines.cancel(timer)
    assert len(deadlines.heap) <= 2 * SLACK
    assert popped(deadlines, 25) == [A, B]


def test_very_many_stale_entries_are_passed_over_a_few_at_a_time() -> None:
    deadlines = Deadlines()
    for number in range(3 * STALE_AT_ONCE):
        deadlines.set(Timer(TimerKind.SESSION, "g", str(number)), 10)
        deadlines.due[Timer(TimerKind.SESSION, "g", str(number))] = 50
    assert [deadlines.next() for _ in range(2)] == [10, 10], "a lower bound"
    assert deadlines.pop(10) is None
    assert deadlines.next() == 50


MOVES = st.tuples(
    st.sampled_from(["set", "cancel", "pop"]), st.sampled_from([A, B, C]), st.integers(0, 9)
)


@given(st.lists(MOVES, max_size=40))
def test_it_agrees_with_a_plain_dictionary(moves: list[tuple[str, Timer, int]]) -> None:
    deadlines, model = Deadlines(), dict[Timer, int]()
    for move, timer, at in moves:
        if move == "set":
            deadlines.set(timer, at)
            model[timer] = at
        elif move == "cancel":
            deadlines.cancel(timer)
            model.pop(timer, None)
        else:
            due = min(model.values(), default=99)
            taken = deadlines.pop(at)
            assert (taken is not None) == (due <= at)
            if taken is not None:
                assert model.pop(taken) == due
        first = min(model.values(), default=99)
        assert deadlines.is_before(first + 1) or not model, "never False in error"
        assert deadlines.next() == (first if model else None)
        assert not deadlines.is_before(first), "exact once it has looked"
        assert deadlines.due == model


def test_cancelled_timers_with_long_ids_leave_the_heap() -> None:
    deadlines = Deadlines()
    deadlines.set(A, 10)
    for number in range(500):
        timer = Timer(TimerKind.PENDING_MEMBER, f"{number}".ljust(30_000, "x"), "m")
        deadlines.set(timer, 1_000_000)
        deadlines.cancel(timer)
    held = sum(len(timer.group_id) for _, timer in deadlines.heap)
    assert held <= 2 * STALE_CHARACTERS
    assert popped(deadlines, 2_000_000) == [A]
