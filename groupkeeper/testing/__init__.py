"""A Kafka broker for tests, in the process of the test: any client connects to it.

Groups, offsets and records are those of the server; time, faults and restarts are in the hands of
the test. See docs/testing-your-consumers.md.
"""

from groupkeeper.testing import effects
from groupkeeper.testing.broker import AsyncBroker, Broker
from groupkeeper.testing.errors import BrokerDown, RequestFailed, RuleNeverFired, WrongArgument
from groupkeeper.testing.rules import Rule

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerDown",
    "RequestFailed",
    "Rule",
    "RuleNeverFired",
    "WrongArgument",
    "effects",
]
