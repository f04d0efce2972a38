"""Which log partitions can hold records of a group, so that the others need not be read.

A coordinator places a group by its name and the number of partitions of `__consumer_offsets`. No
file of a copy tells that number, so it is found from the records: the first ones of each partition
must be where it places them.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Final

from groupkeeper.analytics.reading.parse import parse_split
from groupkeeper.analytics.reading.plan import Plan, Split
from groupkeeper.protocol.placement import partition_of

MOST_PARTITIONS: Final = 10_000
"""No cluster has more of `__consumer_offsets`; the default is 50."""
_SAMPLE_BYTES: Final = 8 * 1024


def of_groups(plan: Plan, groups: Iterable[str]) -> Plan:
    """The plan without the partitions that cannot hold these groups. The same plan if the records
    that were looked at agree on no number of partitions.
    """
    splits = [split for chunk in plan.chunks for split in chunk]
    numbers = possible_counts(_sample(splits))
    if not numbers:
        return plan
    wanted = {partition_of(group, number) for group in groups for number in numbers}
    few = [tuple(each for each in chunk if each.partition in wanted) for chunk in plan.chunks]
    left = [split for chunk in few for split in chunk]
    return Plan(
        tuple(filter(None, few)),
        len({split.partition for split in left}),
        len({split.path for split in left}),
        sum(split.size for split in left),
    )


def possible_counts(found: Iterable[tuple[str, int]]) -> list[int]:
    """Numbers of partitions that place each group in the partition where it was found; none if
    nothing was found.
    """
    pairs = list(found)
    least = max((partition for _, partition in pairs), default=0) + 1
    numbers = list(range(least, MOST_PARTITIONS + 1)) if pairs else []
    for group, partition in pairs:
        numbers = [number for number in numbers if partition_of(group, number) == partition]
    return numbers


def _sample(splits: Iterable[Split]) -> set[tuple[str, int]]:
    """Groups in the first records of each partition, with the partition."""
    found: set[tuple[str, int]] = set()
    for partition, of_one in groupby(splits, key=lambda split: split.partition):
        first = next(of_one)
        end = min(first.end, first.start + _SAMPLE_BYTES)
        head = replace(first, end=end, last=False, notes=())
        for batch in parse_split(head, "reference", ["group"]):
            names = batch.column("group").unique().drop_null().to_pylist()
            found.update((name, partition) for name in names)
    return found
