"""Locks and files that vanish under their owner: it writes no more, and says so."""

import pytest

from groupkeeper.storage.errors import DirectoryLost, Fenced, Locked, SyncFailed
from groupkeeper.storage.store import Append, Store
from tests.support.batches import TIME, values_of
from tests.support.fake_files import FakeDisk, FakeFiles

NAME = "__consumer_offsets-0"
OTHER = "__consumer_offsets-1"


def open_store(disk: FakeDisk, node: int = 0) -> Store:
    return Store.open(FakeFiles(disk), "data", node)


def append(store: Store, value: bytes, epoch: int, name: str = NAME) -> Append:
    return Append(store.open_log(name), epoch, TIME, [(b"key", value)])


def values(store: Store, name: str = NAME) -> list[bytes | None]:
    return [value for chunk in store.open_log(name).batches() for value in values_of(chunk)]


def test_of_two_owners_the_one_whose_lock_file_was_removed_is_fenced(disk: FakeDisk) -> None:
    first = open_store(disk)
    epoch = first.claim(0)
    taken = append(first, b"acknowledged", epoch)
    assert first.commit([taken]) == [None]
    disk.remove("data/leases/0")
    second = open_store(disk, node=1)
    newer = second.claim(0)
    assert newer > epoch
    assert second.commit([append(second, b"the second's", newer)]) == [None]
    [error] = first.commit([Append(taken.log, epoch, TIME, [(b"key", b"too late")])])
    assert isinstance(error, Fenced)
    assert "the lock of __consumer_offsets-0 was removed" in str(error)
    first.catch_up()
    assert values(second) == [b"acknowledged", b"the second's"]
    with pytest.raises(Locked, match="shard 0 is held by node 1"):
        first.claim(0)


def test_what_is_queued_is_not_written_over_the_new_owners_batches(disk: FakeDisk) -> None:
    first = open_store(disk)
    epochs = [first.claim(0), first.claim(1)]
    logs = [first.open_log(name) for name in (NAME, OTHER)]
    for _ in range(2):  # one log is written with each round, so the second is behind
        rounds = [
            Append(log, e, TIME, [(b"k", b"v" * 50)]) for log, e in zip(logs, epochs, strict=True)
        ]
        assert first.commit(rounds) == [None, None]
    behind = next(iter(first._behind))
    shard = int(behind[-1])
    disk.remove(f"data/leases/{shard}")
    second = open_store(disk, node=1)
    epoch = second.claim(shard)
    assert second.commit([append(second, b"new", epoch, behind)]) == [None]
    second.catch_up()
    first.catch_up()
    first.close()
    assert values(second, behind) == [b"v" * 50, b"v" * 50, b"new"]
    disk.power_cut("lose")
    assert values(open_store(disk, node=1), behind) == [b"v" * 50, b"v" * 50, b"new"]


def test_a_lock_that_nobody_else_took_is_taken_again(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    taken = append(store, b"a", epoch)
    assert store.commit([taken]) == [None]
    disk.remove("data/leases/0")
    assert isinstance(store.commit([Append(taken.log, epoch, TIME, [(b"k", b"b")])])[0], Fenced)
    newer = store.claim(0)
    assert newer > epoch
    assert store.commit([append(store, b"c", newer)]) == [None]
    assert values(store) == [b"a", b"c"]


def test_other_shards_go_on(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(0), store.claim(1)]
    rounds = [append(store, b"v", epochs[0]), append(store, b"v", epochs[1], OTHER)]
    assert store.commit(rounds) == [None, None]
    disk.remove("data/leases/0")
    rounds[1] = append(store, b"w", epochs[1], OTHER)
    assert [type(error) for error in store.commit(rounds)] == [Fenced, type(None)]


def test_an_idle_owner_finds_out_when_it_looks(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(shard) for shard in range(3)]
    assert store.verify() == []
    log = append(store, b"v", epochs[1], OTHER).log
    disk.remove("data/leases/1")
    assert store.verify() == [1]
    assert store.verify() == []
    [error] = store.commit([Append(log, epochs[1], TIME, [(b"k", b"v")])])
    assert isinstance(error, Fenced)


def test_what_a_round_found_out_is_told_to_whoever_looks(disk: FakeDisk) -> None:
    store = open_store(disk)
    epochs = [store.claim(shard) for shard in range(3)]
    disk.remove("data/leases/2")
    assert store.commit([append(store, b"v", epochs[0])]) == [None]
    assert store.verify() == [2]


def test_a_lock_that_was_taken_again_is_not_lost(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    store.claim(1)
    disk.remove("data/leases/1")
    store.commit([append(store, b"v", epoch)])
    store.claim(1)
    assert store.verify() == []


def test_a_round_notices_that_the_directory_is_gone(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    taken = append(store, b"v", epoch)
    assert store.commit([taken]) == [None]
    disk.remove("data")
    with pytest.raises(DirectoryLost, match="data was removed or replaced while it was in use"):
        store.commit([Append(taken.log, epoch, TIME, [(b"k", b"v")])])
    for call in (store.verify, store.catch_up, store.settle):
        with pytest.raises(SyncFailed, match="removed or replaced"):
            call()


@pytest.mark.parametrize("gone", ["data", "data/nodes", "data/nodes/0", "data/journals"])
def test_a_directory_that_vanishes_takes_no_more_after_a_look(disk: FakeDisk, gone: str) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    taken = append(store, b"v", epoch)
    assert store.commit([taken]) == [None]
    disk.remove(gone)
    with pytest.raises(DirectoryLost, match="data was removed or replaced while it was in use"):
        store.verify()
    with pytest.raises(SyncFailed, match="removed or replaced"):
        store.commit([Append(taken.log, epoch, TIME, [(b"k", b"v")])])
    for call in (store.verify, store.catch_up, store.settle):
        with pytest.raises(SyncFailed, match="removed or replaced"):
            call()


def test_a_directory_that_is_replaced_takes_no_more(disk: FakeDisk) -> None:
    store = open_store(disk)
    store.claim(0)
    store.settle()
    disk.remove("data")
    open_store(disk).claim(0)
    with pytest.raises(DirectoryLost):
        store.verify()


class Impatient(FakeFiles):
    """Somebody removes a lock file between its opening and its locking, so many times."""

    times = 1

    def lock(self, handle: int) -> bool:
        path, _ = self._handles[handle]
        if self.times:
            self.times -= 1
            self.disk.remove(path)
        return super().lock(handle)


@pytest.mark.parametrize("what", ["node", "lease"])
def test_a_lock_is_taken_on_the_file_that_others_find(disk: FakeDisk, what: str) -> None:
    files = Impatient(disk)
    files.times = 1 if what == "node" else 0
    store = Store.open(files, "data", 0)
    files.times = 1 if what == "lease" else 0
    store.claim(0)
    with pytest.raises(Locked):
        open_store(disk)
    with pytest.raises(Locked):
        open_store(disk, node=1).claim(0)


def test_a_lock_file_that_is_always_removed_is_given_up(disk: FakeDisk) -> None:
    files = Impatient(disk)
    files.times = 1000
    with pytest.raises(Locked, match="data/nodes/0 is removed again and again"):
        Store.open(files, "data", 0)
    assert files._handles == {}
