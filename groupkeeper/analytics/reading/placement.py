"""Drops log partitions that cannot hold records of some groups from a plan.

A coordinator places a group by its id and the number of partitions of `__consumer_offsets`. No file
of a copy states that number, so it is inferred from the first records of each partition.
"""

from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from itertools import groupby, islice
from typing import Final

from groupkeeper.analytics.reading import files, parse, walk
from groupkeeper.analytics.reading.plan import EVERYTHING, Plan, Split
from groupkeeper.protocol.placement import partition_of

MOST_PARTITIONS: Final = 10_000
"""More than any cluster has for `__consumer_offsets`; the default is 50."""
_SAMPLE_BYTES: Final = 8 * 1024
_HASHES: Final = 2**31
"""With this many partitions, the partition of a group equals the absolute value of its hash."""


def of_groups(plan: Plan, groups: Iterable[str]) -> Plan:
    """Return the plan without partitions that cannot hold these groups; the same plan if the
    sampled records do not agree on a number of partitions.
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
    """The numbers of partitions that place each group where it was found; none without any."""
    pairs = list(found)
    least = max((partition for _, partition in pairs), default=0) + 1
    numbers = list(range(least, MOST_PARTITIONS + 1)) if pairs else []
    for group, partition in pairs:
        place = partition_of(group, _HASHES)
        numbers = [number for number in numbers if place % number == partition]
    return numbers


def _sample(splits: Iterable[Split]) -> set[tuple[str, int]]:
    """Return groups in the first records of each partition, with the partition."""
    return {
        (name, partition)
        for partition, of_one in groupby(splits, key=lambda split: split.partition)
        for name in _first_groups(next(of_one))
    }


def _first_groups(split: Split) -> set[str]:
    """Return the groups in the first batch or, if it has none, in the first bytes."""
    try:
        with files.place(split.path).open("rb") as file:
            file.seek(split.start)
            data = file.read(min(split.size, _SAMPLE_BYTES))
    except OSError:
        return set()
    second = islice(walk.headers(BytesIO(data), 0, len(data)), 1, 2)
    for size in (*(each.position for each in second), len(data)):
        head = replace(split, end=split.start + size, last=False, notes=(), selection=EVERYTHING)
        rows = parse(data[:size], head, ["group"])
        names = {name for batch in rows for name in batch.column("group").to_pylist()}
        if names := names - {None}:
            return names
    return set()
