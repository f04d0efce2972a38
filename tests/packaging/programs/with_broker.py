"""A user's test: the broker of the plugin, beside packages with our folders' names."""

import pytest

import coordinator.group
import protocol.message
import storage.log


@pytest.mark.kafka(topics={"orders": 1})
def test_orders(kafka_broker):
    kafka_broker.produce("orders", "x")
    assert [each.value for each in kafka_broker.records("orders")] == [b"x"]
    for module in coordinator.group, protocol.message, storage.log:
        assert module.OWNER.startswith("the user, ")
