"""What real clients do when a fault happens to them: each effect, and the table of the page."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import RequestTimedOutError
from confluent_kafka.admin import AdminClient
from kafka.admin import NewTopic
from kafka.errors import RequestTimedOutError as KafkaRequestTimedOut
from kafka.structs import OffsetAndMetadata

from groupkeeper.testing import Broker, Rule, effects
from tests.testing.observed import ROWS, saw, table

PAGE = Path(__file__).parents[2] / "docs" / "testing-faults.md"
GROUP = "billing"
PLACE = ("orders", 0)
KAFKA_PLACE = kafka.TopicPartition(*PLACE)
AIO_PLACE = aiokafka.TopicPartition(*PLACE)
ENOUGH_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(topics={"orders": 2}, settings=settings) as broker:
        yield broker


def _count(broker: Broker, api: str) -> Rule:
    """A rule that only counts."""
    return broker.fault(effects.delay(0.0001), api=api, may_miss=True)


def _stored(broker: Broker) -> int | None:
    return broker.committed(GROUP).get(PLACE)


def _records(broker: Broker) -> int:
    return len(broker.records("orders"))


# -- kafka-python ----------------------------------------------------------------------------------


@pytest.fixture
def consumer(broker: Broker) -> Iterator[kafka.KafkaConsumer]:
    made = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        retry_backoff_ms=20,
    )
    yield made
    made.close(autocommit=False)


def _commit(consumer: kafka.KafkaConsumer, offset: int) -> None:
    consumer.assign([KAFKA_PLACE])
    consumer.commit({KAFKA_PLACE: OffsetAndMetadata(offset, "", -1)})


def _subscribe(consumer: kafka.KafkaConsumer) -> None:
    """Without metadata it would assign nothing at first, and short polls keep it so for long."""
    consumer.partitions_for_topic("orders")
    consumer.subscribe(["orders"])


def _await_assignment(consumer: kafka.KafkaConsumer) -> int:
    while not consumer.assignment():
        consumer.poll(20)
    return len(consumer.assignment())


@saw(
    'error("NOT_COORDINATOR")',
    "OffsetCommit, twice",
    "kafka-python",
    "`commit()` asked for the coordinator after each error and then succeeded",
)
def test_error_commit(broker: Broker, consumer: kafka.KafkaConsumer) -> None:
    _commit(consumer, 1)
    rule = broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", times=2)
    asked = _count(broker, "FindCoordinator")
    _commit(consumer, 5)
    assert (rule.hits, asked.hits, _stored(broker)) == (2, 2, 5)


@saw("delay(0.25)", "OffsetCommit", "kafka-python", "`commit()` took as long")
def test_delay(broker: Broker, consumer: kafka.KafkaConsumer) -> None:
    _commit(consumer, 1)
    rule = broker.fault(effects.delay(0.25), api="OffsetCommit")
    began = time.monotonic()
    _commit(consumer, 5)
    assert time.monotonic() - began >= 0.25
    assert (rule.hits, _stored(broker)) == (1, 5)


@saw(
    "close()",
    "OffsetCommit, once",
    "kafka-python",
    "connected again; `commit()` sent the request again and succeeded",
)
def test_close(broker: Broker, consumer: kafka.KafkaConsumer) -> None:
    _commit(consumer, 1)
    rule = broker.fault(effects.close(), api="OffsetCommit", times=1)
    sent = _count(broker, "OffsetCommit")
    _commit(consumer, 5)
    assert (rule.hits, sent.hits, _stored(broker)) == (1, 1, 5)


@saw(
    "half_open()",
    "ListGroups, once",
    "kafka-python",
    "`list_groups()` raised RequestTimedOutError after its request timeout; the next call "
    "connected anew and succeeded",
)
def test_half_open(broker: Broker) -> None:
    admin = kafka.KafkaAdminClient(
        bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=1_000, retry_backoff_ms=20
    )
    connected = _count(broker, "ApiVersions")
    broker.fault(effects.half_open(), api="ListGroups", times=1)
    with pytest.raises(KafkaRequestTimedOut):
        admin.list_groups()
    assert admin.list_groups() == []
    assert connected.hits
    admin.close()


@saw(
    "stale_metadata()",
    "all topics",
    "kafka-python",
    "did not see a topic that it had just created, until the rule was removed",
)
def test_stale_metadata(broker: Broker) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    with broker.fault(effects.stale_metadata()):
        admin.create_topics([NewTopic("new", 1, 1)])
        assert "new" not in admin.list_topics()
    assert "new" in admin.list_topics()
    admin.close()


@saw(
    "wrong_coordinator()",
    "a group",
    "kafka-python",
    "asked for the coordinator again after each NOT_COORDINATOR; joined when the rule was removed",
)
def test_wrong_coordinator(broker: Broker, consumer: kafka.KafkaConsumer) -> None:
    rule = broker.fault(effects.wrong_coordinator(), group=GROUP)
    asked, joined = _count(broker, "FindCoordinator"), _count(broker, "JoinGroup")
    _subscribe(consumer)
    while rule.hits < 6:
        consumer.poll(20)
    assert not consumer.assignment()
    assert asked.hits == joined.hits == 0
    rule.remove()
    assert _await_assignment(consumer) == 2


@saw(
    "stale_generation()",
    "JoinGroup, once",
    "kafka-python",
    "SyncGroup was refused with ILLEGAL_GENERATION; it joined again and got its partitions",
)
def test_stale_generation(broker: Broker, consumer: kafka.KafkaConsumer) -> None:
    rule = broker.fault(effects.stale_generation(), group=GROUP, times=1)
    synced = _count(broker, "SyncGroup")
    _subscribe(consumer)
    assert (_await_assignment(consumer), rule.hits) == (2, 1)
    assert synced.hits > 1


# -- confluent-kafka -------------------------------------------------------------------------------


def _quick(broker: Broker, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "reconnect.backoff.ms": 10,
        "retry.backoff.ms": 20,
        **settings,
    }


def _produce(producer: confluent_kafka.Producer) -> list[int]:
    """The offset that the producer was told."""
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None
        offsets.append(message.offset())

    producer.produce("orders", b"value", partition=0, on_delivery=delivered)
    producer.flush(ENOUGH_S)
    return offsets


@saw(
    'error("NOT_LEADER_OR_FOLLOWER")',
    "Produce, once",
    "confluent-kafka",
    "asked for metadata and sent the record again: it is there once",
)
def test_error_produce(broker: Broker) -> None:
    producer = confluent_kafka.Producer(_quick(broker, **{"linger.ms": 0}))
    producer.list_topics("orders", timeout=ENOUGH_S)
    rule = broker.fault(effects.error("NOT_LEADER_OR_FOLLOWER"), api="Produce", times=1)
    asked = _count(broker, "Metadata")
    assert (_produce(producer), rule.hits, _records(broker)) == ([0], 1, 1)
    assert asked.hits


@saw(
    "close(handled=True)",
    "Produce, once",
    "confluent-kafka",
    "sent the record again without a word: it is there twice (`enable.idempotence` would help)",
)
def test_close_handled(broker: Broker) -> None:
    producer = confluent_kafka.Producer(_quick(broker, **{"linger.ms": 0}))
    broker.fault(effects.close(handled=True), api="Produce", times=1)
    assert (_produce(producer), _records(broker)) == ([1], 2)


@saw(
    "drop()",
    "Metadata, once",
    "confluent-kafka",
    "`list_topics()` raised _TIMED_OUT; a later call succeeded on a new connection, after "
    "`socket.timeout.ms`",
)
def test_drop(broker: Broker) -> None:
    admin = AdminClient(_quick(broker, **{"socket.timeout.ms": 300}))
    admin.list_topics(timeout=ENOUGH_S)
    connected = _count(broker, "ApiVersions")
    broker.fault(effects.drop(), api="Metadata", times=1)
    with pytest.raises(confluent_kafka.KafkaException, match="_TIMED_OUT"):
        admin.list_topics(timeout=0.1)
    assert "orders" in _until_it_succeeds(lambda: admin.list_topics(timeout=ENOUGH_S)).topics
    assert connected.hits


@saw(
    "throttle(100)",
    "Produce, once",
    "confluent-kafka",
    "`throttle_cb` was called with 0.1 s; the next record was sent when that was over",
)
def test_throttle(broker: Broker) -> None:
    told: list[float] = []

    def throttled(event: Any) -> None:
        told.append(event.throttle_time)

    producer = confluent_kafka.Producer(_quick(broker, **{"linger.ms": 0}, throttle_cb=throttled))
    broker.fault(effects.throttle(100), api="Produce", times=1)
    began = time.monotonic()
    assert (_produce(producer), _produce(producer)) == ([0], [1])
    assert time.monotonic() - began >= 0.1
    assert told[0] == 0.1


@saw(
    "disk_full()",
    "a commit",
    "confluent-kafka",
    "`commit(asynchronous=False)` raised COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR; it "
    "succeeded when there was room again",
)
def test_disk_full(broker: Broker) -> None:
    settings = _quick(broker, **{"group.id": GROUP, "enable.auto.commit": False})
    consumer = confluent_kafka.Consumer(settings)

    def commit(offset: int) -> None:
        place = confluent_kafka.TopicPartition(*PLACE, offset)
        consumer.commit(offsets=[place], asynchronous=False)

    commit(1)
    refused = pytest.raises(confluent_kafka.KafkaException, match=r"LOAD_IN|NOT_COORD")
    with broker.fault(effects.disk_full()), refused:
        commit(5)
    _until_it_succeeds(lambda: commit(6))
    assert _stored(broker) == 6
    consumer.close()


def _until_it_succeeds(call: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + ENOUGH_S
    while time.monotonic() < end_s:
        with contextlib.suppress(confluent_kafka.KafkaException):
            return call()
    raise AssertionError("it never succeeded")


# -- aiokafka --------------------------------------------------------------------------------------


async def _consumer(broker: Broker, **settings: Any) -> aiokafka.AIOKafkaConsumer:
    """Not started."""
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        retry_backoff_ms=20,
        **settings,
    )


async def _producer(broker: Broker, **settings: Any) -> aiokafka.AIOKafkaProducer:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=20, **settings
    )
    await producer.start()
    return producer


@saw(
    'error("REBALANCE_IN_PROGRESS")',
    "Heartbeat, once",
    "aiokafka",
    "joined again, although the group had no rebalance before that",
)
async def test_error_heartbeat(broker: Broker) -> None:
    consumer = await _consumer(broker)
    consumer.subscribe(["orders"])
    await consumer.start()
    joins = _count(broker, "JoinGroup")
    rule = broker.fault(effects.error("REBALANCE_IN_PROGRESS"), api="Heartbeat", times=1)
    await rule.fired()
    await joins.fired()
    await consumer.stop()


@saw(
    "delay_answer(0.5)",
    "Produce, longer than its request timeout",
    "aiokafka",
    "`send_and_wait()` raised RequestTimedOutError although the record is there",
)
async def test_delay_answer(broker: Broker) -> None:
    producer = await _producer(broker, request_timeout_ms=100)
    broker.fault(effects.delay_answer(0.5), api="Produce", times=1)
    with pytest.raises(RequestTimedOutError):
        await producer.send_and_wait("orders", b"value", partition=0)
    assert _records(broker) == 1
    await producer.stop()


@saw(
    "drop(handled=True)",
    "OffsetCommit, once",
    "aiokafka",
    "closed the connection after its request timeout; `commit()` sent the request again and "
    "succeeded",
)
async def test_drop_handled(broker: Broker) -> None:
    consumer = await _consumer(broker, request_timeout_ms=1_000)
    await consumer.start()
    consumer.assign([AIO_PLACE])
    await consumer.commit({AIO_PLACE: 1})
    sent = _count(broker, "OffsetCommit")
    rule = broker.fault(effects.drop(handled=True), api="OffsetCommit", times=1)
    await consumer.commit({AIO_PLACE: 5})
    assert (rule.hits, sent.hits, _stored(broker)) == (1, 2, 5)
    await consumer.stop()


@pytest.mark.parametrize(
    ("effect", "requests"), [(effects.truncated(), 2), (effects.damaged(count=1000), 1)]
)
@saw(
    "truncated()",
    "OffsetCommit, once",
    "aiokafka",
    "connected again; `commit()` sent the request again and succeeded",
)
@saw(
    "damaged(count=1000)",
    "OffsetCommit, once",
    "aiokafka",
    "read no partition in the answer; `commit()` took that for success",
)
async def test_broken_answers(broker: Broker, effect: effects.Effect, requests: int) -> None:
    consumer = await _consumer(broker)
    await consumer.start()
    consumer.assign([AIO_PLACE])
    await consumer.commit({AIO_PLACE: 1})
    sent, connected = _count(broker, "OffsetCommit"), _count(broker, "ApiVersions")
    rule = broker.fault(effect, api="OffsetCommit", times=1)
    await consumer.commit({AIO_PLACE: 5})
    assert (rule.hits, sent.hits, _stored(broker)) == (1, requests, 5)
    assert bool(connected.hits) == (requests == 2)
    await consumer.stop()


@saw(
    "slow_reading(100_000)",
    "what follows a Produce",
    "aiokafka",
    "`send_and_wait()` of 20 kB took two tenths of a second",
)
async def test_slow_reading(broker: Broker) -> None:
    producer = await _producer(broker)
    broker.fault(effects.slow_reading(100_000), api="Produce", times=1)
    await producer.send_and_wait("orders", b"value", partition=0)
    late = _count(broker, "Produce")
    began = time.monotonic()
    await producer.send_and_wait("orders", bytes(20_000), partition=0)
    assert time.monotonic() - began >= 0.1
    assert late.hits == 1
    await producer.stop()


@pytest.mark.parametrize(("effect", "hits"), [(effects.loading(60), 2), (effects.hold_joins(), 1)])
@saw("hold_joins()", "a group", "aiokafka", "`start()` waited until the rule was removed")
@saw("loading(60)", "a group", "aiokafka", "tried again until the rule was removed, then joined")
async def test_waits(broker: Broker, effect: effects.Effect, hits: int) -> None:
    rule = broker.fault(effect, group=GROUP)
    consumer = await _consumer(broker)
    consumer.subscribe(["orders"])
    started = asyncio.create_task(consumer.start())
    await rule.fired(hits)
    assert not started.done()
    rule.remove()
    await started
    assert len(consumer.assignment()) == 2
    await consumer.stop()


@saw(
    "lose_plan()",
    "a group, once",
    "aiokafka",
    "its SyncGroup ended with its request timeout; it joined again and got its partitions",
)
async def test_lose_plan(broker: Broker) -> None:
    rule = broker.fault(effects.lose_plan(), group=GROUP, times=1)
    joins = _count(broker, "JoinGroup")
    consumer = await _consumer(broker, request_timeout_ms=1_000)
    consumer.subscribe(["orders"])
    await consumer.start()
    assert (len(consumer.assignment()), rule.hits) == (2, 1)
    assert joins.hits > 2
    await consumer.stop()


@pytest.mark.parametrize(
    ("effect", "records"), [(effects.crash_before_durable(), 1), (effects.crash_when_durable(), 2)]
)
@saw(
    "crash_before_durable()",
    "Produce, and a restart",
    "aiokafka",
    "sent the record again when the broker was back: it is there once",
)
@saw(
    "crash_when_durable()",
    "Produce, and a restart",
    "aiokafka",
    "sent the record again when the broker was back: it is there twice",
)
async def test_crashes(broker: Broker, effect: effects.Effect, records: int) -> None:
    producer = await _producer(broker)
    rule = broker.fault(effect, api="Produce", times=1)
    sent = await producer.send("orders", b"value", partition=0)
    await rule.fired()
    await asyncio.to_thread(broker.restart)
    assert (await sent).offset == records - 1
    assert _records(broker) == records
    await producer.stop()


# -- the page --------------------------------------------------------------------------------------


def test_every_effect_was_seen_by_a_client() -> None:
    seen = {row.effect.partition("(")[0] for row in ROWS}
    assert seen == {name for name, made in vars(effects).items() if callable(made)} - {"Effect"}


def test_the_page_says_what_was_seen(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    [old] = re.findall(r"^\| effect \| of \|.*?\n(?!\|)", text, re.MULTILINE | re.DOTALL)
    if request.config.getoption("rewrite"):
        PAGE.write_text(text.replace(old, table()), encoding="utf-8")
        return
    assert old == table(), "pytest tests/testing/test_fault_clients.py --rewrite writes it anew"
