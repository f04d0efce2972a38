"""Stores the events and the state of an observer in its data directory.

Theory of operation. Each partition of `__consumer_offsets` has a shard in `Store` with two logs:
`__group_events-N`, in the format of docs/events.md, and `__observer-N` with the state of
`PartitionWatch`. Events are durable before the next response is folded, the state now and then:
what was read since is read again after a crash, up to the last event that is stored. The state log
is not compacted: from time to time all of its records are written anew, and everything before them
is deleted (docs/decisions/026-observer.md).

All methods but `log_of` and `is_new` are for one thread, and raise StorageError and OSError; the
process then has to end.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from groupkeeper.groups.event_limits import EVENT_BYTES, Personal, fitting
from groupkeeper.history.rows import Told
from groupkeeper.protocol.group_events import TOPIC, Event, decode
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.protocol.timed_batch import TimedRecord, size_of_record
from groupkeeper.server.unusable import opening_directory
from groupkeeper.storage.errors import Corrupt, Locked
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append, TimedAppend
from groupkeeper.storage.observer_mark import OtherDirectory, check_mark
from groupkeeper.storage.store import Store
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.partition import FoldStep, PartitionWatch, StateRecord
from groupkeeper.watch.records import LAST_OFFSET

STATE_TOPIC: Final = "__observer"
"""Name of the logs of the state, without the partition."""
FLUSH_BYTES: Final = 1024 * 1024
"""Size of a batch of events, and of the part of a checkpoint that one flush writes; larger records
are written alone."""
STATE_SEGMENT_BYTES: Final = 1024 * 1024
"""Size at which a segment of the state rolls: only whole segments are deleted."""
TAIL: Final = 16
"""How many of the last events are read to find the last one."""
STATE_LEAST: Final = 4 * 1024 * 1024
"""A state log below this size is not written anew."""
STATE_GROWTH: Final = 3
"""A state log is written anew when it is this many times as large as it has to be."""


@dataclass(slots=True)
class _Shard:
    """The logs of one partition; None until the first append, if they are new."""

    epoch: int
    events: Log | None = None
    state: Log | None = None
    next_seq: int = 0
    state_end: int = 0
    """Offset of the next record of the state."""
    state_bytes: int = 0
    """Bytes of the state log since it was written anew."""
    needed_bytes: int = 0
    """Bytes of the newest records of all keys then."""


class WatchStore:
    """The data directory, locked until `close`."""

    def __init__(
        self, files: Files, data_dir: str, partitions: int, cluster: str, wall_ms: Callable[[], int]
    ) -> None:
        """Lock a directory, which is made if it is missing. Raises OtherDirectory and Locked."""
        self._files = files
        try:
            with opening_directory(data_dir, "--data"):
                check_mark(files, data_dir, cluster)
                self.store = Store(files, data_dir, 0)
        except Locked as problem:
            line = f"{data_dir} is in use by another observer: stop it, or choose another --data"
            raise Locked(line) from problem
        self._wall_ms = wall_ms
        try:
            self._check_partitions(partitions)
            self._shards = [_Shard(self.store.claim(number)) for number in range(partitions)]
            self.directory_id = self.store.write_format(partitions)
        except BaseException:
            self.store.leave()
            raise
        self.personal = Personal("keep", "")
        """How addresses are stored; set before the first event."""
        self.event_limits = Limits()
        """When event logs begin a new segment; set before `open`."""
        self.events_stored = 0
        self.events_dropped = 0
        """Events that were too large, and left out."""

    def _check_partitions(self, partitions: int) -> None:
        known = self.store.known_shards()
        if known not in (0, partitions):
            raise OtherDirectory(
                f"{self.store.data_dir} is of a topic with {known} partitions, and the topic of the"
                f" cluster has {partitions} now: its groups are in other partitions; choose another"
                " --data"
            )

    # -- logs ------------------------------------------------------------------------------------

    def log_of(self, partition: int) -> Log | None:
        """Return the event log of a partition; None before its first event. Thread-safe."""
        found = 0 <= partition < len(self._shards)
        return self._shards[partition].events if found else None

    def is_new(self, partition: int) -> bool:
        """Return whether a partition never had events. Thread-safe after `open`."""
        return self._shards[partition].events is None

    def open(self, partition: int, answers: ClusterAnswers | None = None) -> PartitionWatch:
        """Open the logs of a partition, and return its fold as of the last checkpoint."""
        shard, store = self._shards[partition], self.store
        events, state = f"{TOPIC}-{partition}", f"{STATE_TOPIC}-{partition}"
        if not store.is_new(events):
            shard.events = self._opened(events)
            shard.events.limits = self.event_limits
            shard.next_seq = shard.events.next_offset
        if store.is_new(state):
            fold = PartitionWatch(partition, answers=answers)
            if shard.events is not None:
                fold.leave_out(*_last_event(shard.events))
            return fold
        shard.state = log = self._opened(state)
        log.limits = replace(log.limits, segment_bytes=STATE_SEGMENT_BYTES)
        shard.state_end = log.next_offset
        records = _newest(log)
        shard.needed_bytes = sum(len(key) + len(value) for key, value in records.items())
        shard.state_bytes = log.size
        try:
            fold = PartitionWatch.restore(partition, records, answers=answers)
        except (ValueError, KeyError, TypeError) as problem:
            raise Corrupt(f"{log.folder}: not the state of an observer: {problem}") from problem
        if shard.events is not None:
            fold.leave_out(*_last_event(shard.events))
        return fold

    def _opened(self, name: str) -> Log:
        log = self.store.open_log(name)
        return self._with_epoch(log)

    def _with_epoch(self, log: Log) -> Log:
        number = int(log.name.rpartition("-")[2])
        if self._shards[number].epoch < log.last_epoch:  # of a copied folder
            self._shards[number].epoch = self.store.claim(number, log.last_epoch)
        return log

    # -- appending -------------------------------------------------------------------------------

    def feed(self, fold: PartitionWatch, data: bytes, log_end: int = LAST_OFFSET) -> FoldStep:
        """Add a response, and make its events durable. Raises CorruptBatch as the fold does."""
        step = fold.feed(data, log_end)
        if step.events:
            self._commit_events(fold.partition, step.events)
        return step

    def lose(self, fold: PartitionWatch, offset: int, why: str, at_ms: int) -> FoldStep:
        """Note a loss of records (`PartitionWatch.lose`), durably."""
        step = fold.lose(offset, why, at_ms)
        self._commit_events(fold.partition, step.events)
        self._write(fold.partition, fold.checkpoint())
        return step

    def checkpoint(self, fold: PartitionWatch) -> None:
        """Store the state. The next process reads the log from here on."""
        number = fold.partition
        shard = self._shards[number]
        limit = max(STATE_LEAST, STATE_GROWTH * shard.needed_bytes)
        if shard.state_bytes < limit:
            self._write(number, fold.checkpoint())
            return
        start, records = shard.state_end, fold.whole()
        shard.state_bytes = 0
        self._write(number, records)
        shard.needed_bytes = shard.state_bytes
        self.store.catch_up()
        assert shard.state is not None, "just written"
        shard.state.delete_before(start)

    def catch_up(self) -> None:
        """Bring the segments up to the journal, so that readers see the last events."""
        self.store.catch_up()

    def _write(self, partition: int, records: Iterable[StateRecord]) -> None:
        """Write the records of a checkpoint; the last one completes it."""
        shard = self._shards[partition]
        if shard.state is None:
            shard.state = log = self.store.open_new(f"{STATE_TOPIC}-{partition}")
            log.limits = replace(log.limits, segment_bytes=STATE_SEGMENT_BYTES)
        for piece in _pieces(records):
            self._commit(Append(shard.state, shard.epoch, self._wall_ms(), piece))
            shard.state_end += len(piece)
            shard.state_bytes += sum(len(key) + len(value or b"") for key, value in piece)

    def _commit_events(self, partition: int, events: Iterable[Told]) -> None:
        shard = self._shards[partition]
        batches = self._batches(shard.next_seq, events)
        if not batches:
            return
        if shard.events is None:
            shard.events = self.store.open_new(f"{TOPIC}-{partition}")
            shard.events.limits = self.event_limits
        self._commit(TimedAppend(shard.events, shard.epoch, 0, (), batches))
        count = sum(map(len, batches))
        shard.next_seq += count
        self.events_stored += count

    def _commit(self, append: Append) -> None:
        [error] = self.store.commit([append])
        if error is not None:
            raise error

    def _batches(self, seq: int, events: Iterable[Told]) -> list[list[TimedRecord]]:
        batches: list[list[TimedRecord]] = []
        room = 0
        for told in events:
            value = fitting(self.personal.applied(stored_event(told, seq)), EVENT_BYTES)
            if value is None:
                self.events_dropped += 1
                continue
            seq += 1
            group = told.event.group or ""
            key = group.encode("utf-8", "backslashreplace")
            record = TimedRecord(told.event.at_ms, key, value)
            size = size_of_record(record)
            if size > room:
                batches.append([])
                room = max(FLUSH_BYTES, size)
            room -= size
            batches[-1].append(record)
        return batches

    def close(self) -> None:
        """Close all logs and release the locks. Raises AppendFailed and SyncFailed."""
        self.store.close()


def stored_event(told: Told, seq: int) -> Event:
    """Return an inferred event in the form of the topic, with its source and confidence."""
    return Event(seq, *told.stored()[1:])


def _last_event(log: Log) -> tuple[int, int]:
    """Return until which offset events are stored, as arguments of `PartitionWatch.leave_out`: all
    events of a record are stored in one flush. Raises Corrupt.
    """
    start = max(log.start_offset, log.next_offset - TAIL)
    events = [
        decode(record.key, record.value or b"")
        for chunk in log.batches(start)
        for header in iter_batches(chunk)
        for record in decode_records(chunk, header)
    ]
    if not events:
        return 0, 0
    # The record where reading goes on after a loss was not read yet.
    return events[-1].mono_ms + (events[-1].group is not None), 0


def _newest(log: Log) -> dict[bytes, bytes]:
    """Return the newest value of each key. Raises Corrupt."""
    found: dict[bytes, bytes] = {}
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            for record in decode_records(chunk, header):
                key = record.key or b""
                if record.value is None:
                    found.pop(key, None)
                else:
                    found[key] = record.value
    return found


def _pieces(records: Iterable[StateRecord]) -> Iterator[list[StateRecord]]:
    piece, size = list[StateRecord](), 0
    for record in records:
        more = len(record[0]) + len(record[1] or b"")
        if piece and size + more > FLUSH_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += more
    if piece:
        yield piece
