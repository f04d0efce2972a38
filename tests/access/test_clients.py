"""Real clients log in with each mechanism and go through a group's life: join, read, commit, leave.

With PLAIN the user is in the settings, with SCRAM among the stored ones.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.access import tokens
from tests.access.conversations import (
    PLAIN_USERS,
    SASL,
    SCRAM_256,
    SCRAM_512,
    SCRAM_PASSWORD,
    SCRAM_USER,
)
from tests.access.secured import Secured

LOGINS = {
    "PLAIN": ("alice", PLAIN_USERS["alice"]),
    SCRAM_256: (SCRAM_USER, SCRAM_PASSWORD),
    SCRAM_512: (SCRAM_USER, SCRAM_PASSWORD),
}
VALUES = [b"one", b"two", b"three"]
WAIT_S = 30.0
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Scene = Callable[[str, str, str, tuple[str, str]], list[bytes]]
"""Bootstrap address, topic, mechanism and login -> what a group has read."""


def until_read(poll: Callable[[], list[bytes]]) -> list[bytes]:
    """All values, or those that came within the time."""
    deadline, found = time.monotonic() + WAIT_S, list[bytes]()
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += poll()
    return found


def kafka_python(where: str, topic: str, mechanism: str, login: tuple[str, str]) -> list[bytes]:
    secure: dict[str, Any] = {
        "bootstrap_servers": where,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login[0],
        "sasl_plain_password": login[1],
    }
    producer = KafkaProducer(**secure)
    for value in VALUES:
        producer.send(topic, value).get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, **secure
    )

    # Else it may assign partitions before it knows any, and does not look again for minutes.
    assert consumer.partitions_for_topic(topic)

    def poll() -> list[bytes]:
        batches = consumer.poll(200)
        return [record.value for batch in batches.values() for record in batch]

    found = until_read(poll)
    consumer.commit()
    consumer.close()
    return found


def confluent(where: str, topic: str, mechanism: str, login: tuple[str, str]) -> list[bytes]:
    secure: dict[str, Any] = {
        "bootstrap.servers": where,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": login[0],
        "sasl.password": login[1],
    }
    producer = Producer(secure)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {**secure, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])

    def poll() -> list[bytes]:
        message = consumer.poll(0.2)
        if message is None or message.error():
            return []
        return [message.value()]

    found = until_read(poll)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def aio(where: str, topic: str, mechanism: str, login: tuple[str, str]) -> list[bytes]:
    secure: dict[str, Any] = {
        "bootstrap_servers": where,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login[0],
        "sasl_plain_password": login[1],
    }

    async def scene() -> list[bytes]:
        async with AIOKafkaProducer(**secure) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        consumer = AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, **secure
        )
        async with consumer:
            async with asyncio.timeout(WAIT_S):
                found = [(await consumer.getone()).value for _ in VALUES]
            await consumer.commit()
        return found

    return asyncio.run(scene())


CLIENTS: dict[str, Scene] = {"kafka-python": kafka_python, "confluent": confluent, "aiokafka": aio}


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_of_a_client(secured: Secured, client: str, mechanism: str) -> None:
    before = secured.outcomes()
    where, topic = f"127.0.0.1:{secured.ports[SASL]}", f"{client}-{mechanism}"
    found = CLIENTS[client](where, topic, mechanism, LOGINS[mechanism])
    assert sorted(found) == sorted(VALUES)
    after = secured.outcomes()
    assert after[mechanism, "succeeded"] > before.get((mechanism, "succeeded"), 0)
    assert after.get((mechanism, "failed"), 0) == before.get((mechanism, "failed"), 0)
    committed = secured.server.group_partitions.of(topic)._partition.groups[topic].offsets
    assert committed


# -- tokens ----------------------------------------------------------------------------------------


class Provider(AbstractTokenProvider):
    """Gives aiokafka a token."""

    async def token(self) -> str:
        return tokens.good()


def test_librdkafka_with_a_token(secured: Secured) -> None:
    secure: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{secured.ports[SASL]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (tokens.good(), time.time() + 3600),
    }
    producer = Producer(secure)
    producer.produce("tokens", b"one")
    assert producer.flush(WAIT_S) == 0
    assert secured.outcomes()["OAUTHBEARER", "succeeded"] > 0


async def test_aiokafka_with_a_token(secured: Secured) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=f"127.0.0.1:{secured.ports[SASL]}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    async with producer:
        await producer.send_and_wait("tokens", b"two")
