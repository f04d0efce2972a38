"""A power cut, or a kill, at every call of a scripted run.

Whatever is left, the next process finds every acknowledged record, nothing that was never written,
and a newer epoch.
"""

import errno

import pytest

from groupkeeper.storage.errors import SyncFailed
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.log import Log
from groupkeeper.storage.queued_log import Append
from groupkeeper.storage.store import Store
from tests.support.fake_files import Crash, FakeDisk
from tests.support.stored import make_claims_durable, open_store, values_in

# Small, so that the run rolls journals and segments many times, the latter by size and by age.
LIMITS = Limits(segment_bytes=700, segment_ms=6, index_interval_bytes=200, journal_bytes=1200)
NAMES = ("__consumer_offsets-0", "__consumer_offsets-1", "__group_events-1")


@pytest.fixture(autouse=True)
def fewer_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mebibyte ahead in each of these tiny journals would be most of the work."""
    monkeypatch.setattr("groupkeeper.storage.journal.AHEAD_BYTES", 2048)


class Client:
    """Commits numbered values and remembers which were acknowledged, across crashes."""

    def __init__(self, disk: FakeDisk) -> None:
        self.disk = disk
        self.written: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.acknowledged: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.epoch = 0
        self.number = 0

    def run(self, rounds: int, *, stop: bool = True) -> None:
        store = open_store(self.disk, limits=LIMITS)
        epochs = [store.claim(0), store.claim(1)]
        logs = [store.open_log(name) for name in NAMES]
        assert epochs[0] > self.epoch
        self.check(logs)
        for number in range(rounds):
            chosen = [log for at, log in enumerate(logs) if (number + at) % 3]
            self.commit(store, chosen, epochs[0])
        if stop:
            store.close()
            self.epoch = epochs[0]

    def commit(self, store: Store, logs: list[Log], epoch: int) -> None:
        appends = []
        for log in logs:
            values = [b"value %d %d" % (self.number, at) * 5 for at in range(2)]
            self.number += 1
            self.written[log.name] += values
            appends.append(Append(log, epoch, self.number, [(b"key", value) for value in values]))
        assert store.commit(appends) == [None] * len(logs)
        self.epoch = epoch
        for log in logs:
            self.acknowledged[log.name] = len(self.written[log.name])

    def check(self, logs: list[Log]) -> None:
        """All acknowledged values are there, in order, and of the others a first part or none."""
        for log in logs:
            found = [value for value in values_in(log) if value is not None]
            assert len(found) == log.next_offset >= self.acknowledged[log.name]
            assert found == self.written[log.name][: len(found)]
            self.written[log.name] = found
            self.acknowledged[log.name] = len(found)


def calls_of_a_run() -> int:
    disk = FakeDisk()
    Client(disk).run(rounds=12)
    return disk.calls


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "spoil", "kill"])
def test_nothing_acknowledged_is_lost_wherever_it_crashes(mode: str) -> None:
    for call in range(1, calls_of_a_run() + 1):
        disk = FakeDisk()
        client = Client(disk)
        disk.crash_at = call
        with pytest.raises(Crash):
            client.run(rounds=12)
        recover(disk, mode, seed=call)
        client.run(rounds=4)
        client.run(rounds=1)


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "spoil", "kill"])
def test_a_crash_during_recovery_from_a_crash_loses_nothing(mode: str) -> None:
    for call in range(60, calls_of_a_run(), 7):
        for again in range(1, 30, 3):
            disk = FakeDisk()
            client = Client(disk)
            disk.crash_at = call
            with pytest.raises(Crash):
                client.run(rounds=12)
            recover(disk, mode, seed=call)
            disk.crash_at = disk.calls + again
            with pytest.raises(Crash):
                client.run(rounds=40)
            recover(disk, ("tear", "names")[again % 2], seed=again)
            client.run(rounds=1)


def syncs_of_a_run() -> list[int]:
    disk = FakeDisk()
    Client(disk).run(rounds=12)
    syncs = [(n, call) for n, call in enumerate(disk.trace, 1) if call.startswith("sync data")]
    return [n for n, call in syncs if call.endswith(".log") or "journals" in call]


@pytest.mark.parametrize("mode", ["lose", "names", "tear"])
def test_a_restart_after_a_failed_sync_does_not_believe_the_page_cache(mode: str) -> None:
    for call in syncs_of_a_run():
        for rounds in (0, 1, 6):
            disk = FakeDisk()
            client = Client(disk)
            disk.failures[call] = OSError(errno.EIO, "Input/output error")
            with pytest.raises(SyncFailed):
                client.run(rounds=12)
            disk.revive()
            client.run(rounds, stop=False)
            disk.power_cut(mode, seed=call)
            client.run(rounds=1)


def recover(disk: FakeDisk, mode: str, seed: int) -> None:
    disk.revive() if mode == "kill" else disk.power_cut(mode, seed)


def test_a_clean_stop_leaves_one_journal_with_the_epochs_only(disk: FakeDisk) -> None:
    Client(disk).run(rounds=12)
    assert len(disk.children("data/journals")) == 1


def test_epochs_rise_over_power_cuts_without_a_sync_of_the_leases(disk: FakeDisk) -> None:
    seen = []
    for mode in ("lose", "tear", "lose", "keep", "lose"):
        store = open_store(disk, limits=LIMITS)
        seen.append(store.claim(7))
        make_claims_durable(store, epoch=seen[-1])
        disk.power_cut(mode)
    assert seen == [1, 2, 3, 4, 5]
