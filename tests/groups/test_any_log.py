"""A driver over every kind of log, and over two logs at once: what their failures do to it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.groups.partition_log import LogBatch, LogOwner, PartitionLog
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import encode_batch, iter_batches
from groupkeeper.storage.errors import AppendFailed, StorageError
from tests.support.driven import Driven, code_of
from tests.support.partition_logs import (
    EVENTS,
    OFFSETS,
    Hand,
    InMemory,
    OnDisk,
    Owner,
    Process,
    Stores,
    Through,
    batch,
)
from tests.support.requests import codes_of, commit_request, join_request, offset_delete_request
from tests.support.served import Lines

LOST = ErrorCode.NOT_COORDINATOR
AT = ("orders", 0)


@pytest.fixture(params=[OnDisk, InMemory], ids=lambda kind: kind.__name__)
def stores(request: pytest.FixtureRequest) -> Stores:
    made: Stores = request.param()
    return made


class Unheard(Owner):
    """Tells another owner that a batch has failed, whatever became of it."""

    def __init__(self, owner: LogOwner) -> None:
        super().__init__()
        self._owner = owner

    def written(self, unwritten: Unwritten) -> None:
        self._owner.not_written(AppendFailed("no answer"))


async def loaded(log: PartitionLog, config: GroupConfig | None = None) -> Driven:
    driven = Driven(log, config)
    await driven.load()
    return driven


# -- one log ---------------------------------------------------------------------------------------


async def test_what_is_acknowledged_is_there_in_the_next_process(stores: Stores) -> None:
    process = stores.start()
    driven = await loaded(process.log(OFFSETS))
    for offset in range(5):
        assert await driven.commit(offset) == 0
    process.kill()
    driven = await loaded(stores.start().log(OFFSETS))
    assert await driven.fetched() == {AT: 4}


async def test_a_failed_append_closes_the_partition_and_the_next_load_opens_it(
    stores: Stores,
) -> None:
    process = stores.start()
    driven = await loaded(process.log(OFFSETS))
    assert await driven.commit(1) == 0
    process.refuse()
    assert await driven.commit(2) == LOST
    assert driven.state == "closed"
    assert await driven.commit(2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    process.heal()
    await driven.become("active")
    assert await driven.fetched() == {AT: 1}
    assert await driven.commit(3) == 0


async def test_a_newer_owner_ends_it_for_good(stores: Stores, lines: Lines) -> None:
    process = stores.start()
    driven = await loaded(process.log(OFFSETS), GroupConfig())
    assert await driven.commit(1) == 0
    waiting = driven.send(join_request("waiting"), 3)
    newer = await loaded(stores.start(takes_over=True).log(OFFSETS))
    assert await driven.commit(2) == LOST
    assert (await waiting).error_code == LOST
    await driven.become("absent")
    await asyncio.sleep(600)
    assert driven.state == "absent"
    assert await driven.commit(3) == LOST
    assert await newer.commit(4) == 0
    assert await newer.fetched() == {AT: 4}
    [line] = [line for line in lines() if line["event"] == "another process owns the partition"]
    assert (line["level"], line["partition"]) == ("error", 0)
    assert "restart this one" in line["remedy"]
    assert "restart this one" in driven.driver.snapshot().reason


async def test_an_append_whose_answer_is_lost_is_not_acknowledged_and_may_be_there(
    stores: Stores,
) -> None:
    log = stores.start().log(OFFSETS)

    def unheard(batches: Sequence[LogBatch]) -> Sequence[LogBatch]:
        """Batches that are written, of which their owner hears that they have failed."""
        return [replace(each, owner=Unheard(each.owner)) for each in batches]

    driven = await loaded(Through(log, unheard))
    assert await driven.commit(1) == LOST
    assert await (await loaded(log)).fetched() == {AT: 1}


async def test_a_newer_owner_is_outbid_by_no_claim(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stores.start().log(OFFSETS)
    driven = await loaded(log)
    newer = Hand(stores.start(takes_over=True).log(OFFSETS))
    await newer.log.claim(newer)
    assert await driven.commit(1) == LOST
    await driven.become("absent")
    claim = AsyncMock(wraps=log.claim)
    monkeypatch.setattr(log, "claim", claim)
    await asyncio.sleep(3600)
    assert (driven.state, claim.await_count) == ("absent", 0)
    assert await newer.append(b"v") == [b"v"]


async def test_what_a_newer_owner_has_is_released_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stores.start().log(OFFSETS)
    released = AsyncMock(wraps=log.release)
    monkeypatch.setattr(log, "release", released)
    driven = await loaded(log)
    assert await driven.commit(1) == 0
    newer = await loaded(stores.start(takes_over=True).log(OFFSETS))
    assert await driven.commit(2) == LOST
    await driven.become("absent")
    await asyncio.sleep(60)
    assert released.await_count == 1
    assert await newer.commit(3) == 0


async def test_a_newer_owner_that_is_met_while_loading_ends_it(stores: Stores) -> None:
    process = stores.start()
    driven = await loaded(process.log(OFFSETS))
    process.refuse()
    assert await driven.commit(1) == LOST
    second = stores.start(takes_over=True).log(OFFSETS)
    await second.claim(Owner())
    await driven.become("absent")
    assert await driven.commit(1) == LOST


# -- the size of batches ---------------------------------------------------------------------------


async def test_batches_stay_within_the_largest_message(stores: Stores) -> None:
    most, sizes, log = 3_000, list[int](), stores.start().log(OFFSETS)

    def weighed(batches: Sequence[LogBatch]) -> Sequence[LogBatch]:
        sizes.extend(len(encode_batch(0, 1, 1, each.unwritten.records)) for each in batches)
        return batches

    driven = await loaded(Through(log, weighed), GroupConfig(message_max_bytes=most))
    commits = [driven.send_commit(1, f"group-{number}") for number in range(200)]
    assert {code_of(await each) for each in commits} == {0}
    places = [(topic, n) for topic in ("orders", "payments", "refunds") for n in range(35)]
    for part in (places[:35], places[35:70], places[70:]):
        codes = codes_of(await driven.send(commit_request(dict.fromkeys(part, 1), "large"), 8))
        assert codes == dict.fromkeys(part, 0)
    deletion = offset_delete_request(places, "large")  # more tombstones than one batch may have
    assert codes_of(await driven.send(deletion, 0)) == dict.fromkeys(places, 0)
    assert len(sizes) > 10
    assert most // 2 < max(sizes) <= most
    pieces: list[bytes] = []
    await log.claim(Owner())
    await log.read(pieces.append)
    assert max(each.size for piece in pieces for each in iter_batches(piece)) <= most


# -- a second log beside it ------------------------------------------------------------------------


async def with_events(process: Process, *, claimed: bool = True) -> tuple[Driven, Hand]:
    """A driver beside each of whose batches an event is written, to a log of another owner."""
    events = Hand(process.log(EVENTS))
    if claimed:
        await events.log.claim(events)

    def beside(batches: Sequence[LogBatch]) -> Sequence[LogBatch]:
        return [*batches, *(batch(events.log, events, b"event") for _ in batches)]

    return await loaded(Through(process.log(OFFSETS), beside)), events


async def test_events_are_written_beside_the_records(stores: Stores) -> None:
    process = stores.start()
    driven, events = await with_events(process)
    for offset in range(3):
        assert await driven.commit(offset) == 0
    assert [await events.outcome() for _ in range(3)] == [[b"event"]] * 3
    events = Hand(process.log(EVENTS))
    await events.log.claim(events)
    assert await events.read() == [b"event"] * 3


async def test_events_that_cannot_be_written_cost_their_own_owner_only(stores: Stores) -> None:
    process = stores.start()
    driven, events = await with_events(process)
    process.refuse_one(EVENTS)
    for offset in range(5):
        assert await driven.commit(offset) == 0
    assert driven.state == "active"
    outcomes = [await events.outcome() for _ in range(5)]
    assert isinstance(outcomes[-1], StorageError)
    assert driven.metrics.counts["partitions_closed", "AppendFailed"] == 0


async def test_a_group_log_that_cannot_be_written_closes_its_partition_only(stores: Stores) -> None:
    process = stores.start()
    driven, events = await with_events(process)
    process.refuse_one(OFFSETS)
    codes = [await driven.commit(offset) for offset in range(3)]
    assert LOST in codes
    assert driven.state == "closed"
    written = [await events.outcome() for _ in range(codes.index(LOST) + 1)]
    assert written == [[b"event"]] * len(written)
    process.heal()
    await driven.become("active")
    assert await driven.commit(9) == 0
    assert await events.outcome() == [b"event"]


async def test_events_that_are_not_claimed_cost_the_groups_nothing(stores: Stores) -> None:
    """Their log is damaged, for example: the driver goes on, and their owner hears of each."""
    process = stores.start()
    driven, events = await with_events(process, claimed=False)
    for offset in range(3):
        assert await driven.commit(offset) == 0
        assert isinstance(await events.outcome(), Exception)
    assert driven.state == "active"
