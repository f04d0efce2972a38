"""The subscriptions and assignments that clients of a replay send: those of consumers, of one
topic.
"""

from collections.abc import Sequence
from typing import Final

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_subscription,
    read_assigned,
)

TOPIC: Final = "topic"
_VERSION: Final = 1
"""The first one with owned partitions (KIP-429)."""
_encode_subscription = encoder(Subscription, _VERSION, Framing.BARE)
_encode_assignment = encoder(Assignment, _VERSION, Framing.BARE)


def subscription(owned: Sequence[int], mark: str) -> bytes:
    """Return the metadata of a member that owns these partitions; another `mark` makes other
    bytes.
    """
    return _encode_subscription(
        Subscription(
            version=_VERSION,
            topics=[TOPIC],
            user_data=mark.encode() or None,
            owned_partitions=_topics(owned),
        )
    )


def assignment(numbers: Sequence[int]) -> bytes:
    """Return the assignment of these partitions."""
    return _encode_assignment(Assignment(version=_VERSION, assigned_partitions=_topics(numbers)))


def _topics(numbers: Sequence[int]) -> list[TopicPartition]:
    return [TopicPartition(topic=TOPIC, partitions=[*numbers])] if numbers else []


def owned_in(metadata: bytes) -> list[int]:
    """Return the partitions that a member owns."""
    owned = decode_subscription(metadata).owned_partitions
    return [number for each in owned for number in each.partitions]


def assigned_in(data: bytes) -> list[int]:
    """Return the partitions of an assignment; none of no bytes."""
    return (read_assigned(data) or {}).get(TOPIC, [])
