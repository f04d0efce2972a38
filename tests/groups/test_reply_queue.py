"""Answers that become free together leave a few at a time, each once."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from groupkeeper.groups.reply_queue import REPLIES_AT_ONCE, ReplyQueue
from groupkeeper.turns import Turns
from tests.support.requests import join_request
from tests.support.served import Client, Served, settle


class Answered:
    def __init__(self, told: list[int], number: int) -> None:
        self._told, self._number = told, number

    def answer(self, response: Any) -> None:
        if response is None:
            raise RuntimeError("a bug")
        self._told.append(self._number)


def replies(told: list[int], count: int, first: int = 0) -> list[tuple[Answered, Any]]:
    return [(Answered(told, number), "yes") for number in range(first, first + count)]


async def test_a_few_leave_at_once() -> None:
    told: list[int] = []
    ReplyQueue(Turns()).send(replies(told, REPLIES_AT_ONCE))
    assert told == list(range(REPLIES_AT_ONCE))


async def test_many_leave_in_slices_in_their_order() -> None:
    told: list[int] = []
    seen: list[int] = []
    count = 10 * REPLIES_AT_ONCE
    queue = ReplyQueue(Turns())
    queue.send(replies(told, count))
    while len(told) < count:
        seen.append(len(told))
        await asyncio.sleep(0)
    assert told == list(range(count))
    assert max(b - a for a, b in pairwise(seen)) <= REPLIES_AT_ONCE


async def test_what_several_partitions_release_counts_together() -> None:
    told: list[int] = []
    queue = ReplyQueue(Turns())
    for partition in range(50):
        queue.send(replies(told, 30, 30 * partition))
    assert len(told) == REPLIES_AT_ONCE


@pytest.mark.parametrize(("count", "failing"), [(20, 3), (200, 150)])
async def test_an_answer_that_fails_costs_the_others_nothing(count: int, failing: int) -> None:
    """One that leaves at once, and one of a later slice."""
    told: list[int] = []
    queue = ReplyQueue(Turns())
    some = replies(told, count)
    some[failing] = (some[failing][0], None)
    queue.send(some)
    queue.flush()
    assert told == [*range(failing), *range(failing + 1, count)]


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many answers waited at the beginning of each slice."""
    found: list[int] = []
    go_on = ReplyQueue._go_on

    def spied(queue: ReplyQueue) -> None:
        found.append(len(queue.waiting))
        go_on(queue)

    monkeypatch.setattr(ReplyQueue, "_go_on", spied)
    return found


def test_a_round_of_very_many_commits_is_answered_in_slices(
    served: Served, slices: list[int]
) -> None:
    clients = [served.client() for _ in range(300)]
    served.at_once({each: each.commit_frame(n, f"g{n}") for n, each in enumerate(clients)})
    assert [each.committed() for each in clients] == [0] * 300
    assert slices == [236, 172, 108, 44]
    served.check_accounts()


def test_a_partition_that_closes_meanwhile_does_not_answer_twice(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [served.client() for _ in range(200)]
    go_on, failed = ReplyQueue._go_on, []

    def closing(queue: ReplyQueue) -> None:
        served.check_accounts()
        if not failed:
            failed.append(1)
            served.fail()
        go_on(queue)

    monkeypatch.setattr(ReplyQueue, "_go_on", closing)
    served.at_once({each: each.commit_frame(n) for n, each in enumerate(clients)})
    assert [each.committed() for each in clients] == [0] * 200
    assert failed


def joining(served: Served) -> list[Client]:
    """Clients whose joins wait for the member that is there."""
    waiting = [served.client() for _ in range(200)]
    for each in waiting:
        each.send(3, join_request("g"))
    served.advance(0.5)
    return waiting


def test_a_partition_that_closes_dismisses_very_many_in_slices(
    served: Served, slices: list[int]
) -> None:
    member_id, generation = settle(served.client())
    waiting = joining(served)

    async def fail() -> None:
        served.fail()

    served.run(fail())
    assert {each.take().error_code for each in waiting} == {16}
    assert slices == [136, 72, 8]
    assert served.client().beat(member_id, generation) == 0


def test_a_stop_answers_all_that_wait(served: Served) -> None:
    settle(served.client())
    waiting = joining(served)
    served.stop()
    assert {each.take().error_code for each in waiting} == {16}
