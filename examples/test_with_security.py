"""A broker with users, TLS and access control, and the settings that each client needs for it."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError

from groupkeeper.testing import Broker


def test_logins_over_tls() -> None:
    with Broker(topics={"orders": 1}, users={"billing": "secret"}, tls=True) as broker:
        broker.produce("orders", "first")
        consumer = KafkaConsumer(
            "orders", auto_offset_reset="earliest", **broker.for_kafka_python("billing")
        )
        assert next(consumer).value == b"first"
        consumer.close()


def test_logins_with_confluent_kafka() -> None:
    with Broker(topics={"orders": 1}, users={"billing": "secret"}, tls=True) as broker:
        broker.produce("orders", "first")
        groups = {"group.id": "billing", "auto.offset.reset": "earliest"}
        consumer = Consumer({**groups, **broker.for_confluent("billing")})
        consumer.subscribe(["orders"])
        assert consumer.poll(60).value() == b"first"
        consumer.close()


async def test_logins_with_aiokafka() -> None:
    async with Broker(topics={"orders": 1}, users={"billing": "secret"}, tls=True) as broker:
        await broker.produce("orders", "first")
        consumer = AIOKafkaConsumer(
            "orders", auto_offset_reset="earliest", **broker.for_aiokafka("billing")
        )
        async with consumer:
            record = await asyncio.wait_for(consumer.getone(), 60)
        assert record.value == b"first"


def test_rights() -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    users = {"admin": "secret", "billing": "secret"}
    with Broker(topics={"orders": 1}, users=users, settings=settings) as broker:
        consumer = KafkaConsumer(group_id="billing", **broker.for_kafka_python("billing"))
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.committed(TopicPartition("orders", 0))
        consumer.close()
        admin = KafkaAdminClient(**broker.for_kafka_python("admin"))
        assert "orders" in admin.list_topics()
        admin.close()
