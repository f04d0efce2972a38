"""The records of a group in Apache Kafka's log, kept with each play: what is inferred from them can
be judged anew with today's code, and a record of each play is a test for whoever changes it.
"""

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import plan
from groupkeeper.history.newer_topics import id_of, id_text
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rounds import Folding
from groupkeeper.history.rows import ALL
from groupkeeper.protocol.placement import partition_of
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.watch.records import LogReader
from groupkeeper.why.entries import entry_json
from tests.truth.observed.cluster import CONSUMER_SESSION, OFFSETS_PARTITIONS

Item = GroupRecord | CommitRun
Line = list[Any]
"""An item as JSON: `r` or `c`, and its fields; bytes in base64."""


def recorded(log_dir: Path, group: str, until_ms: int | None = None) -> list[Line]:
    """The group's records in the log directory of a broker, up to a time."""
    partition = partition_of(group, OFFSETS_PARTITIONS)
    reader, found, offset = LogReader(partition, group), list[Line](), 0
    for segment in sorted(log_dir.glob(f"__consumer_offsets-{partition}/*.log")):
        offset, items = reader.feed(segment.read_bytes(), offset)
        found += [line_of(each) for each in items if _is_of_play(each, until_ms)]
    return found


def _is_of_play(item: object, until_ms: int | None) -> bool:
    if isinstance(item, CommitRun):
        return True
    return isinstance(item, GroupRecord) and (until_ms is None or item.time_ms <= until_ms)


def line_of(item: Item) -> Line:
    """An item as JSON."""
    if isinstance(item, CommitRun):
        return ["c", *item]
    return ["r", *item[:-2], *(_text(each) for each in item[-2:])]


def item_of(line: Line) -> Item:
    """An item from JSON."""
    kind, *fields = line
    if kind == "c":
        return CommitRun(*fields)
    return GroupRecord(*fields[:-2], *(_bytes(each) for each in fields[-2:]))


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def topics_in(log_dir: Path) -> dict[str, str]:
    """Names of the topics in the log directory of a broker, by id."""
    return {id_text(topic): name for topic, name in topic_names(plan([log_dir])).items()}


def inferred(
    lines: Iterable[Line], group: str, names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """What today's code infers from the records: entries as `groupkeeper why --json` has them.
    `names`: names of topics by id.
    """
    items = [item_of(each) for each in lines]
    known = {id_of(topic): name for topic, name in (names or {}).items()}
    events, folding = GroupEvents(group, known, {group: CONSUMER_SESSION}), Folding()
    told = events.take(items, ALL)
    entries = [entry for each in told for entry in folding.add(each.stored())]
    return [entry_json(each) for each in (*entries, *folding.rest())]
