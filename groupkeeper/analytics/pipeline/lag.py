"""Computes rows of `lag` from rows of `commit_minutes` and the topics' logs beside the analysed
ones, and of `log_ends` from the last commits.

A row is computed together with its minute, from the present log of the topic: before retention
removes the records. It never changes once the minute is over; unfinished minutes are computed again
by the next run.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from groupkeeper.analytics.reading.topic_log import NotKnown, TopicLog, TopicLogs
from groupkeeper.analytics.schemas import ENDS, TABLES
from groupkeeper.history.rows import instant

LAG: Final = TABLES["lag"].schema
DELETED: Final = "deleted"
COMPACTED: Final = "compacted"
NO_TIME: Final = "no_time"
UNREADABLE: Final = "unreadable"
AHEAD: Final = "ahead"
"""Values of `note`."""
_DELETE_HORIZON: Final = 0x40
_APPEND_TIME: Final = 0x08
_PARTITIONS: Final = 2**32
_MADE: Final = ("end_offset", "lag", "lag_ms", "note")

_Row = dict[str, Any]  # of the table


class Sample(NamedTuple):
    """The lag of one commit: columns of the table."""

    end_offset: int
    lag: int
    lag_ms: int | None
    note: str | None


def sample(log: TopicLog, time: int, committed: int) -> Sample | None:
    """The lag of a commit at a time in epoch ms; None if the log's end then is unknown."""
    end = log.end_at(time)
    if end is None or committed < 0:
        return None
    if committed >= end:
        return Sample(end, 0, 0, AHEAD if committed > end else None)
    written, note = _written(log, committed)
    return Sample(end, end - committed, max(0, time - written) if note is None else None, note)


def _written(log: TopicLog, offset: int) -> tuple[int, str | None]:
    """Return the timestamp of the record at an offset, or why it is unknown.

    Inside a batch, the newest timestamp of the batch stands in: only headers are read.
    """
    if log.start is None or offset < log.start:
        return -1, DELETED
    try:
        batch = log.from_offset(offset)
    except (OSError, NotKnown):
        return -1, UNREADABLE
    if batch is None:
        return -1, UNREADABLE
    is_cleaned = batch.records < batch.until - batch.base or batch.attributes & _DELETE_HORIZON
    if batch.base > offset or is_cleaned:
        return -1, COMPACTED
    is_first = batch.base == offset and not batch.attributes & _APPEND_TIME
    time = batch.base_time if is_first else batch.max_time
    return (time, None) if time >= 0 else (-1, NO_TIME)


class Lags:
    """Computes rows of `lag`; `data` are the data folders."""

    def __init__(self, data: Sequence[str]) -> None:
        self._logs = TopicLogs(data)

    def of(self, minutes: pa.Table) -> pa.Table:
        """Return the rows of minutes whose log ends are known."""
        found = [LAG.empty_table()]
        for topic, partition, places in _by_partition(minutes):
            log = self._logs.open(topic, partition)
            if log is not None:
                with closing(log):
                    found.append(_rows(log, minutes.take(places)))
        return pa.concat_tables(found)


def _by_partition(minutes: pa.Table) -> Iterator[tuple[str, int, pa.Array]]:
    """Yield the row numbers of each partition of a topic."""
    topics = minutes.column("topic").combine_chunks().dictionary_encode()
    partitions = minutes.column("topic_partition").to_numpy().astype(np.int64)
    codes = topics.indices.to_numpy().astype(np.int64) * _PARTITIONS + partitions
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        topic, partition = divmod(int(codes[order[start]]), _PARTITIONS)
        yield topics.dictionary[topic].as_py(), partition, pa.array(order[start:end])


def _rows(log: TopicLog, minutes: pa.Table) -> pa.Table:
    """Return rows in order of time, so that successive lookups are close in the log."""
    minutes = minutes.sort_by("last_time")
    times = minutes.column("last_time").cast(pa.int64()).to_pylist()
    offsets = minutes.column("last_offset").to_pylist()
    samples = [sample(log, *each) for each in zip(times, offsets, strict=True)]
    known = [each for each in samples if each is not None]
    told = minutes.filter(pa.array([each is not None for each in samples], pa.bool_()))
    columns = [told.column(name) for name in ("group", "topic", "topic_partition")]
    columns += [told.column("last_time"), told.column("last_offset")]
    made = zip(*known, strict=True) if known else [()] * len(_MADE)
    columns += [
        pa.array(each, LAG.field(name).type) for name, each in zip(_MADE, made, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=LAG)


def ends_of(offsets: pa.Table, data: Sequence[str]) -> pa.Table:
    """Return the rows of `log_ends` for the last commits (`pipeline.partitions.OFFSETS`), with the
    ends of the logs that are in these data folders.
    """
    logs, found = TopicLogs(data), [ENDS.schema.empty_table()]
    known = [name for name in ENDS.schema.names if name in offsets.column_names]
    for topic, partition, places in _by_partition(offsets):
        rows = offsets.take(places).select(known).sort_by("committed_offset").to_pylist()
        log = logs.open(topic, partition)
        if log is not None:
            with closing(log):
                end = log.end()
                rows = [row | _waiting(log, *end, row) if end else row for row in rows]
        found.append(pa.Table.from_pylist(rows, ENDS.schema))
    return pa.concat_tables(found)


def _waiting(log: TopicLog, end: int, end_ms: int, row: _Row) -> _Row:
    committed = row["committed_offset"]
    since_ms, note = -1, AHEAD if committed > end else None
    if committed < end:
        since_ms, note = _written(log, max(committed, 0))
    return {
        "end_offset": end,
        "end_time": instant(end_ms),
        "lag": max(0, end - committed),
        "waiting_since": instant(since_ms),
        "note": note,
    }
