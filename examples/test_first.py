"""A first test: a consumer of your choice, and a broker that is there for one test."""

import asyncio

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from groupkeeper.testing import Broker


def test_with_kafka_python() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "first")
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        )
        assert next(consumer).value == b"first"
        consumer.close()


def test_with_confluent_kafka() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "first")
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        assert consumer.poll(10).value() == b"first"
        consumer.close()


async def test_with_aiokafka() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        await broker.produce("orders", "first")
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with consumer:
            record = await asyncio.wait_for(consumer.getone(), 60)
        assert record.value == b"first"
