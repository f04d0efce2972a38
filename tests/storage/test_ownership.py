"""Locks and files that are removed under their owner: it writes nothing more, and says so."""

import pytest

from groupkeeper.storage.errors import DirectoryLost, Locked, LockLost, SyncFailed
from groupkeeper.storage.store import Store
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.stored import NAME, append, make_claims_durable, open_store, put, values_of_log

OTHER = "__consumer_offsets-1"


def test_of_two_owners_the_one_whose_lock_file_was_removed_writes_no_more(disk: FakeDisk) -> None:
    first = open_store(disk)
    epoch = first.claim(0)
    log = first.open_log(NAME)
    assert first.commit([append(log, b"acknowledged", epoch=epoch)]) == [None]
    disk.remove("data/leases/0")
    second = open_store(disk, node=1)
    newer = second.claim(0)
    assert newer > epoch
    put(second, b"the second's", epoch=newer)
    [error] = first.commit([append(log, b"too late", epoch=epoch)])
    assert isinstance(error, LockLost)
    assert "the lock of __consumer_offsets-0 was removed" in str(error)
    first.catch_up()
    assert values_of_log(second) == [b"acknowledged", b"the second's"]
    with pytest.raises(Locked, match="shard 0 is held by node 1"):
        first.claim(0)


def test_what_is_queued_is_not_written_over_the_new_owners_batches(disk: FakeDisk) -> None:
    first = open_store(disk)
    epochs = [first.claim(0), first.claim(1)]
    logs = [first.open_log(name) for name in (NAME, OTHER)]
    for _ in range(2):  # one log is written with each flush, so the second is behind
        flushes = [append(log, b"v" * 50, epoch=e) for log, e in zip(logs, epochs, strict=True)]
        assert first.commit(flushes) == [None, None]
    [shard] = [shard for shard, log in enumerate(logs) if log.next_offset < 2]
    behind = logs[shard].name
    disk.remove(f"data/leases/{shard}")
    second = open_store(disk, node=1)
    epoch = second.claim(shard)
    put(second, b"new", name=behind, epoch=epoch)
    second.catch_up()
    first.catch_up()
    first.close()
    assert values_of_log(second, behind) == [b"v" * 50, b"v" * 50, b"new"]
    disk.power_cut("lose")
    assert values_of_log(open_store(disk, node=1), behind) == [b"v" * 50, b"v" * 50, b"new"]


def test_a_lock_that_no_other_process_took_is_taken_again(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    log = store.open_log(NAME)
    assert store.commit([append(log, b"a", epoch=epoch)]) == [None]
    disk.remove("data/leases/0")
    assert isinstance(store.commit([append(log, b"b", epoch=epoch)])[0], LockLost)
    newer = store.claim(0)
    assert newer > epoch
    put(store, b"c", epoch=newer)
    assert values_of_log(store) == [b"a", b"c"]


def test_other_shards_go_on(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(0), store.claim(1)]
    logs = [store.open_log(name) for name in (NAME, OTHER)]
    flushes = [append(log, b"v", epoch=e) for log, e in zip(logs, epochs, strict=True)]
    assert store.commit(flushes) == [None, None]
    disk.remove("data/leases/0")
    assert [type(error) for error in store.commit(flushes)] == [LockLost, type(None)]


def test_an_idle_owner_finds_out_when_it_looks(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(shard) for shard in range(3)]
    assert store.verify() == []
    log = store.open_log(OTHER)
    disk.remove("data/leases/1")
    assert store.verify() == [1]
    assert store.verify() == []
    [error] = store.commit([append(log, b"v", epoch=epochs[1])])
    assert isinstance(error, LockLost)


def test_the_next_verify_reports_what_a_flush_has_found(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(shard) for shard in range(3)]
    disk.remove("data/leases/2")
    put(store, b"v", epoch=epochs[0])
    assert store.verify() == [2]


def test_a_lock_that_was_taken_again_is_not_lost(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    store.claim(1)
    disk.remove("data/leases/1")
    put(store, b"v", epoch=epoch)
    store.claim(1)
    assert store.verify() == []


def test_a_flush_notices_that_the_directory_is_gone(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    log = store.open_log(NAME)
    assert store.commit([append(log, b"v", epoch=epoch)]) == [None]
    disk.remove("data")
    with pytest.raises(DirectoryLost, match="data was removed or replaced while it was in use"):
        store.commit([append(log, b"v", epoch=epoch)])
    for call in (store.verify, store.catch_up):
        with pytest.raises(SyncFailed, match="removed or replaced"):
            call()


@pytest.mark.parametrize("gone", ["data", "data/nodes", "data/nodes/0", "data/journals"])
def test_a_directory_that_vanishes_takes_no_more_after_a_look(disk: FakeDisk, gone: str) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    log = store.open_log(NAME)
    assert store.commit([append(log, b"v", epoch=epoch)]) == [None]
    disk.remove(gone)
    with pytest.raises(DirectoryLost, match="data was removed or replaced while it was in use"):
        store.verify()
    with pytest.raises(SyncFailed, match="removed or replaced"):
        store.commit([append(log, b"v", epoch=epoch)])
    for call in (store.verify, store.catch_up):
        with pytest.raises(SyncFailed, match="removed or replaced"):
            call()


def test_a_directory_that_is_replaced_takes_no_more(disk: FakeDisk) -> None:
    store = open_store(disk)
    store.claim(0)
    make_claims_durable(store)
    disk.remove("data")
    open_store(disk).claim(0)
    with pytest.raises(DirectoryLost):
        store.verify()


class RemovedLocks(FakeFiles):
    """Lock files are removed between their opening and their locking, so many times."""

    times = 1

    def lock(self, handle: int) -> bool:
        if self.times:
            self.times -= 1
            self.disk.remove(self.path_of(handle))
        return super().lock(handle)


@pytest.mark.parametrize("what", ["node", "lease"])
def test_a_lock_is_taken_on_the_file_that_others_find(disk: FakeDisk, what: str) -> None:
    files = RemovedLocks(disk)
    files.times = 1 if what == "node" else 0
    store = Store(files, "data", 0)
    files.times = 1 if what == "lease" else 0
    store.claim(0)
    with pytest.raises(Locked):
        open_store(disk)
    with pytest.raises(Locked):
        open_store(disk, node=1).claim(0)


def test_a_lock_file_that_is_always_removed_is_given_up(disk: FakeDisk) -> None:
    files = RemovedLocks(disk)
    files.times = 1000
    with pytest.raises(Locked, match="data/nodes/0 was removed by another process during every"):
        Store(files, "data", 0)
    assert files.open_paths == []
