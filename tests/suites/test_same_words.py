"""What the comparison with Kafka's tools takes for the same."""

import re

from tests.suites.same_words import REFUSALS, VIEWS, rows, tables, words

KAFKAS = """
Consumer group 'emptied' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET
emptied         receipts        0          1
emptied         parcels         0          3

GROUP           COORDINATOR (ID)          STATE
emptied         127.0.0.1:25742  (0)      Empty
""".splitlines()


def test_rows_have_their_headings_and_no_order() -> None:
    ours = [line for line in KAFKAS if "receipts" not in line]
    ours.insert(5, "emptied receipts 0 1")
    assert tables(ours) == tables(KAFKAS)
    assert len(tables(KAFKAS)) == 3
    assert tables([line.replace("OFFSET", "END") for line in KAFKAS]) != tables(KAFKAS)


def test_a_row_more_or_another_number_is_a_difference() -> None:
    assert tables(KAFKAS[:5]) != tables(KAFKAS)
    assert tables([line.replace("  3", "  4") for line in KAFKAS]) != tables(KAFKAS)


def test_lines_without_headings_are_compared_without_noise() -> None:
    assert words(["one two", "  at a.b(C.java:1)"]) == words(["one  two", ""])
    assert rows(["one", "two"]) == {("one",), ("two",)}


def test_every_comparison_has_a_name_of_its_own_and_expressions_that_compile() -> None:
    names = [each.name for each in (*VIEWS, *REFUSALS)]
    assert len(set(names)) == len(names)
    for each in REFUSALS:
        assert re.compile(each.told)
        assert re.compile(each.says)
