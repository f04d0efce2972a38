"""How long nobody read a partition, by what the clients' own listeners were told."""

from collections.abc import Sequence
from itertools import pairwise

Turns = Sequence[tuple[int, frozenset[int]]]
"""Which partitions one process owned from when on, in Unix milliseconds; none before."""


def unread_ms(processes: Sequence[Turns], partitions: int, until_ms: int) -> int:
    """Partition-milliseconds in which no process owned a partition, from the first assignment to
    `until_ms`.
    """
    turns = [
        (at_ms, number, share)
        for number, each in enumerate(processes)
        for at_ms, share in each
        if at_ms < until_ms
    ]
    turns.sort(key=lambda turn: turn[0])  # those of one process stay in order
    owned: dict[int, frozenset[int]] = {}
    total, has_begun = 0, False
    for (at_ms, number, share), (next_ms, *_) in pairwise([*turns, (until_ms, -1, frozenset())]):
        owned[number] = share
        has_begun = has_begun or bool(share)
        nobody = partitions - len(frozenset[int]().union(*owned.values()))
        total += nobody * (next_ms - at_ms) if has_begun else 0
    return total
