"""Lines about what clients repeat."""

from groupkeeper.observe.seldom import SELDOM_S, SUBJECTS, Seldom


def test_a_line_and_then_how_often_it_happened_since() -> None:
    now = [0.0]
    seldom = Seldom(lambda: now[0])
    assert [seldom.due("a") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert seldom.due("b") == 1
    now[0] = SELDOM_S
    assert [seldom.due("a") for _ in range(2)] == [5, 0]


def test_another_interval_can_be_given() -> None:
    now = [0.0]
    seldom = Seldom(lambda: now[0], interval_s=1.0)
    assert [seldom.due("a") for _ in range(2)] == [1, 0]
    now[0] = 1.0
    assert seldom.due("a") == 2


def test_subjects_are_forgotten_the_oldest_line_first() -> None:
    seldom = Seldom(lambda: 0.0)
    for number in range(SUBJECTS + 1):
        assert seldom.due(number) == 1
    assert (seldom.due(SUBJECTS), seldom.due(0)) == (0, 1)
