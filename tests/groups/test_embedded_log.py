"""What only the embedded store does, behind the contract of test_partition_log.py: its locks."""

import pytest

from groupkeeper.storage.errors import Fenced, Locked, LockLost
from tests.support.batches import batch as batch_at
from tests.support.fake_files import FakeFiles
from tests.support.partition_logs import EVENTS, OFFSETS, Embedded, Hand, Late, OnDisk, beside
from tests.support.stored import write_file


async def claimed(process: Embedded, name: str = OFFSETS) -> Hand:
    hand = Hand(process.log(name))
    await hand.log.claim(hand)
    return hand


@pytest.fixture
def stores() -> OnDisk:
    return OnDisk()


async def test_a_lock_that_was_only_removed_is_taken_again(stores: OnDisk) -> None:
    process = stores.start()
    hand = Hand(process.log(OFFSETS))
    epoch = await hand.log.claim(hand)
    stores.disk.remove("data/leases/0")
    assert isinstance(await hand.append(b"v"), LockLost)
    assert await hand.log.claim(hand) > epoch
    assert await hand.append(b"w") == [b"w"]
    hand = await claimed(process)
    assert await hand.read() == [b"w"]


async def test_the_owner_of_a_log_hears_that_its_lock_is_lost(stores: OnDisk) -> None:
    process = stores.start()
    hand = await claimed(process)
    process.logs.lost(0)
    assert isinstance(await hand.outcome(), LockLost)


async def test_a_lock_that_another_process_has_says_which(stores: OnDisk) -> None:
    hand = await claimed(stores.start())
    stores.start(takes_over=True)
    assert isinstance(await hand.append(b"v"), LockLost)
    with pytest.raises(Fenced, match="shard 0 is held by node 2"):
        await hand.log.claim(hand)


async def test_the_first_append_of_a_log_without_the_lock_is_refused(stores: OnDisk) -> None:
    old = stores.start()
    hand, events = await claimed(old), Hand(old.log(EVENTS))
    await events.log.claim_beside(events, hand.log.epoch)
    new = stores.start(takes_over=True)
    later = await claimed(new)
    events.give_batches(beside(events, None, b"old"))
    assert isinstance(await events.outcome(), LockLost)
    events = Hand(new.log(EVENTS))
    await events.log.claim_beside(events, later.log.epoch)
    events.give_batches(beside(events, None, b"new"))
    assert await events.outcome() == []
    new.kill()
    again = stores.start(takes_over=True)
    assert await (await claimed(again, EVENTS)).read() == [b"new"]


async def test_a_folder_from_elsewhere_is_claimed_above_its_epoch(stores: OnDisk) -> None:
    FakeFiles(stores.disk).make_folder(f"data/{OFFSETS}")
    segment = f"data/{OFFSETS}/00000000000000000000.log"
    write_file(stores.disk, segment, batch_at(0, b"copied", epoch=40))
    process = stores.start()
    hand = Hand(process.log(OFFSETS))
    assert process.log(OFFSETS).claim_empty(hand) is None
    assert await hand.log.claim(hand) > 40
    assert await hand.append(b"v") == [b"v"]
    hand = await claimed(process)
    assert await hand.read() == [b"copied", b"v"]


async def test_all_logs_of_a_round_share_one_sync(stores: OnDisk) -> None:
    process = stores.start()
    hand, events = await claimed(process), await claimed(process, EVENTS)
    assert await hand.append(b"the journal is begun") == [b"the journal is begun"]
    before = stores.disk.trace.copy()
    hand.give(b"v")
    events.give(b"w")
    assert await hand.outcome() == [b"v"]
    assert await events.outcome() == [b"w"]
    done = stores.disk.trace[len(before) :]
    assert sum(line.startswith("sync") for line in done) == 1


# -- released --------------------------------------------------------------------------------------


async def test_a_lock_is_given_back_with_the_last_log_of_its_shard(stores: OnDisk) -> None:
    process = stores.start()
    hand, events = await claimed(process), await claimed(process, EVENTS)
    await events.log.release()
    with pytest.raises(Locked):
        stores.start()
    assert await hand.append(b"v") == [b"v"]
    await hand.log.release()
    assert await (await claimed(stores.start())).read() == [b"v"]


async def test_what_is_released_has_no_open_files(stores: OnDisk) -> None:
    process = stores.start()
    hand = await claimed(process)
    for number in range(3):
        assert await hand.append(b"%d" % number)
    await hand.log.release()
    assert process.logs.log_of(0) is None
    left = {path for path in process.files.paths.values() if "/journals/" not in path}
    assert left == {"data/nodes/1"}


async def test_what_a_fenced_owner_has_acknowledged_outlives_its_end(stores: OnDisk) -> None:
    """It is in its journal only, and the new owner has not looked yet."""
    first = stores.start()
    hand = await claimed(first)
    for number in range(3):
        assert await hand.append(b"%d" % number) == [b"%d" % number]
    second = stores.start(takes_over=True)
    assert isinstance(await hand.append(b"too late"), LockLost)
    with pytest.raises(Fenced):
        await hand.log.claim(hand)
    await hand.log.release()
    await first.stop()
    assert await (await claimed(second)).read() == [b"0", b"1", b"2"]


async def test_a_log_that_is_not_there_is_none(stores: OnDisk) -> None:
    process = stores.start()
    assert process.logs.log_of(0) is None
    await claimed(process)
    assert [process.logs.log_of(n) is not None for n in (-1, 0, 1)] == [False, True, False]


async def test_a_batch_keeps_the_epoch_of_its_claim_while_the_log_is_released(
    stores: OnDisk,
) -> None:
    process = stores.start()
    hand, events = await claimed(process), Hand(process.log(EVENTS))
    epoch = await events.log.claim_beside(events, hand.log.epoch)
    late = process.log(EVENTS).prepare(Late([[b"v"]]), 0)
    await events.log.release()
    assert late.make().epoch == epoch
