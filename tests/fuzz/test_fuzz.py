"""A short, fixed piece of the fuzzing; `make fuzz` goes on from there."""

from random import Random

import pytest

from groupkeeper.apis.list_offsets import ListOffsetsHandler
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.registry import APIS, request_decoder, response_encoder
from tests.fuzz.epoch import Epoch, Size, compile_codecs
from tests.fuzz.mutations import mutated, random_bytes
from tests.fuzz.peer import Owed, Peer, Rules
from tests.fuzz.requests import Maker
from tests.fuzz.shrink import outcome, shrink
from tests.fuzz.town import Town
from tests.support.codecs import request_encoder

SMALL = Size(rounds=4, operations=200)

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
"""Of processes that are killed in the middle of something."""


@pytest.fixture(autouse=True)
def _codecs() -> None:
    compile_codecs()


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_noise_breaks_nothing(seed: int) -> None:
    figures = Epoch(seed, SMALL).run()
    assert figures.rounds == SMALL.rounds
    assert figures.damaged > 50
    assert figures.answers > 200


def test_the_same_seed_does_the_same() -> None:
    first, second = (Epoch(7, Size(2, 150)).run() for _ in range(2))
    assert first.actions == second.actions
    assert (first.frames, first.answers) == (second.frames, second.answers)


def test_a_bug_is_found_and_shown_with_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(ListOffsetsHandler, "handle", fail)
    size = Size(1, 120)
    name, text, operation = outcome(1, size)
    assert name.startswith("Finding: logged: request failed KeyError")
    assert "planted" in text
    numbers = list(range(operation + 1))
    assert len(shrink(lambda kept: outcome(1, size, kept)[0] == name, numbers, 300)) == 1


def test_what_is_not_needed_is_left_out() -> None:
    needed = {3, 17, 18, 60}
    assert shrink(lambda kept: needed <= set(kept), list(range(100)), 10) == sorted(needed)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_api_can_be_asked_with_sense(key: int) -> None:
    chance = Random(key)
    town = Town("t", chance)
    for version in range(APIS[key].served[0], APIS[key].served[1] + 1):
        for person in town.people:
            made = Maker(chance, town, person, version).message(APIS[key].request_type)
            frame = request_encoder(key, version)(made, 1, None)
            tags = 11 if layout_of(APIS[key].request_type).is_flexible(version) else 10
            request_decoder(key, version)(frame, 4 + tags, len(frame))


def test_damage_depends_on_the_seed_alone() -> None:
    frame = bytes(range(60))
    for number in range(200):
        first, second = (mutated(Random(number), frame, [frame[::-1]]) for _ in range(2))
        assert first == second
        assert random_bytes(Random(number), [1, 2]) == random_bytes(Random(number), [1, 2])


class Judged:
    """A peer to which Heartbeat answers are owed, and what it says of what comes."""

    def __init__(self, *correlation_ids: int) -> None:
        self.notes: list[str] = []
        rules = Rules({ApiKey.HEARTBEAT: None}, 1000, self.notes.append, lambda: 0.0)
        self.peer = Peer(rules, Town("t", Random(0)), Random(0))
        self.peer.owed.extend(Owed(ApiKey.HEARTBEAT, 4, each, None) for each in correlation_ids)

    def answer(self, correlation_id: int) -> None:
        self.peer.data_received(
            response_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatResponse(), correlation_id)
        )


def test_answers_in_order_are_well() -> None:
    judged = Judged(1, 2)
    judged.answer(1)
    judged.answer(2)
    assert judged.notes == []


def test_answers_out_of_order_are_noted() -> None:
    judged = Judged(1, 2)
    judged.answer(2)
    assert "out of order" in judged.notes[0]


def test_answers_to_nothing_are_noted() -> None:
    judged = Judged()
    judged.answer(1)
    assert "an answer to nothing" in judged.notes[0]


def test_answers_that_cannot_be_read_are_noted() -> None:
    judged = Judged(1)
    judged.peer.data_received(b"\0\0\0\4\0\0\0\1")
    assert "cannot be read" in judged.notes[0]


def test_an_end_without_a_reason_is_noted() -> None:
    judged = Judged()
    judged.peer.connection_lost(None)
    assert "hung up on" in judged.notes[0]
