"""The server of the real clients: how ours is set, or a broker that another person runs.

An address in GROUPKEEPER_TEST_BOOTSTRAP takes the place of our server by that of any broker, Apache
Kafka's for one: what the tests expect is Kafka's.
"""

import os

BOOTSTRAP_VARIABLE = "GROUPKEEPER_TEST_BOOTSTRAP"
# Read on import: when tests run, nothing of ours is left in the environment.
EXTERNAL_BOOTSTRAP = os.environ.get(BOOTSTRAP_VARIABLE)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "6",
}


class External:
    """A broker that another person runs: the tests know its address and do nothing to it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def stop(self) -> None:
        """Leave it as it is."""

    def tail(self) -> str:
        return "(an external broker: see its own log)"
