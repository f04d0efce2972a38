"""A Kafka broker for tests, in the process of the test: any client connects to it.

Groups, offsets and records are those of the server; time, faults and restarts are in the hands of
the test. See docs/testing-your-consumers.md.
"""

from groupkeeper.testing.broker import AsyncBroker, Broker
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.seeding import Record

__all__ = ["AsyncBroker", "Broker", "BrokerDown", "Record", "RequestFailed"]
