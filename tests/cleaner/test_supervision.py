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
    now = 0.0
    while now < seconds:
        now += STEP_S
        signs = int(now / every) if every else 0
        watched.look(now, signs, now * share, ready=ready)
    return watched


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


def test_a_raised_priority_stays_for_a_while() -> None:
    priorities = Priorities()
    assert priorities.at(5000.0) is Priority.IDLE
    priorities.raise_to(Priority.NORMAL, 5000.0)
    assert priorities.at(5000.0 + RELAX_S - 1) is Priority.NORMAL
    assert priorities.at(5000.0 + RELAX_S) is Priority.IDLE
