"""When a compaction gets a higher priority, and when it is given up. No clock: times are given."""

import pytest

from groupkeeper.cleaner.supervision import (
    HUNG_S,
    RELAX_S,
    STARVED_S,
    STARVED_SHARE,
    Priorities,
    Priority,
    Supervision,
)

STEP_S = 0.5


def ran(seconds: float, *, share: float, ready: bool, every: float | None = None) -> Supervision:
    """A compaction that ran so long with this share of a processor, waiting for one or not, and
    with a sign of life after each `every` seconds.
    """
    watched = Supervision(0.0)
    goes_on(watched, 0.0, seconds, share=share, ready=ready, every=every)
    return watched


def goes_on(
    watched: Supervision,
    now: float,
    until: float,
    *,
    share: float,
    ready: bool,
    cpu_s: float = 0.0,
    every: float | None = None,
) -> None:
    """The same from `now` on, when it had been given `cpu_s`."""
    began = now
    while now < until:
        now += STEP_S
        signs = int(now / every) if every else 0
        watched.look(now, signs, cpu_s + (now - began) * share, ready=ready)


def test_a_compaction_without_a_processor_starves() -> None:
    assert ran(STARVED_S, share=0.003, ready=True).is_starved(STARVED_S)
    assert not ran(STARVED_S - 1, share=0.003, ready=True).is_starved(STARVED_S - 1)


def test_one_that_computes_does_not() -> None:
    assert not ran(100, share=STARVED_SHARE + 0.1, ready=True).is_starved(100)


def test_one_that_waits_for_the_disk_does_not() -> None:
    assert not ran(100, share=0.01, ready=False).is_starved(100)


@pytest.mark.parametrize("ready", [True, False])
def test_a_slow_one_that_gets_on_is_never_given_up(ready: bool) -> None:
    end = 10 * HUNG_S
    assert not ran(end, share=0.01, ready=ready, every=HUNG_S - 20).is_hung(end)


def test_a_silent_one_is_given_up_unless_it_waits_for_a_processor() -> None:
    assert not ran(HUNG_S - 1, share=0.0, ready=False).is_hung(HUNG_S - 1)
    assert ran(HUNG_S, share=0.0, ready=False).is_hung(HUNG_S)
    assert ran(HUNG_S, share=1.0, ready=True).is_hung(HUNG_S), "a loop without an end"
    assert not ran(HUNG_S, share=0.001, ready=True).is_hung(HUNG_S)


def test_a_sign_of_life_counts_from_when_it_came() -> None:
    watched = ran(60, share=0.5, ready=False, every=50)
    assert not watched.is_hung(50 + HUNG_S - 1)
    assert watched.is_hung(50 + HUNG_S)


def test_one_that_starves_late_is_no_hung_one() -> None:
    """Minutes with the processor to itself say nothing about now."""
    watched = ran(1000, share=0.9, ready=True, every=1)
    goes_on(watched, 1000, 1000 + STARVED_S, share=0.001, ready=True, cpu_s=900)
    assert watched.is_starved(1000 + STARVED_S)
    goes_on(watched, 1000 + STARVED_S, 1000 + HUNG_S, share=0.001, ready=True, cpu_s=900)
    assert not watched.is_hung(1000 + HUNG_S)


def test_one_that_hangs_after_it_starved_is_given_up() -> None:
    watched = ran(100, share=0.001, ready=True)
    goes_on(watched, 100, HUNG_S, share=0.0, ready=False, cpu_s=0.1)
    assert not watched.is_starved(HUNG_S)
    assert watched.is_hung(HUNG_S)


def test_a_time_in_which_nobody_looked_is_not_held_against_it() -> None:
    """The server was stopped as well: at its first look the compaction may still be stopped."""
    watched = ran(100, share=0.5, ready=True)
    frozen = 100 + 2 * HUNG_S
    watched.look(frozen, 0, 50.0, ready=True)
    assert not watched.is_starved(frozen)
    assert not watched.is_hung(frozen)
    goes_on(watched, frozen, frozen + HUNG_S - 101, share=0.0, ready=False, cpu_s=50)
    assert not watched.is_hung(frozen + HUNG_S - 101)
    goes_on(watched, frozen + HUNG_S - 101, frozen + HUNG_S, share=0.0, ready=False, cpu_s=50)
    assert watched.is_hung(frozen + HUNG_S), "the minute before counts"


def test_a_raised_priority_stays_for_a_while() -> None:
    priorities = Priorities()
    assert priorities.at(5000.0) is Priority.IDLE
    priorities.raise_to(Priority.NORMAL, 5000.0)
    assert priorities.at(5000.0 + RELAX_S - 1) is Priority.NORMAL
    assert priorities.at(5000.0 + RELAX_S) is Priority.IDLE
