import re
from collections.abc import Iterator

import pytest

from tests.suites.checks import UnmetError, wait_for
from tests.suites.kafka_checks import CLASSES, Check, Checks
from tests.suites.verifiable import Ownership

OF_EMPTY = """
Consumer group 'readers' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CLIENT-ID
readers         letters         0          20              20              0               -
"""
CHECKS = Checks()
ASSIGNED = '{"name":"partitions_assigned","partitions":[{"topic":"t","partition":%d}]}'
REVOKED = '{"name":"partitions_revoked","partitions":[{"topic":"t","partition":%d}]}'


def every_check() -> Iterator[Check]:
    yield from (*CHECKS.topics(), *CHECKS.empty_group(), *CHECKS.ends(), CHECKS.log())
    yield from (*CHECKS.of_two_members("pair"), *CHECKS.of_static_members("static"))
    yield CHECKS.reading("reads", 0)


def test_every_check_has_a_name_a_tool_and_expressions_that_compile() -> None:
    every = list(every_check())
    assert len({each.name for each in every}) == len(every)
    for each in every:
        assert each.tool in CLASSES
        assert each.name.startswith(f"{each.tool}: ")
        assert [re.compile(says) for says in each.says]


def test_what_is_said_is_found() -> None:
    assert CHECKS.empty_group()[0].unsaid(OF_EMPTY) == []


def test_what_is_not_said_is_named() -> None:
    behind = OF_EMPTY.replace(
        "20              20              0 ", "19              20              1 "
    )
    assert CHECKS.empty_group()[0].unsaid(behind) == [CHECKS.empty_group()[0].says[1]]


def test_a_longer_number_is_another_number() -> None:
    row = CHECKS.empty_group()[1].says[0]
    assert re.search(row, "readers  letters  0  0  ", re.MULTILINE)
    assert not re.search(row, "readers  letters  0  05 ", re.MULTILINE)


def test_a_list_of_one_state_holds_no_group_of_another() -> None:
    (check,) = [each for each in CHECKS.of_two_members("pair") if "one state" in each.name]
    table = "GROUP   STATE\npair    Stable\n"
    assert check.unsaid(table) == []
    assert check.unsaid(f"{table}readers Empty\n") != []


def test_a_consumer_owns_what_it_was_assigned_and_has_not_given_up() -> None:
    consumer = Ownership()
    for line in ("SLF4J: hello", "{}", ASSIGNED % 0, ASSIGNED % 1, REVOKED % 0, "[]"):
        consumer.hear(line)
    assert consumer.owned == {1}
    assert (consumer.assigned, consumer.revoked) == ([{0}, {1}], [{0}])


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(UnmetError, match="not within 0 s: rain"):
        wait_for(lambda: False, "rain", seconds=0)
