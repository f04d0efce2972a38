"""The tables of a driver's states."""

from groupkeeper.groups.driver_life import ANSWERS, TRANSITIONS, DriverState
from groupkeeper.observe.exposition import PARTITION_STATES
from groupkeeper.protocol.errors import ErrorCode


def test_every_state_has_its_rows() -> None:
    assert set(ANSWERS) == set(TRANSITIONS) == set(DriverState)


def test_every_state_is_a_label_of_the_metric() -> None:
    assert sorted(PARTITION_STATES) == sorted(DriverState)


def test_only_an_active_partition_decides() -> None:
    deciding = [state for state, answers in ANSWERS.items() if answers.new == ErrorCode.NONE]
    assert deciding == [DriverState.ACTIVE]


def test_a_process_that_ends_ends_every_driver_and_an_absent_one_comes_back_with_no_other() -> None:
    for state in DriverState:
        expected = state is not DriverState.DRAINING
        assert (DriverState.DRAINING in TRANSITIONS[state]) == expected
    assert TRANSITIONS[DriverState.ABSENT] == (DriverState.DRAINING,)
