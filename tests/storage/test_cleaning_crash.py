"""A crash at every call of flushes, rolls, compactions, swaps and the archive, on one store.

Whatever is left, the next process finds the newest value of every key, as a run without a crash has
it after the same flushes; it goes on, compacts again, and comes to the same end.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import pytest

from groupkeeper.cleaner.plan import candidate
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.compaction.archive import archive_folder
from groupkeeper.storage.compaction.compaction import CompactionJob, compact
from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from groupkeeper.topics.log_policy import LogPolicy
from tests.support.fake_files import Crash, FakeDisk, FakeFiles

pytestmark = pytest.mark.usefixtures("fewer_zeros")

LIMITS = Limits(segment_bytes=700, index_interval_bytes=200, journal_bytes=6000)
NAMES = ("__consumer_offsets-0", "__consumer_offsets-1")
ROUNDS = 28
CLEANED_AFTER = (11, 19, 26)
ROUND_MS = 10_000
BEGAN_MS = 1_700_000_000_000
POLICY = LogPolicy(
    compacts=True,
    deletes=False,
    retention_ms=-1,
    retention_bytes=-1,
    limits=LIMITS,
    delete_retention_ms=8 * ROUND_MS,
    min_lag_ms=0,
    max_lag_ms=2**62,
    min_dirty_ratio=0.3,
)
MODES = ("lose", "names", "keep", "tear", "spoil", "kill")
EVERY = {"names": 3, "keep": 3}
"""Modes that differ little from others are tried at every third call."""

Newest = dict[bytes, tuple[int, bytes, int]]
"""Key to offset, value and time of its newest record, unless that is a tombstone."""


def records_of(number: int, log: int) -> list[tuple[bytes, bytes | None]]:
    """What a flush writes to a log: some keys often, some once, some deleted and set again."""
    records: list[tuple[bytes, bytes | None]] = [
        (b"often %d" % (number % 2), b"value %d" % number),
        (b"now and then %d" % (number % 5), b"value %d %d" % (number, log)),
    ]
    if number % 5 == log:
        records.append((b"once %d" % number, b"for good " * 3))
    if number % 4 == 1:
        records.append((b"now and then %d" % (number // 2 % 5), None))
    return records


def written(number: int) -> Iterator[int]:
    """The logs that a flush writes to."""
    return (log for log in range(len(NAMES)) if (number + log) % 3)


def time_of(number: int) -> int:
    return BEGAN_MS + number * ROUND_MS


class Life:
    """One process on a disk: flushes from some number on, with compactions between them."""

    def __init__(self, disk: FakeDisk) -> None:
        self.files = FakeFiles(disk)
        self.store = Store(self.files, "data", 0, LIMITS)
        self.epoch = max(self.store.claim(shard) for shard in range(len(NAMES)))
        self.logs = [self.store.open_log(name) for name in NAMES]
        self.compactions = 0

    def run(self, first: int, durable: Callable[[int], None]) -> None:
        """The flushes from `first` to the last, each told when it is durable; then a clean stop."""
        for number in range(first, ROUNDS):
            self.round(number, durable)
            if number in CLEANED_AFTER:
                for log in self.logs:
                    self.clean(log, number)
            if number % 7 == 0:
                self.store.catch_up()
        self.store.close()

    def round(self, number: int, durable: Callable[[int], None]) -> None:
        appends = [
            Append(self.logs[log], self.epoch, time_of(number), records_of(number, log))
            for log in written(number)
        ]
        assert self.store.commit(appends) == [None] * len(appends)
        durable(number)

    def clean(self, log: Log, number: int) -> None:
        """As the cleaner does it."""
        while (found := candidate(log, POLICY, time_of(number))) is not None:
            token = f"{number:04x}{self.compactions:04x}"
            self.compactions += 1
            job = CompactionJob(
                folder=log.folder,
                token=token,
                segments=tuple(found.sources),
                first_dirty=log.first_dirty,
                now_ms=time_of(number),
                delete_retention_ms=POLICY.delete_retention_ms,
                producer_id_expiration_ms=86_400_000,
                dedupe_bytes=2_500,
                limits=log.limits,
            )
            compacted = compact(self.files, job)
            swap = Swap(log, compacted)
            swap.prepare(token, archive_folder("data", log.name))
            assert swap.switch()
            swap.finish()


def newest_in(log: Log) -> Newest:
    found: Newest = {}
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            for record in decode_records(chunk, header):
                assert record.key is not None
                found.pop(record.key, None)
                if record.value is not None:
                    found[record.key] = record.offset, record.value, record.timestamp_ms
    return found


@cache
def after(flushes: int) -> tuple[Newest, ...]:
    """What the logs have after so many flushes."""
    states: list[Newest] = []
    for log in range(len(NAMES)):
        found: Newest = {}
        offset = 0
        for number in range(flushes):
            for key, value in records_of(number, log) if log in written(number) else ():
                found.pop(key, None)
                if value is not None:
                    found[key] = offset, value, time_of(number)
                offset += 1
        states.append(found)
    return tuple(states)


def tombstones_in(log: Log) -> Mapping[bytes, int]:
    return {
        record.key: record.timestamp_ms
        for chunk in log.batches(log.start_offset)
        for header in iter_batches(chunk)
        for record in decode_records(chunk, header)
        if record.value is None and record.key is not None
    }


def check_archive(disk: FakeDisk, log: Log) -> None:
    """Every record that was ever written is in the log or in the archive."""
    offsets = set(offsets_in(log))
    folder = archive_folder("data", log.name)
    if disk.has(folder):
        offsets |= set(offsets_in(open_log(FakeFiles(disk.copy()), folder, LIMITS)))
    assert offsets == set(range(log.next_offset))


def offsets_in(log: Log) -> Iterator[int]:
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            yield from (record.offset for record in decode_records(chunk, header))


class Story:
    """A disk, and how far its processes came."""

    def __init__(self) -> None:
        self.disk = FakeDisk()
        self.flushes = 0
        """Durable ones."""

    def live(self) -> Life:
        """A new process: what it finds is what was durable, and perhaps the next flush."""
        life = Life(self.disk)
        found = tuple(map(newest_in, life.logs))
        if found != after(self.flushes):
            self.flushes += 1
        assert found == after(self.flushes)
        for log in life.logs:
            check_archive(self.disk, log)
        return life

    def run(self) -> Life:
        life = self.live()
        life.run(self.flushes, self._durable)
        return life

    def _durable(self, number: int) -> None:
        assert number == self.flushes
        self.flushes += 1

    def crash(self, mode: str, seed: int) -> None:
        self.disk.revive() if mode == "kill" else self.disk.power_cut(mode, seed)


def calls_of_a_run() -> list[str]:
    story = Story()
    story.run()
    return story.disk.trace


def test_the_run_without_a_crash_has_all_that_crashes_are_to_meet() -> None:
    calls = calls_of_a_run()
    assert sum(call.endswith(".log.swap") for call in calls) > 6
    assert sum(call.startswith("link ") for call in calls) > 15
    assert sum(call.startswith("remove data/__consumer_offsets-") for call in calls) > 5
    assert sum(call.startswith("create data/journals/") for call in calls) > 2


@pytest.mark.parametrize("mode", MODES)
def test_wherever_it_crashes_the_end_is_the_same(mode: str) -> None:
    for call in range(1, len(calls_of_a_run()) + 1, EVERY.get(mode, 1)):
        story = Story()
        story.disk.crash_at = call
        with pytest.raises(Crash):
            story.run()
        story.crash(mode, seed=call)
        story.run()
        story.crash("lose", seed=call)
        logs = story.live().logs
        assert story.flushes == ROUNDS
        for log in logs:
            recent = time_of(CLEANED_AFTER[-1]) - POLICY.delete_retention_ms
            assert tombstones_in(log).keys() >= deleted_since(log, recent), (call, log.name)
            assert log.size < 2_500


def deleted_since(log: Log, since_ms: int) -> set[bytes]:
    at = NAMES.index(log.name)
    last: dict[bytes, int] = {}
    for number in filter(lambda n: at in written(n), range(ROUNDS)):
        for key, value in records_of(number, at):
            last.pop(key, None)
            if value is None:
                last[key] = time_of(number)
    return {key for key, when in last.items() if when > since_ms}
