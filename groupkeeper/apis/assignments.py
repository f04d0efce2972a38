"""Whether the brokers that a client names for a partition can have it: there is one broker.

Not how many partitions there are. Source: Kafka's
``ReplicationControlManager.validateManualPartitionAssignment``.
"""

from collections.abc import Sequence

from groupkeeper.protocol.errors import ErrorCode

INVALID_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
"""The error code that belongs to a complaint."""


def complaint(broker_ids: Sequence[int], node_id: int) -> str | None:
    """What is wrong with one partition's brokers, or None."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    for broker_id in sorted(broker_ids):
        if broker_id != node_id:
            return (
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
    if len(broker_ids) > 1:
        return f"The manual partition assignment includes the broker {node_id} more than once."
    return None
