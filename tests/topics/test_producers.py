"""Sequences: duplicates, gaps, zombies, and the number that comes after 2^31 - 1."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import BatchHeader
from groupkeeper.topics import producers
from groupkeeper.topics.producers import ProducerMemory, ProducerStates, last_sequence

MAX = 2**31 - 1


TIME = 1_600_000_000_000
"""Of the first record; each has a millisecond."""


def append(
    states: ProducerStates, producer_id: int, epoch: int, sequence: int, delta: int, offset: int
) -> None:
    """Record a batch of `delta` records and one, stored at an offset."""
    producer = producer_id, epoch, sequence
    header = BatchHeader(0, 0, 100, 0, 0, 0, delta, TIME, TIME + offset, *producer, delta + 1)
    states.appended(header, offset)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    """Limits that were reached."""
    return []


@pytest.fixture
def memory(clock, told):
    """Of all partitions; for one second."""
    return ProducerMemory(1000, clock, lambda where, error: told.append(str(error)))


@pytest.fixture
def states(memory):
    """Producer 1 with epoch 5 has written sequences 0 to 9, batch n at offset 10 n."""
    states = ProducerStates(memory)
    for sequence in range(10):
        append(states, 1, 5, sequence, 0, 10 * sequence)
    return states


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 0, 0), (5, 4, 9), (MAX, 0, MAX), (MAX, 1, 0), (MAX - 1, 4, 2)]
)
def test_sequences_wrap_around(base, delta, last):
    assert last_sequence(base, delta) == last


@pytest.mark.parametrize(("sequence", "offset"), [(9, 90), (5, 50), (4, None), (10, None)])
def test_the_last_five_batches_are_remembered(states, sequence, offset):
    stored = states.duplicate_of(1, 5, sequence, 0)
    assert (stored and stored.base_offset) == offset
    assert (stored and stored.max_timestamp) == (offset and TIME + offset)


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
    append(states, 3, 0, MAX - 1, 1, 0)
    assert states.check(3, 0, 0) == ErrorCode.NONE
    assert states.check(3, 0, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_forgets_the_batches_of_the_old_one(states):
    append(states, 1, 6, 0, 0, 100)
    assert states.duplicate_of(1, 6, 0, 0).base_offset == 100
    assert states.duplicate_of(1, 5, 9, 0) is None
    assert states.check(1, 5, 10) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_of_all_partitions_the_longest_silent_producer_is_forgotten_first(
    memory, told, monkeypatch
):
    monkeypatch.setattr(producers, "PRODUCERS_MOST", 3)
    one, other = ProducerStates(memory), ProducerStates(memory)
    for states, producer in ((one, 1), (other, 1), (one, 2), (one, 1), (other, 3), (other, 4)):
        append(states, producer, 0, 0, 0, 0)
    assert (sorted(one.by_id), sorted(other.by_id), len(memory)) == ([1], [3, 4], 3)
    assert told == ["at most 3 producers are remembered"]  # the second one is not told


def test_a_limit_that_is_reached_again_is_told_after_a_minute(memory, clock, told, monkeypatch):
    monkeypatch.setattr(producers, "PRODUCERS_MOST", 1)
    states = ProducerStates(memory)
    for producer, pause in enumerate((0, 0, 0, 59_999, 1)):
        clock.now += pause
        append(states, 2 * producer, 0, 0, 0, 0)
        append(states, 2 * producer + 1, 0, 0, 0, 0)
    assert len(told) == 2


def test_a_silent_producer_is_forgotten_in_time(memory, clock):
    silent, busy = ProducerStates(memory), ProducerStates(memory)
    for producer in range(5):
        append(silent, producer, 0, 0, 0, 0)
    clock.now += 999
    append(busy, 7, 0, 0, 0, 0)
    assert len(silent) == 5
    clock.now += 1
    for sequence in range(1, 4):  # two with every batch
        append(busy, 7, 0, sequence, 0, sequence)
    assert (len(silent), len(busy), len(memory)) == (0, 1, 1)
    assert busy.check(7, 0, 4) == ErrorCode.NONE


def test_a_deleted_partition_leaves_room(memory):
    states = ProducerStates(memory)
    append(states, 1, 0, 0, 0, 0)
    states.clear()
    assert (len(states), len(memory)) == (0, 0)
