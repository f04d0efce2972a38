"""Several replies that make one."""

from typing import Any

import pytest

from groupkeeper.server.gather import Gather


class Client:
    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, response: Any) -> None:
        self.answers.append(response)


def gather(parts: int) -> tuple[Client, Gather]:
    client = Client()
    return client, Gather(client, parts, "+".join)


def test_the_answer_waits_for_the_last_part() -> None:
    client, gathered = gather(3)
    gathered.part(0).answer("a")
    gathered.part(1).answer("b")
    assert client.answers == []
    gathered.part(2).answer("c")
    assert client.answers == ["a+b+c"]


def test_replies_are_merged_in_the_order_of_the_parts() -> None:
    client, gathered = gather(3)
    for index in (2, 0, 1):
        gathered.part(index).answer("abc"[index])
    assert client.answers == ["a+b+c"]


def test_a_part_that_is_answered_twice_is_a_bug() -> None:
    _, gathered = gather(2)
    gathered.part(0).answer("a")
    with pytest.raises(AssertionError):
        gathered.part(0).answer("a")
