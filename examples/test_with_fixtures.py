"""The fixtures of the pytest plugin, which is there as soon as groupkeeper is installed."""

import pytest

from groupkeeper.testing import Broker


@pytest.mark.kafka(topics={"orders": 6}, settings={"group.max.size": 2})
def test_a_fresh_broker(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", "first")
    assert len(kafka_broker.records("orders")) == 1


def test_a_broker_that_is_emptied_before_each_test(
    kafka_broker_shared: Broker, kafka_topic: str
) -> None:
    assert kafka_broker_shared.records(kafka_topic) == []
