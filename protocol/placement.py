"""The partition of a group, by Kafka's rule, so that its tools look in the same place.

Source: `GroupCoordinatorService.partitionFor`.
"""

from typing import Final

STATUS_HINT: Final = "`groupkeeper status` says why"
"""Ends what FindCoordinator says of a partition that is not served: our commands then do not wait
for another coordinator."""


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, as a signed 32-bit integer."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_of(group_id: str, partitions: int) -> int:
    """Partition of `__consumer_offsets` for a group: Kafka's `Utils.abs(hash) % n`.

    The absolute value of the smallest integer is 0 there, not itself.
    """
    value = java_hash(group_id)
    return 0 if value == -0x8000_0000 else abs(value) % partitions
