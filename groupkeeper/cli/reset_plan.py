"""Where a reset of offsets goes to: the targets of `groups reset-offsets`, and the files of plans.

Source: Kafka's `GroupOffsetsResetter`, `Utils.getDateTime`, `CsvUtils`, `java.time.Duration`.
"""

import csv
import io
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from groupkeeper.cli.cluster import Refused

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import Partition

    Offsets = dict[Partition, int]
    Warn = Callable[[str], None]

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}


class Kind(StrEnum):
    """The options of which one is given; the values are their names."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    FILE = "--from-file"


@dataclass(slots=True, frozen=True)
class Target:
    """`number` is an offset, a number of records, or a time (epoch ms), as `kind` says."""

    kind: Kind
    number: int = 0


def read_datetime(text: str) -> int:
    """Epoch milliseconds; UTC unless the text has a zone. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def read_duration(text: str) -> int:
    """The milliseconds of PnDTnHnMnS. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    parts = {} if found is None else {each: found[each] for each in _SECONDS if found[each]}
    if not parts or text.upper().endswith("T"):
        raise ValueError(f"'{text}' is no duration such as P1D, PT2H30M or PT90S")
    seconds = sum(float(value) * _SECONDS[each] for each, value in parts.items())
    assert found is not None
    return round((-seconds if found["sign"] == "-" else seconds) * 1000)


def ago(milliseconds: int) -> int:
    """The time (epoch ms) so long before now."""
    return int(time.time() * 1000) - milliseconds


async def plan(
    client: "Client",
    target: Target,
    partitions: "Collection[Partition]",
    committed: "Mapping[Partition, int]",
    warn: "Warn",
) -> "Offsets":
    """The new offset of each partition. Raises Refused if one has none; `warn` gets remarks."""
    from groupkeeper.client.partitions import EARLIEST

    match target.kind:
        case Kind.EARLIEST:
            return await _known(client, partitions, EARLIEST)
        case Kind.DATETIME | Kind.DURATION:
            return await _by_time(client, partitions, target.number, warn)
        case Kind.OFFSET:
            wanted = dict.fromkeys(partitions, target.number)
            return await in_range(client, wanted, warn)
        case Kind.SHIFT:
            if missing := sorted(each for each in partitions if each not in committed):
                told = f"{named(missing[0])} has no committed offset that can be shifted"
                raise Refused(f"{told}: name the partitions that have one with --topic")
            wanted = {each: committed[each] + target.number for each in partitions}
            return await in_range(client, wanted, warn)
    kept = {each: committed[each] for each in partitions if each in committed}
    if target.kind is Kind.LATEST:
        kept = {}
    return kept | await latest(client, [each for each in partitions if each not in kept])


async def latest(client: "Client", partitions: "Collection[Partition]") -> "Offsets":
    """The ends of logs."""
    from groupkeeper.client.partitions import LATEST

    return await _known(client, partitions, LATEST)


async def _known(client: "Client", partitions: "Collection[Partition]", time_ms: int) -> "Offsets":
    """Raises Refused for a partition of which the offset cannot be had."""
    from groupkeeper.client.partitions import list_offsets

    found = await list_offsets(client, partitions, time_ms)
    known = {each: offset for each, offset in found.items() if offset is not None}
    if missing := sorted(found.keys() - known.keys()):
        raise Refused(f"the offsets of {named(missing[0])} cannot be had: does it exist?")
    return known


async def _by_time(
    client: "Client", partitions: "Collection[Partition]", time_ms: int, warn: "Warn"
) -> "Offsets":
    """The first records from a time on; the end of a log where all records are older."""
    from groupkeeper.client.partitions import NO_SUCH_RECORD

    found = await _known(client, partitions, time_ms)
    older = [each for each, offset in found.items() if offset == NO_SUCH_RECORD]
    for each in older:
        warn(f"{named(each)} has no record from that time on: its end is taken")
    return found | await latest(client, older)


async def in_range(client: "Client", wanted: "Mapping[Partition, int]", warn: "Warn") -> "Offsets":
    """The offsets, moved to the start or the end of the log where they are beyond these."""
    from groupkeeper.client.partitions import EARLIEST

    starts = await _known(client, wanted, EARLIEST)
    ends = await latest(client, wanted)
    found = {}
    for each, offset in wanted.items():
        found[each] = min(max(offset, starts[each]), ends[each])
        if found[each] < offset:
            warn(f"{named(each)}: {offset} is beyond the end of the log: {found[each]} is taken")
        elif found[each] > offset:
            warn(f"{named(each)}: {offset} is before the start of the log: {found[each]} is taken")
    return found


def named(partition: "Partition") -> str:
    """As options name it."""
    return f"{partition[0]}:{partition[1]}"


def read_plans(text: str, group: str | None) -> "dict[str, Offsets]":
    """Offsets by group, from lines `group,topic,partition,offset`, or `topic,partition,offset` for
    the one group that is named. Raises ValueError with the line.
    """
    plans: dict[str, Offsets] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        name, *place = row if len(row) != 3 or group is None else [group, *row]
        try:
            topic, partition, offset = place[0], int(place[1]), int(place[2])
        except (ValueError, IndexError):
            topic, partition, offset = "", -1, -1
        if len(place) != 3 or min(partition, offset) < 0:
            form = "[group,]topic,partition,offset" if group else "group,topic,partition,offset"
            raise ValueError(f"line {number} is not {form}")
        plans.setdefault(name, {})[topic, partition] = offset
    return plans


def write_plans(plans: "Mapping[str, Offsets]", *, with_group: bool) -> str:
    """The lines that `read_plans` reads."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plans.items():
        for (topic, partition), offset in sorted(offsets.items()):
            row: Sequence[object] = (topic, partition, offset)
            writer.writerow((group, *row) if with_group else row)
    return out.getvalue()
