"""Sequences: duplicates, gaps, zombies, and the number that comes after 2^31 - 1."""

import pytest

from groupkeeper.topics import producers
from groupkeeper.topics.producers import ProducerStates, last_sequence
from protocol.errors import ErrorCode

MAX = 2**31 - 1


@pytest.fixture
def states():
    """Producer 1 with epoch 5 has written sequences 0 to 9, batch n at offset 10 n."""
    states = ProducerStates()
    for sequence in range(10):
        states.appended(1, 5, sequence, 0, 10 * sequence)
    return states


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 0, 0), (5, 4, 9), (MAX, 0, MAX), (MAX, 1, 0), (MAX - 1, 4, 2)]
)
def test_sequences_wrap_around(base, delta, last):
    assert last_sequence(base, delta) == last


@pytest.mark.parametrize(("sequence", "offset"), [(9, 90), (5, 50), (4, None), (10, None)])
def test_the_last_five_batches_are_remembered(states, sequence, offset):
    assert states.duplicate_of(1, 5, sequence, 0) == offset


def test_a_batch_of_another_length_or_epoch_is_no_duplicate(states):
    assert states.duplicate_of(1, 5, 9, 1) is None
    assert states.duplicate_of(1, 6, 9, 0) is None
    assert states.duplicate_of(2, 5, 9, 0) is None


@pytest.mark.parametrize(
    ("producer", "epoch", "sequence", "code"),
    [
        (1, 5, 10, ErrorCode.NONE),
        (1, 5, 11, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (1, 5, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (1, 4, 10, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 6, 0, ErrorCode.NONE),
        (1, 6, 10, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 0, 10, ErrorCode.NONE),
    ],
)
def test_what_may_follow(states, producer, epoch, sequence, code):
    assert states.check(producer, epoch, sequence) == code


def test_zero_follows_the_last_sequence(states):
    states.appended(3, 0, MAX - 1, 1, 0)
    assert states.check(3, 0, 0) == ErrorCode.NONE
    assert states.check(3, 0, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_forgets_the_batches_of_the_old_one(states):
    states.appended(1, 6, 0, 0, 100)
    assert states.duplicate_of(1, 6, 0, 0) == 100
    assert states.duplicate_of(1, 5, 9, 0) is None
    assert states.check(1, 5, 10) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_longest_silent_producer_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(producers, "REMEMBERED_PRODUCERS", 2)
    states = ProducerStates()
    for producer in (1, 2, 1, 3):
        states.appended(producer, 0, 0, 0, producer)
    assert len(states) == 2
    assert states.duplicate_of(1, 0, 0, 0) == 1
    assert states.duplicate_of(2, 0, 0, 0) is None
