"""The account of what is durable in the logs of groups, and what the next process would find.

The account is kept beside the store: every round that `Store.commit` has made durable is entered,
the newest value of each key. At any moment a copy of the disk, with any kind of crash, has to give
the same groups, however often its logs were rolled, compacted and swapped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.server.server import Server
from groupkeeper.storage.compaction.archive import archive_folder
from groupkeeper.storage.errors import AppendFailed, StorageError, SyncFailed
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.log.scan import valid_batches
from groupkeeper.storage.log.segment import Segment, base_of
from groupkeeper.storage.store import Store
from groupkeeper.topics.names import GROUP_TOPIC
from tests.simulation.hard_state import HardState, check_live, of_records, replayed
from tests.support.fake_files import FakeDisk, FakeFiles

ARCHIVE = "data/archive"

Records = dict[bytes, bytes]
"""The newest value of each key that was not deleted."""


class Ledger:
    """The account of one data directory, over all its processes."""

    def __init__(self, logs: int, limits: Limits) -> None:
        """`logs`: how many partitions there are; `limits` as the server has them."""
        self._names = [f"{GROUP_TOPIC}-{shard}" for shard in range(logs)]
        self._limits = limits
        self._newest: defaultdict[str, Records] = defaultdict(dict)
        self._deleted: defaultdict[str, dict[bytes, int]] = defaultdict(dict)
        """By log: when a key was deleted that was not set since."""
        self._states: dict[str, HardState] = {}
        """What `_newest` comes to, of logs that have not changed since."""
        self._unsure: Sequence[Append] = ()
        """A round of which only the next process knows whether it is durable."""
        self.states: list[dict[str, Records]] | None = None
        """The account after each round, from `remember` to `forget`."""
        self.live_checks = 0
        """Of active partitions."""

    def watch(self, server: Server) -> None:
        """Enter the rounds of a new process."""
        server.store.commit = self._entering(server.store.commit)  # type: ignore[method-assign]

    def _entering(
        self, commit: Callable[[Sequence[Append]], list[StorageError | None]]
    ) -> Callable[[Sequence[Append]], list[StorageError | None]]:
        def entered(appends: Sequence[Append]) -> list[StorageError | None]:
            assert not self._unsure, "no round follows one that may not be durable"
            self._unsure = [each for each in appends if isinstance(each, Append)]
            try:
                errors = commit(appends)
            except AppendFailed as error:
                if not isinstance(error, SyncFailed):
                    self._unsure = ()  # nothing of it is in the journal
                raise
            self._unsure = ()
            for append, error in zip(appends, errors, strict=True):
                if error is None and isinstance(append, Append):  # others are events
                    self._enter(append)
            self._note()
            return errors

        return entered

    def _enter(self, append: Append) -> None:
        name = append.log.name
        self._states.pop(name, None)
        newest, deleted = self._newest[name], self._deleted[name]
        for key, value in append.records:
            newest.pop(key, None)
            deleted.pop(key, None)
            if value is None:
                deleted[key] = append.timestamp_ms
            else:
                newest[key] = value

    def _note(self) -> None:
        if self.states is not None:
            self.states.append({name: dict(self._newest[name]) for name in self._names})

    def remember(self) -> None:
        """A backup begins."""
        self.states = []
        self._note()

    def forget(self) -> list[dict[str, Records]]:
        """The backup has ended: the account as it was at any time since it began."""
        states, self.states = self.states or [], None
        return states

    def _state(self, name: str) -> HardState:
        if name not in self._states:
            self._states[name] = of_records(self._newest[name])
        return self._states[name]

    def live_bytes(self) -> int:
        """Keys and values of the newest record of each key that was not deleted."""
        return sum(
            len(key) + len(value)
            for newest in self._newest.values()
            for key, value in newest.items()
        )

    # -- what must hold ------------------------------------------------------------------------

    def check(self, disk: FakeDisk, mode: str, seed: int) -> None:
        """A process that starts after such a crash of this disk finds what is durable."""
        copy = disk.copy(leave_out=ARCHIVE)
        if mode != "kill":
            copy.power_cut(mode, seed)
        for log in self._opened(copy):
            assert _replayed(log) == self._state(log.name), (log.name, mode)

    def check_live(self, server: Server) -> None:
        """The active partitions know what is durable, if all that they know is."""
        for driver in server.group_partitions:
            partition = driver._partition
            if not driver.absence and partition.gate.clear:
                check_live(partition, self._state(self._names[driver.index]))
                self.live_checks += 1

    def settle(self, disk: FakeDisk) -> list[Log]:
        """After a crash: the round that was being written is there as a whole, or not at all.

        Returns the logs, opened on a copy of the disk.
        """
        logs = self._opened(disk.copy())
        found = {log.name: _replayed(log) for log in logs}
        if any(state != self._state(name) for name, state in found.items()):
            for append in self._unsure:
                self._enter(append)
            self._note()
        self._unsure = ()
        for name, state in found.items():
            assert state == self._state(name), (name, "after a crash")
        return logs

    def check_backup(self, disk: FakeDisk, states: Iterable[dict[str, Records]]) -> None:
        """The data directory of this disk is as another one was in one of these states."""
        found = {log.name: _replayed(log) for log in self._opened(disk)}
        assert any(
            all(found[name] == of_records(newest[name]) for name in self._names)
            for newest in states
        ), "a backup has a state that the directory never had"

    def check_tombstones(self, logs: Iterable[Log], since_ms: int) -> None:
        """The tombstones since a time are still there."""
        for log in logs:
            found = {key for key, _ in _tombstones(log)}
            recent = {key for key, at in self._deleted[log.name].items() if at >= since_ms}
            assert recent <= found, (log.name, "a tombstone went too early")

    def oldest_tombstone(self, log: Log) -> int | None:
        """When the oldest tombstone in a log was written; None if it has none."""
        return min((at for _, at in _tombstones(log)), default=None)

    def _opened(self, disk: FakeDisk) -> list[Log]:
        """The logs as the next process opens them."""
        store = Store(FakeFiles(disk), "data", 0, self._limits)
        for shard in range(len(self._names)):
            store.claim(shard)
        return [store.recover_log(name) for name in self._names]


def check_archive(disk: FakeDisk, logs: Iterable[Log]) -> int:
    """What was compacted is in the archive, back to some time. Returns how many segments it has."""
    count = 0
    for log in logs:
        folder = archive_folder("data", log.name)
        names = disk.children(folder) if disk.has(folder) else []
        bases = [base for base in map(base_of, names) if base is not None]
        raw = [Segment(FakeFiles(disk), folder, base, log.limits) for base in bases]
        ends = [_end(segment) for segment in raw]
        assert ends[:-1] == bases[1:], (folder, "has a gap")
        known = [(segment.finished, end) for segment, end in log.finished]  # None: since the crash
        compacted = [end for entry, end in known if entry is not None and entry.compacted]
        if raw and compacted:
            assert ends[-1] >= compacted[-1], (folder, "lacks the end")
        count += len(raw)
    return count


def _replayed(log: Log) -> HardState:
    return replayed(log.batches(log.start_offset))


def _tombstones(log: Log) -> Iterator[tuple[bytes, int]]:
    """The keys of the tombstones in a log, and when they were written."""
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            for record in decode_records(chunk, header):
                if record.value is None and record.key is not None:
                    yield record.key, record.timestamp_ms


def _end(segment: Segment) -> int:
    """The offset after its last record. Raw segments have no gaps."""
    end = segment.base_offset
    for batch in valid_batches(segment.window(), 0, end):
        assert batch.base_offset == end, (segment.path, "has a gap")
        end = batch.last_offset + 1
    return end
