"""A power cut, or a kill, at every call of a scripted run.

Whatever is left, the next process finds every acknowledged record, nothing that was never written,
and a newer epoch.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pytest

from groupkeeper.storage.errors import SyncFailed
from groupkeeper.storage.files.at_once import AtOnce, Job, one_after_another, raised
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.support.batches import batch
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import make_claims_durable, open_store, values_in

pytestmark = pytest.mark.usefixtures("fewer_zeros")

# Small, so that the run rolls journals and segments many times, the latter by size and by age.
LIMITS = Limits(segment_bytes=700, segment_ms=6, index_interval_bytes=200, journal_bytes=1200)
NAMES = ("__consumer_offsets-0", "__consumer_offsets-1", "__group_events-1")
TOPIC_LIMITS = Limits(segment_bytes=2_000, index_interval_bytes=200)
MODES = ["lose", "names", "keep", "tear", "spoil", "kill"]


@pytest.fixture(params=["beside", "alone"])
def beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether logs are synced and get recovery points beside the flushes."""
    monkeypatch.setattr("groupkeeper.storage.journal.flush_writer.WRITE_BACK_BYTES", 300)
    return bool(request.param == "beside")


class Client:
    """Commits numbered values and remembers which were acknowledged, across crashes."""

    def __init__(self, disk: FakeDisk, *, beside: bool = False) -> None:
        """`beside`: what is to be done on another thread is done a flush later."""
        self.disk = disk
        self.beside = beside
        self.jobs: list[Callable[[], None]] = []
        self.at_once: AtOnce = one_after_another
        self.written: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.acknowledged: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.epoch = 0
        self.number = 0

    def run(self, flushes: int, *, stop: bool = True) -> None:
        store = open_store(self.disk, limits=LIMITS)
        self.jobs.clear()
        if self.beside:
            store.write_back_on(self.jobs.append)
        epochs = [store.claim(0), store.claim(1)]
        logs = [store.open_log(name) for name in NAMES]
        assert epochs[0] > self.epoch
        self.check(logs)
        for number in range(flushes):
            chosen = [log for at, log in enumerate(logs) if (number + at) % 3]
            self.commit(store, chosen, epochs[0])
        if stop:
            self.work()
            store.close_logs(self.at_once)
            store.close()
            self.epoch = epochs[0]

    def commit(self, store: Store, logs: list[Log], epoch: int) -> None:
        appends = []
        for log in logs:
            values = [b"value %d %d" % (self.number, at) * 5 for at in range(2)]
            self.number += 1
            self.written[log.name] += values
            appends.append(Append(log, epoch, self.number, [(b"key", value) for value in values]))
        due, self.jobs[:] = list(self.jobs), []
        assert store.commit(appends) == [None] * len(logs)
        self.epoch = epoch
        for log in logs:
            self.acknowledged[log.name] = len(self.written[log.name])
        for job in due:
            job()

    def work(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()

    def check(self, logs: list[Log]) -> None:
        """All acknowledged values are there, in order, and of the others a first part or none."""
        for log in logs:
            found = [value for value in values_in(log) if value is not None]
            assert len(found) == log.next_offset >= self.acknowledged[log.name]
            assert found == self.written[log.name][: len(found)]
            self.written[log.name] = found
            self.acknowledged[log.name] = len(found)


def calls_of_a_run(*, beside: bool = False) -> int:
    disk = FakeDisk()
    Client(disk, beside=beside).run(flushes=12)
    return disk.calls


@pytest.mark.parametrize("mode", MODES)
def test_nothing_acknowledged_is_lost_wherever_it_crashes(mode: str, beside: bool) -> None:
    for call in range(1, calls_of_a_run(beside=beside) + 1):
        disk = FakeDisk()
        client = Client(disk, beside=beside)
        disk.crash_at = call
        with pytest.raises(Crash):
            client.run(flushes=12)
        recover(disk, mode, seed=call)
        client.run(flushes=4)
        client.run(flushes=1)


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_during_recovery_from_a_crash_loses_nothing(mode: str, beside: bool) -> None:
    for call in range(60, calls_of_a_run(beside=beside), 13 if beside else 7):
        for again in range(1, 30, 3):
            disk = FakeDisk()
            client = Client(disk, beside=beside)
            disk.crash_at = call
            with pytest.raises(Crash):
                client.run(flushes=12)
            recover(disk, mode, seed=call)
            disk.crash_at = disk.calls + again
            with pytest.raises(Crash):
                client.run(flushes=40)
            recover(disk, ("tear", "names")[again % 2], seed=again)
            client.run(flushes=1)


def stopped(order: Sequence[int], crash_at: int | None = None) -> tuple[FakeDisk, Client, int]:
    """A run whose stop closes its logs in this order; (disk, client, calls before the stop)."""
    disk = FakeDisk()
    client = Client(disk)
    before: list[int] = []

    def at_once(jobs: Sequence[Job]) -> list[Exception | None]:
        before.append(disk.calls)
        errors = {at: raised(jobs[at]) for at in order}
        return [errors[at] for at in range(len(jobs))]

    client.at_once = at_once
    disk.crash_at = crash_at
    with pytest.raises(Crash) if crash_at is not None else nullcontext():
        client.run(flushes=12)
    return disk, client, before[0] if before else 0


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_while_logs_are_closed_in_another_order_loses_nothing(mode: str) -> None:
    order = (2, 0, 1)
    whole, _, before = stopped(order)
    for call in range(before + 1, whole.calls + 1):
        disk, client, _ = stopped(order, crash_at=call)
        recover(disk, mode, seed=call)
        client.run(flushes=4)
        client.run(flushes=1)


def test_a_stop_syncs_each_log_four_times_whatever_is_new_in_it() -> None:
    """The segment, its name, the manifest, its name; and the names of all folders with one sync."""
    disk = FakeDisk()
    store = open_store(disk, limits=LIMITS)
    epoch = [store.claim(0), store.claim(1)][0]
    logs = [store.open_log(name) for name in NAMES]
    store.commit([Append(log, epoch, 1, [(b"key", b"value")]) for log in logs])
    before = len(disk.trace)
    store.close_logs()
    syncs = [call for call in disk.trace[before:] if call.startswith("sync")]
    assert len(syncs) == 4 * len(NAMES) + 1


class OneSyncFails(FakeFiles):
    """The first sync of the folder `refused` fails; a second one would not."""

    refused = ""

    def sync_folder(self, folder: str) -> None:
        if self.refused and folder.endswith(self.refused):
            self.refused = ""
            raise OSError(errno.EIO, "Input/output error")
        super().sync_folder(folder)


def test_a_stop_whose_sync_of_names_fails_keeps_the_journal() -> None:
    """A sync that failed is not repeated: the second one would succeed, and bring nothing."""
    disk = FakeDisk()
    files = OneSyncFails(disk)
    store = Store(files, "data", 0, LIMITS)
    epoch = [store.claim(0), store.claim(1)][0]
    logs = [store.open_log(name) for name in NAMES]
    store.commit([Append(log, epoch, 1, [(b"key", b"value")]) for log in logs])
    files.refused = NAMES[0]
    journals = files.list_folder("data/journals")
    with pytest.raises(SyncFailed, match=NAMES[0]):
        store.close()
    assert not files.refused
    assert files.list_folder("data/journals") == journals


def syncs_of_a_run() -> list[int]:
    disk = FakeDisk()
    Client(disk).run(flushes=12)
    syncs = [(n, call) for n, call in enumerate(disk.trace, 1) if call.startswith("sync data")]
    return [n for n, call in syncs if call.endswith(".log") or "journals" in call]


@pytest.mark.parametrize("mode", ["lose", "names", "tear"])
def test_a_restart_after_a_failed_sync_does_not_believe_the_page_cache(mode: str) -> None:
    for call in syncs_of_a_run():
        for flushes in (0, 1, 6):
            disk = FakeDisk()
            client = Client(disk)
            disk.failures[call] = OSError(errno.EIO, "Input/output error")
            with pytest.raises(SyncFailed):
                client.run(flushes=12)
            disk.revive()
            client.run(flushes, stop=False)
            disk.power_cut(mode, seed=call)
            client.run(flushes=1)


def recover(disk: FakeDisk, mode: str, seed: int) -> None:
    disk.revive() if mode == "kill" else disk.power_cut(mode, seed)


def test_a_clean_stop_leaves_one_journal_with_the_epochs_only(disk: FakeDisk) -> None:
    Client(disk).run(flushes=12)
    assert len(disk.children("data/journals")) == 1


def test_epochs_rise_over_power_cuts_without_a_sync_of_the_leases(disk: FakeDisk) -> None:
    seen = []
    for mode in ("lose", "tear", "lose", "keep", "lose"):
        store = open_store(disk, limits=LIMITS)
        seen.append(store.claim(7))
        make_claims_durable(store, epoch=seen[-1])
        disk.power_cut(mode)
    assert seen == [1, 2, 3, 4, 5]


# -- a log that no journal knows -------------------------------------------------------------------


class Writer:
    """Appends numbered values to a log of a topic, and remembers which were synced."""

    FOLDER = "data/orders-0"

    def __init__(self, disk: FakeDisk) -> None:
        self.disk = disk
        self.appended: list[bytes] = []
        self.synced = 0
        FakeFiles(disk).make_folder("data")
        disk.write_back()

    def run(self, appends: int, *, reopen: bool = False) -> None:
        log = open_log(FakeFiles(self.disk), self.FOLDER, TOPIC_LIMITS)
        self.check(log)
        for number in range(1, appends + 1):
            self.append(log)
            match number % 8:
                case 3:
                    self.save(log, meanwhile=False)
                case 6:
                    self.save(log, meanwhile=True)
                case 0:
                    log.roll()
                    self.synced = len(self.appended)
        log.close()
        self.synced = len(self.appended)
        if reopen:
            self.run(0)

    def append(self, log: Log) -> None:
        offset, epoch = log.next_offset, log.next_offset // 5
        self.appended.append(b"value %d" % offset * 20)
        log.append(batch(offset, self.appended[-1], epoch=epoch))

    def save(self, log: Log, *, meanwhile: bool) -> None:
        """As the worker does, while more may be appended."""
        stand, end = log.stand(), len(self.appended)
        assert stand is not None
        if meanwhile:
            self.append(log)
        mark = log.checkpoint(stand)
        assert mark is not None
        log.save(mark)
        self.synced = end

    def check(self, log: Log) -> None:
        assert not any(segment.unread for segment in log.segments)
        found = [value for value in values_in(log) if value is not None]
        assert len(found) == log.next_offset >= self.synced
        assert found == self.appended[: len(found)]
        self.appended = found


def calls_of_a_writer() -> int:
    disk = FakeDisk()
    writer = Writer(disk)
    started = disk.calls
    writer.run(20, reopen=True)
    return disk.calls - started


@pytest.mark.parametrize("again", [0, 3, 9, 17])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "tear"])
def test_what_a_topic_has_synced_is_there_wherever_it_crashes(mode: str, again: int) -> None:
    """Not torn: of several appends that were not synced the later ones may be left, and the log is
    refused.
    """
    calls = calls_of_a_writer()
    for call in range(1, calls + 1):
        disk = FakeDisk()
        writer = Writer(disk)
        disk.crash_at = disk.calls + call
        with pytest.raises(Crash):
            writer.run(20, reopen=True)
        recover(disk, mode, seed=call)
        if again:
            disk.crash_at = disk.calls + again
            with pytest.raises(Crash):
                writer.run(20)
            recover(disk, mode, seed=call + again)
        writer.run(5)
        writer.run(1)
