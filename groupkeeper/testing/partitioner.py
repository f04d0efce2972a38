"""Computes the partition of a record from its key, like Kafka's default partitioner.

Source: Kafka's `BuiltInPartitioner.partitionForKey` and `Utils.murmur2`.
"""

from struct import iter_unpack
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition for a key, from 0 to `partitions` - 1."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of some bytes, unsigned, with Kafka's seed."""
    whole = len(data) & ~3
    state = _SEED ^ len(data)
    for (word,) in iter_unpack("<I", data[:whole]):
        mixed = word * _FACTOR & _MASK
        state = (state * _FACTOR & _MASK) ^ ((mixed ^ mixed >> 24) * _FACTOR & _MASK)
    if rest := data[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15
