"""The contract of `PartitionLog`, over every implementation: the acceptance of a store.

A new implementation is a class of `Stores` and a row below.
"""

import asyncio

import pytest

from groupkeeper.groups.partition_log import LogBatch, PartitionLog
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.errors import Fenced, StorageError
from tests.support.partition_logs import (
    EVENTS,
    OFFSETS,
    Hand,
    InMemory,
    Late,
    OnDisk,
    Owner,
    Stores,
    batch,
    beside,
)

IMPLEMENTATIONS: list[type[Stores]] = [OnDisk, InMemory]


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda kind: kind.__name__)
def stores(request: pytest.FixtureRequest) -> Stores:
    made: Stores = request.param()
    return made


async def claimed(log: PartitionLog) -> Hand:
    hand = Hand(log)
    await log.claim(hand)
    return hand


# -- claims ----------------------------------------------------------------------------------------


async def test_every_claim_has_a_larger_epoch(stores: Stores) -> None:
    epochs = []
    for _ in range(2):
        process = stores.start()
        log = process.log(OFFSETS)
        for _ in range(3):
            hand = Hand(log)
            epochs.append(await log.claim(hand))
            assert await hand.append(b"v") == [b"v"]
        await process.stop()
    assert epochs == sorted(set(epochs))


async def test_a_new_log_is_empty(stores: Stores) -> None:
    hand = await claimed(stores.start().log(OFFSETS))
    assert await hand.read() == []


async def test_what_is_claimed_at_once_is_empty_and_takes_appends(stores: Stores) -> None:
    process = stores.start()
    log = process.log(OFFSETS)
    hand = Hand(log)
    epoch = log.claim_empty(hand)
    if epoch is None:  # a store may never know
        epoch = await log.claim(hand)
    assert await hand.read() == []
    assert await hand.append(b"v") == [b"v"]
    assert await log.claim(hand) > epoch
    assert await hand.read() == [b"v"]


async def test_what_has_records_is_not_claimed_at_once(stores: Stores) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    assert await hand.append(b"v") == [b"v"]
    await process.stop()
    log = stores.start().log(OFFSETS)
    assert log.claim_empty(Hand(log)) is None


async def test_a_claim_that_was_cancelled_can_be_made_again(stores: Stores) -> None:
    log = stores.start().log(OFFSETS)
    for _ in range(3):
        task = asyncio.ensure_future(log.claim(Owner()))
        await asyncio.sleep(0.0001)
        task.cancel()
    hand = await claimed(log)
    assert await hand.append(b"v") == [b"v"]


# -- what is written -------------------------------------------------------------------------------


async def test_it_is_read_in_order_by_the_next_claim_and_by_the_next_process(
    stores: Stores,
) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    for number in range(5):
        assert await hand.append(b"%d" % number, b"again") == [b"%d" % number, b"again"]
    expected = [value for number in range(5) for value in (b"%d" % number, b"again")]
    hand = await claimed(process.log(OFFSETS))
    assert await hand.read() == expected
    await process.stop()
    hand = await claimed(stores.start().log(OFFSETS))
    assert await hand.read() == expected


async def test_it_survives_a_killed_process(stores: Stores) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    for number in range(3):
        assert await hand.append(b"%d" % number) == [b"%d" % number]
    hand.give(b"under way")
    process.kill()
    hand = await claimed(stores.start().log(OFFSETS))
    values = await hand.read()
    assert values[:3] == [b"0", b"1", b"2"]
    assert values[3:] in ([], [b"under way"])


async def test_a_long_log_is_read_in_pieces(stores: Stores) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    for number in range(60):
        assert await hand.append(b"%d" % number + bytes(50_000))
    hand = await claimed(process.log(OFFSETS))
    pieces: list[bytes] = []
    await process.log(OFFSETS).read(pieces.append)
    assert len(pieces) >= 3
    assert max(map(len, pieces)) < 1_200_000
    assert len(await hand.read()) == 60


async def test_what_the_reader_raises_ends_the_reading(stores: Stores) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    assert await hand.append(b"v") == [b"v"]

    def refuse(_: bytes) -> None:
        raise ValueError("odd")

    log = process.log(OFFSETS)
    await log.claim(hand)
    with pytest.raises(ValueError, match="odd"):
        await log.read(refuse)
    await log.claim(hand)
    assert await hand.read() == [b"v"]


# -- authors ---------------------------------------------------------------------------------------


async def test_an_author_is_asked_once_for_several_calls(stores: Stores) -> None:
    log = stores.start().log(OFFSETS)
    hand = await claimed(log)
    for _ in range(10):
        log.append_from(hand)
    assert await hand.append(b"v") == [b"v"]
    assert hand.asked == 1


async def test_an_author_is_asked_for_more_when_the_outcome_was_told(stores: Stores) -> None:
    log = stores.start().log(OFFSETS)
    hand = await claimed(log)
    hand.give(b"first")
    await hand.is_asked()
    hand.give(b"second")
    assert await hand.outcome() == [b"first"]
    assert hand.asked == 1
    assert await hand.outcome() == [b"second"]
    assert hand.asked == 2
    await asyncio.sleep(1)
    assert not hand.told


async def test_an_author_that_raises_is_told_and_costs_no_other(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = stores.start()
    hand, other = await claimed(process.log(OFFSETS)), await claimed(process.log(EVENTS))

    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(hand, "take", fail)
    hand.give(b"v")
    other.give(b"w")
    assert str(await hand.outcome()) == "a bug"
    assert await other.outcome() == [b"w"]


# -- failures --------------------------------------------------------------------------------------


async def test_after_a_failure_the_log_goes_on_with_the_next_claim(stores: Stores) -> None:
    process = stores.start()
    hand = await claimed(process.log(OFFSETS))
    assert await hand.append(b"before") == [b"before"]
    process.refuse()
    error = await hand.append(b"refused")
    assert isinstance(error, StorageError) and not isinstance(error, Fenced)
    process.heal()
    hand = await claimed(process.log(OFFSETS))
    assert await hand.read() == [b"before"]
    assert await hand.append(b"after") == [b"after"]
    hand = await claimed(process.log(OFFSETS))
    assert await hand.read() == [b"before", b"after"]


async def test_no_append_of_an_earlier_claim_is_under_way_after_a_claim(stores: Stores) -> None:
    """Its outcome is told before, and it is in the log or never will be."""
    process = stores.start()
    log = process.log(OFFSETS)
    for number in range(20):
        hand = await claimed(log)
        hand.give(b"%d" % number)
        await hand.is_asked()
        again = await claimed(log)
        assert list(hand.told) == [[b"%d" % number]]
        assert (await again.read())[-1] == b"%d" % number


# -- a newer owner ---------------------------------------------------------------------------------


async def end_of(hand: Hand) -> StorageError:
    """What an owner is told in the end: by the append, or by the one claim after it."""
    error = await hand.append(b"too late")
    assert isinstance(error, StorageError)
    if not isinstance(error, Fenced):
        with pytest.raises(Fenced) as raised:
            await hand.log.claim(hand)
        error = raised.value
    return error


async def test_of_two_owners_the_older_one_writes_nothing_more(stores: Stores) -> None:
    first = await claimed(stores.start().log(OFFSETS))
    assert await first.append(b"a") == [b"a"]
    second = await claimed(stores.start(takes_over=True).log(OFFSETS))
    assert await second.read() == [b"a"]
    assert isinstance(await end_of(first), Fenced)
    assert await second.append(b"b") == [b"b"]
    await first.log.release()
    second = await claimed(second.log)
    assert await second.read() == [b"a", b"b"]


async def test_a_newer_owner_is_not_outbid(stores: Stores) -> None:
    first = await claimed(stores.start().log(OFFSETS))
    await claimed(stores.start(takes_over=True).log(OFFSETS))
    await end_of(first)
    for _ in range(3):
        with pytest.raises(Fenced):
            await first.log.claim(first)


async def test_the_newer_owner_has_what_was_acknowledged_last(stores: Stores) -> None:
    first = await claimed(stores.start().log(OFFSETS))
    for number in range(10):
        assert await first.append(b"%d" % number) == [b"%d" % number]
    first.give(b"under way")
    second = await claimed(stores.start(takes_over=True).log(OFFSETS))
    values = await second.read()
    assert values[:10] == [b"%d" % number for number in range(10)]
    acknowledged = await first.outcome() == [b"under way"]
    assert not acknowledged or values[10:] == [b"under way"]


async def test_what_is_released_can_be_claimed_by_another(stores: Stores) -> None:
    process = stores.start()
    first = await claimed(process.log(OFFSETS))
    assert await first.append(b"a") == [b"a"]
    await first.log.release()
    second = await claimed(stores.start().log(OFFSETS))
    assert await second.read() == [b"a"]
    assert await second.append(b"b") == [b"b"]
    await process.stop()
    second = await claimed(second.log)
    assert await second.read() == [b"a", b"b"]


# -- several logs of one author --------------------------------------------------------------------


async def test_each_log_of_an_author_has_an_outcome_of_its_own(stores: Stores) -> None:
    process = stores.start()
    hand, events = await claimed(process.log(OFFSETS)), await claimed(process.log(EVENTS))
    for number in range(3):
        beside = batch(events.log, events, b"event %d" % number)
        hand.give(b"%d" % number, beside=(beside,))
        assert await hand.outcome() == [b"%d" % number]
        assert await events.outcome() == [b"event %d" % number]
    assert hand.asked == 3
    hand, events = await claimed(hand.log), await claimed(events.log)
    assert await hand.read() == [b"0", b"1", b"2"]
    assert await events.read() == [b"event 0", b"event 1", b"event 2"]


@pytest.mark.parametrize("broken", [OFFSETS, EVENTS])
async def test_a_log_that_fails_is_told_to_its_owner_alone(stores: Stores, broken: str) -> None:
    process = stores.start()
    hands = {name: await claimed(process.log(name)) for name in (OFFSETS, EVENTS)}
    hand, events = hands[OFFSETS], hands[EVENTS]
    process.refuse_one(broken)
    written: dict[str, list[bytes]] = {OFFSETS: [], EVENTS: []}
    failed: list[str] = []
    for number in range(5):
        value = b"%d" % number
        hand.give(value, beside=(batch(events.log, events, value),))
        for name, owner in hands.items():
            outcome = await owner.outcome()
            if outcome == [value]:
                written[name].append(value)
            else:
                assert isinstance(outcome, StorageError)
                failed.append(name)
    assert set(failed) == {broken}
    process.heal()
    for name in hands:
        again = await claimed(process.log(name))
        assert await again.read() == written[name]
        assert await again.append(b"after") == [b"after"]


async def test_when_nothing_can_be_written_all_owners_are_told(stores: Stores) -> None:
    process = stores.start()
    hand, events = await claimed(process.log(OFFSETS)), await claimed(process.log(EVENTS))
    process.refuse()
    hand.give(b"v", beside=(batch(events.log, events, b"w"),))
    assert isinstance(await hand.outcome(), StorageError)
    assert isinstance(await events.outcome(), StorageError)


@pytest.mark.parametrize("when", ["at once", "after some"])
async def test_a_batch_that_belongs_to_another_is_not_written_without_it(
    stores: Stores, when: str
) -> None:
    process = stores.start()
    hand, events = await claimed(process.log(OFFSETS)), Hand(process.log(EVENTS))
    await events.log.claim_beside(events, 1)
    outcomes: list[bool] = []
    if when == "at once":
        process.refuse_one(OFFSETS)
    for number in range(6):
        if number == 3:
            process.refuse_one(OFFSETS)
        first = batch(hand.log, hand, b"v%d" % number)
        late = beside(events, first, b"e%d" % number)
        hand.give_batches(first, late)
        outcome, event = await hand.outcome(), await events.outcome()
        assert isinstance(outcome, StorageError) == isinstance(event, StorageError)
        outcomes.append(not isinstance(outcome, StorageError))
    assert not outcomes[-1]
    process.heal()
    events = await claimed(process.log(EVENTS))
    expected = [b"e%d" % number for number, written in enumerate(outcomes) if written]
    assert await events.read() == expected


async def test_a_batch_without_the_one_that_belongs_to_it_is_written(stores: Stores) -> None:
    process = stores.start()
    hand, events = await claimed(process.log(OFFSETS)), Hand(process.log(EVENTS))
    await events.log.claim_beside(events, 1)
    process.refuse_one(EVENTS)
    for number in range(3):
        first = batch(hand.log, hand, b"%d" % number)
        hand.give_batches(first, beside(events, first, b"event"))
        assert await hand.outcome() == [b"%d" % number]
    assert isinstance(events.told[-1], StorageError)


# -- records that are made late --------------------------------------------------------------------


async def test_records_that_are_made_late_may_be_several_batches_or_none(stores: Stores) -> None:
    process = stores.start()
    events = Hand(process.log(EVENTS))
    epoch = await events.log.claim_beside(events, 7)
    assert epoch >= 7
    for batches in ([[b"a", b"b"], [b"c"]], [], [[b"d"]]):
        events.give_batches(LogBatch(events.log, events, Late(batches)))
        assert await events.outcome() == []
    again = Hand(process.log(EVENTS))
    later = await again.log.claim_beside(again, epoch + 1)
    assert later > epoch
    pieces: list[bytes] = []
    await again.log.read(pieces.append)
    records = [
        (record.value, record.timestamp_ms, header.leader_epoch)
        for piece in pieces
        for header in iter_batches(piece)
        for record in decode_records(piece, header)
    ]
    times = [(b"a", 500), (b"b", 499), (b"c", 500), (b"d", 500)]
    assert records == [(value, time, epoch) for value, time in times]


async def test_records_that_cannot_be_made_cost_their_own_owner_only(stores: Stores) -> None:
    process = stores.start()
    hand, events = await claimed(process.log(OFFSETS)), Hand(process.log(EVENTS))
    await events.log.claim_beside(events, 1)
    first = batch(hand.log, hand, b"v")
    odd = LogBatch(events.log, events, Late([], fails=True), first)
    hand.give_batches(first, odd)
    assert await hand.outcome() == [b"v"]
    assert "a bug" in str(await events.outcome())
    later = beside(events, None, b"later")
    events.give_batches(later)
    assert await events.outcome() == []


# -- a log beside another --------------------------------------------------------------------------


async def test_a_log_beside_another_has_its_epoch_and_survives_a_kill(stores: Stores) -> None:
    process = stores.start()
    epoch = 0
    for number in range(3):
        hand, events = Hand(process.log(OFFSETS)), Hand(process.log(EVENTS))
        before, epoch = epoch, await hand.log.claim(hand)
        assert await events.log.claim_beside(events, epoch) >= epoch > before
        first = batch(hand.log, hand, b"v%d" % number)
        hand.give_batches(first, beside(events, first, b"e%d" % number))
        assert await hand.outcome() == [b"v%d" % number]
        process.kill()
        process = stores.start()
    events = await claimed(process.log(EVENTS))
    assert await events.read() == [b"e0", b"e1", b"e2"]


async def test_a_log_beside_another_is_opened_again_under_the_same_epoch(stores: Stores) -> None:
    process = stores.start()
    hand, events = Hand(process.log(OFFSETS)), Hand(process.log(EVENTS))
    epoch = await hand.log.claim(hand)
    await events.log.claim_beside(events, epoch)
    for refuse in (False, True, True, False):
        if refuse:
            process.refuse_one(EVENTS)
        else:
            process.heal()
            await events.log.claim_beside(events, epoch)
        events.give_batches(beside(events, None, b"e%d" % refuse))
        outcome = await events.outcome()
    assert outcome == []
    assert await hand.append(b"v") == [b"v"], "its claim stands"
