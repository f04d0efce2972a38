"""Adds the commits of quiet times to the logs of a run, where only volume matters.

For each of its commits a process that owns partitions makes `factor` more, at a steady rhythm and
with offsets between those of its own. Batches are encoded and appended by the
production code, between those that the server wrote, in the order of time and with the epoch of the
coordinator of that time; there are no transactions in what it writes, so those are encoded by
`tests.analytics.logs`. Such a commit has the metadata `quiet`, so it can be told from the others.

Not consistent with them: the events `commits`, which count requests.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, Final

from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.protocol.record_batch import (
    decode_records,
    encode_batch,
    iter_batches,
    patch,
    read_header,
)
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    decode_key,
    decode_offset_value,
)
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from tests.analytics import logs
from tests.weeks.machine import ProcessFiles

METADATA: Final = "quiet"
APART_MS: Final = 1500
"""From the beginning and the end of an ownership, and from a restart."""
WRITE_BYTES: Final = 1 << 18
PRODUCER: Final = 4711
"""Of all transactions: one ends before the next begins."""

Tables = dict[str, list[dict[str, Any]]]
Place = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass(slots=True)
class Real:
    """What the server wrote to one partition of the log."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Largest time, epoch, bytes."""
    commits: dict[Place, tuple[list[int], list[int]]] = field(default_factory=dict)
    """Times and committed offsets."""
    records: int = 0


def factor_for(folders: Iterable[Path], records: int) -> int:
    """How many commits have to be added for each one to make so many records in all logs."""
    found = commits = 0
    for part in (each for folder in folders for each in folder.glob("__consumer_offsets-*")):
        real = read_log(part)
        found += real.records
        commits += sum(len(times) for times, _ in real.commits.values())
    return max(0, -(-(records - found) // max(1, commits)))


def add_quiet(
    folder: Path,
    to: Path,
    tables: Tables,
    factor: int,
    segment_bytes: int,
    transactional: float = 0.0,
) -> int:
    """Write the log of a partition anew, with more commits; returns how many records it has.

    Those that are added are counted in `quiet` of the table `commits`. With the chance
    `transactional` those of one time are a transaction: a batch and its marker.
    """
    real = read_log(folder)
    log = open_log(ProcessFiles(Random(0)), str(to), Limits(segment_bytes=segment_bytes))
    starts = [row["from_ms"] for row in tables["coordinators"]]
    writer = _Writer(log)
    rest = iter(real.batches)
    batch = next(rest, None)
    chance = Random(folder.name)
    for at_ms, places in groupby(_quiet(real, tables, factor), key=itemgetter(0)):
        while batch is not None and batch[0] <= at_ms:
            writer.add(batch[2], batch[1])
            batch = next(rest, None)
        records = [record for _, record in places]
        is_transaction = chance.random() < transactional
        made = (
            _transaction(records, at_ms) if is_transaction else [encode_batch(0, 0, at_ms, records)]
        )
        for each in made:
            writer.add(each, bisect_right(starts, at_ms))
    while batch is not None:
        writer.add(batch[2], batch[1])
        batch = next(rest, None)
    writer.flush()
    log.close()
    return log.next_offset


def _transaction(records: list[tuple[bytes, bytes]], at_ms: int) -> list[bytes]:
    times = {"base_time": at_ms, "max_time": at_ms}
    return [
        logs.batch(records, 0, logs.TRANSACTIONAL, PRODUCER, **times),
        logs.marker(0, PRODUCER, commit=True, **times),
    ]


class _Writer:
    """Appends batches many at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._pending: list[bytes] = []
        self._bytes = 0
        self._offset = log.next_offset

    def add(self, batch: bytes, epoch: int) -> None:
        self._pending.append(bytes(patch(batch, self._offset, epoch)))
        self._offset = read_header(self._pending[-1]).last_offset + 1
        self._bytes += len(batch)
        if self._bytes >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            self._log.append(b"".join(self._pending))
        self._pending, self._bytes = [], 0


def read_log(folder: Path) -> Real:
    """The log of one partition."""
    real = Real()
    for segment in sorted(folder.glob("*.log")):
        content = segment.read_bytes()
        for header in iter_batches(content):
            piece = content[header.position : header.position + header.size]
            real.batches.append((header.max_timestamp, header.leader_epoch, piece))
            for record in decode_records(content, header):
                real.records += 1
                key = decode_key(record.key or b"")
                if isinstance(key, OffsetCommitKey) and record.value is not None:
                    place = key.group, key.topic, key.partition
                    times, offsets = real.commits.setdefault(place, ([], []))
                    times.append(record.timestamp_ms)
                    offsets.append(decode_offset_value(record.value).offset)
    return real


def _quiet(real: Real, tables: Tables, factor: int) -> list[tuple[int, tuple[bytes, bytes]]]:
    """Time and record of what is added, in the order of time."""
    spans = _spans(tables, {place[0] for place in real.commits})
    counts = {
        (row["group"], row["client_id"], row["partition"], row["hour_ms"]): row
        for row in tables["commits"]
    }
    found = []
    for (group, topic, partition), (times, offsets) in sorted(real.commits.items()):
        key = offset_key(offset_key_head(group, topic), partition)
        for client_id, from_ms, until_ms, pace_ms in spans[group, partition]:
            for at_ms in _instants(from_ms, until_ms, pace_ms, factor, client_id):
                offset = _between(times, offsets, at_ms)
                if offset is None:
                    continue
                found.append((at_ms, (key, offset_value(offset, -1, METADATA, at_ms, -1))))
                _count(counts, tables, (group, client_id, partition, at_ms))
    found.sort(key=itemgetter(0))
    return found


def _count(counts: dict[Any, dict[str, Any]], tables: Tables, which: tuple[Any, ...]) -> None:
    group, client_id, partition, at_ms = which
    hour_ms = at_ms // 3_600_000 * 3_600_000
    row = counts.get((group, client_id, partition, hour_ms))
    if row is None:
        row = {
            "group": group,
            "client_id": client_id,
            "partition": partition,
            "hour_ms": hour_ms,
            "commits": 0,
            "quiet": 0,
        }
        counts[group, client_id, partition, hour_ms] = row
        tables["commits"].append(row)
    row["quiet"] += 1


def _instants(
    from_ms: int, until_ms: int, pace_ms: int, factor: int, client_id: str
) -> Iterator[int]:
    """Times of one process: the same for all its partitions, so that they make one batch."""
    step_ms = max(1, pace_ms // factor)
    phase = Random(client_id).randrange(step_ms)
    first = -(-(from_ms - phase) // step_ms)
    yield from range(first * step_ms + phase, until_ms, step_ms)


def _between(times: list[int], offsets: list[int], at_ms: int) -> int | None:
    """An offset between those that were really committed before and after; None before all."""
    after = bisect_right(times, at_ms)
    if not after:
        return None
    low = offsets[after - 1]
    if after == len(times) or offsets[after] < low:
        return low
    share = (at_ms - times[after - 1]) / max(1, times[after] - times[after - 1])
    return low + int((offsets[after] - low) * share)


def _spans(
    tables: Tables, groups: set[str]
) -> dict[tuple[str, int], list[tuple[str, int, int, int]]]:
    """Of each partition of each group: who consumed it from when to when, at which rhythm."""
    paces = defaultdict(list)
    for row in tables["paces"]:
        if row["group"] in groups:
            paces[row["group"], row["client_id"]].append((row["from_ms"], row["pace_ms"]))
    lives = [(row["from_ms"], row["until_ms"]) for row in tables["coordinators"]]
    spans = defaultdict(list)
    for row in tables["ownership"]:
        if row["group"] not in groups:
            continue
        steps = sorted(paces[row["group"], row["client_id"]])
        ends = [at_ms for at_ms, _ in steps[1:]] + [1 << 62]
        for (from_ms, pace_ms), end_ms in zip(steps, ends, strict=True):
            for up_ms, down_ms in lives:
                begin = max(row["from_ms"], from_ms, up_ms) + APART_MS
                end = min(row["until_ms"] or end_ms, end_ms, down_ms) - APART_MS
                if pace_ms and begin < end:
                    span = row["client_id"], begin, end, pace_ms
                    spans[row["group"], row["partition"]].append(span)
    return spans
