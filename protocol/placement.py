"""Computes the partition of a group by Kafka's rule, so that Kafka's tools use the same one.

Source: `GroupCoordinatorService.partitionFor`.
"""

from struct import iter_unpack, unpack
from typing import Final

STATUS_HINT: Final = "`groupkeeper status` says why"
"""End of FindCoordinator's message about a partition that is not served, by which our commands
recognize that no other coordinator will take over."""
_FEW: Final = 128
"""Most units that are hashed one by one."""
_FOLDS: Final = 5
_FOLDED_BYTES: Final = 2 << _FOLDS
"""Bytes of the units that are folded into one number."""


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, as a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    if len(units) <= 2 * _FEW:
        for unit in unpack(f">{len(units) // 2}H", units):
            value = 31 * value + unit & 0xFFFFFFFF
    else:
        factor = 31 ** (1 << _FOLDS)
        for (number,) in reversed([*iter_unpack(f"<I{_FOLDED_BYTES - 4}x", _folded(units))]):
            value = factor * value + number & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def _folded(units: bytes) -> bytes:
    """Return the hash of every 32 units, the last ones first, in 64 bytes each, little-endian. A
    client may send ids of 30 kB, which take 2 ms unit by unit.

    One large integer holds all units. A fold adds each unit to 31 times the one before, all at the
    same time, in the room of both; the next fold does the same with pairs. For each unit a hash
    grows by five bits, and its room by sixteen.
    """
    size = -(-len(units) // _FOLDED_BYTES) * _FOLDED_BYTES
    number = int.from_bytes(units, "big")  # a longer text begins with zeros, which count nothing
    for fold in range(_FOLDS):
        room = 2 << fold
        mask = int.from_bytes((b"\0" * room + b"\xff" * room) * (size // room // 2), "big")
        number = (number >> 8 * room & mask) * 31 ** (1 << fold) + (number & mask)
    return number.to_bytes(size, "little")


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` for a group: Kafka's `Utils.abs(hash) % n`.

    The absolute value of the smallest integer is 0 there, not itself.
    """
    value = java_hash(group_id)
    return 0 if value == -0x8000_0000 else abs(value) % partitions
