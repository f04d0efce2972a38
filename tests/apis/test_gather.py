"""Several replies that make one."""

from functools import partial
from typing import Any

import pytest

from groupkeeper.apis.gather import Gather, MappedReply


class Client:
    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, response: Any) -> None:
        self.answers.append(response)


def gather(parts: int) -> tuple[Client, list[str], Gather]:
    client, replies = Client(), [""] * parts
    return client, replies, Gather(client, parts, lambda: "+".join(replies))


def test_the_answer_waits_for_the_last_part() -> None:
    client, replies, gathered = gather(3)
    parts = [gathered.part(partial(replies.__setitem__, index)) for index in range(3)]
    parts[2].answer("c")
    parts[0].answer("a")
    assert client.answers == []
    parts[1].answer("b")
    assert client.answers == ["a+b+c"]


def test_a_part_that_is_answered_twice_is_a_bug() -> None:
    _, replies, gathered = gather(2)
    part = gathered.part(replies.append)
    part.answer("a")
    with pytest.raises(AssertionError):
        part.answer("a")


def test_an_answer_is_changed_before_it_leaves() -> None:
    client = Client()
    MappedReply(client, str.upper).answer("a")
    assert client.answers == ["A"]
