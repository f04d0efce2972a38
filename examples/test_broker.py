"""What else a test can do with its broker: one short test for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer

from groupkeeper.testing import AsyncBroker, Broker, WaitTimedOut, effects


@asynccontextmanager
async def member(broker: AsyncBroker, **options: object) -> AsyncIterator[AIOKafkaConsumer]:
    """A member of the group `billing` that hears of a rebalance within 50 ms."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        heartbeat_interval_ms=50,
        retry_backoff_ms=20,
        auto_offset_reset="earliest",
        **options,
    )
    async with consumer:
        yield consumer


# -- records and offsets ---------------------------------------------------------------------------


def test_records_and_offsets_are_set_up_and_read_back() -> None:
    with Broker(topics={"orders": 2}) as broker:
        broker.produce("orders", "first", key="customer-1", headers={"trace": "7"})
        broker.produce_many("orders", ["second", "third"], partition=1)
        broker.commit("billing", {("orders", 1): 1})

        assert {record.value for record in broker.records("orders")} >= {b"second", b"third"}
        assert broker.committed("billing") == {("orders", 1): 1}


# -- waiting, and why ------------------------------------------------------------------------------


async def test_wait_for_what_the_group_becomes() -> None:
    async with Broker(topics={"orders": 6}) as broker:
        group = broker.group("billing")
        async with member(broker, client_id="a"), member(broker, client_id="b"):
            await group.wait_until(stable=True, members=2)
            assert group.member("a").partitions == {"orders": [0, 2, 4]}
            assert group.lag == 0


async def test_a_wait_that_fails_says_what_the_group_was_doing() -> None:
    async with Broker(topics={"orders": 6}) as broker, member(broker):
        with pytest.raises(WaitTimedOut, match="members=3: it has 1") as failed:
            await broker.group("billing").wait_until(members=3, timeout=0.2)
        assert "joined the empty group" in str(failed.value)


async def test_every_rebalance_has_a_cause() -> None:
    async with Broker(topics={"orders": 6}) as broker:
        group = broker.group("billing")
        async with member(broker, client_id="a"):
            async with member(broker, client_id="b"):
                await group.wait_until(stable=True, members=2)
            await group.wait_until(stable=True, members=1)
        left = group.rounds[-2]
        assert (left.cause, left.who) == ("member_left", "b")


# -- time ------------------------------------------------------------------------------------------


async def test_a_session_of_45_seconds_ends_at_once() -> None:
    async with Broker(topics={"orders": 6}) as broker:
        group = broker.group("billing")
        async with member(broker, session_timeout_ms=45_000, client_id="a"):
            await group.wait_until(stable=True, members=1)
            await broker.advance(seconds=46, silent=["a"])
            assert group.rounds[-1].cause == "session_expired"


async def test_members_that_are_alive_stay_however_far_time_is_moved() -> None:
    async with Broker(topics={"orders": 6}) as broker, member(broker):
        group = broker.group("billing")
        await group.wait_until(stable=True, members=1)
        async with group.no_rebalance():
            await broker.advance(seconds=3_600)
        assert len(group.members) == 1


# -- faults ----------------------------------------------------------------------------------------


async def test_a_commit_that_meets_another_coordinator_is_sent_again() -> None:
    async with Broker(topics={"orders": 1}) as broker, member(broker) as consumer:
        await broker.produce("orders", "first")
        await asyncio.wait_for(consumer.getone(), 60)
        rule = await broker.fault(
            effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="billing", times=2
        )
        await consumer.commit()
        assert rule.hits == 2
        assert await broker.committed("billing") == {("orders", 0): 1}


# -- several brokers -------------------------------------------------------------------------------


async def test_a_node_goes_away_and_its_group_does_not() -> None:
    with Broker(topics={"orders": 1}, brokers=3) as broker:
        async with member(broker.aio) as consumer:
            group = broker.aio.group("billing")
            await group.wait_until(stable=True, members=1)
            async with group.no_rebalance():
                broker.node(broker.coordinator("billing")).stop()
                broker.produce("orders", "first")
                await asyncio.wait_for(consumer.getone(), 60)
                await consumer.commit()
            assert broker.committed("billing") == {("orders", 0): 1}


# -- crashes and restarts --------------------------------------------------------------------------


def test_what_was_acknowledged_survives_a_crash() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "first")
        broker.commit("billing", {("orders", 0): 1})
        broker.crash()
        broker.restart()
        assert len(broker.records("orders")) == 1
        assert broker.committed("billing") == {("orders", 0): 1}


def test_a_reset_leaves_the_topics_of_the_start_and_the_port() -> None:
    with Broker(topics={"orders": 1}) as broker:
        before = broker.bootstrap_servers
        broker.produce("orders", "first")
        broker.reset()
        assert broker.records("orders") == []
        assert broker.bootstrap_servers == before
