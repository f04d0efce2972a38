"""Logins as on Apache Kafka 4.1, message by message: its answers are recorded in `kafka.json`."""

import pytest

from tests.access.conversations import CASES, Talk, recorded
from tests.access.record import SocketLine
from tests.access.secured import Secured


def test_every_conversation_is_recorded() -> None:
    assert recorded().keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_conversation_is_that_of_kafka(secured: Secured, name: str) -> None:
    listener, play = CASES[name]
    line = SocketLine(secured.ports[listener])
    talk = Talk(line)
    play(talk)
    line.close()
    assert talk.heard == recorded()[name]
