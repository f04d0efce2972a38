"""An in-process Kafka broker for tests; any Kafka client can connect to it.

Groups, offsets and records are handled by the real server. The test controls time, faults and
restarts. See docs/testing-your-consumers.md.
"""

from groupkeeper.settings.table import SettingsError
from groupkeeper.testing import effects
from groupkeeper.testing.broker import AsyncBroker, Broker
from groupkeeper.testing.cluster.nodes import AsyncNode, Node
from groupkeeper.testing.errors import (
    BrokerDown,
    RequestFailed,
    RuleNeverFired,
    WaitTimedOut,
    WrongArgument,
)
from groupkeeper.testing.faults.rules import Rule
from groupkeeper.testing.group import AsyncGroup, Group
from groupkeeper.testing.seeding import Record
from groupkeeper.testing.views import GroupNow, MemberNow, Round

__all__ = [
    "AsyncBroker",
    "AsyncGroup",
    "AsyncNode",
    "Broker",
    "BrokerDown",
    "Group",
    "GroupNow",
    "MemberNow",
    "Node",
    "Record",
    "RequestFailed",
    "Round",
    "Rule",
    "RuleNeverFired",
    "SettingsError",
    "WaitTimedOut",
    "WrongArgument",
    "effects",
]
