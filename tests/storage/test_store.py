"""Flushes, claims and the opening of logs, over a disk in memory."""

import errno
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from groupkeeper.protocol.record_batch import read_header
from groupkeeper.storage.errors import AppendFailed, Corrupt, Fenced, Locked, SyncFailed
from groupkeeper.storage.journal.format import batch_entry
from groupkeeper.storage.journal.journal import JournalWriter
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import QUEUE_BYTES, Append
from groupkeeper.storage.store import Store
from tests.support.batches import TIME, batch, values_of
from tests.support.fake_files import CountingFiles, FakeDisk, FakeFiles, Inode
from tests.support.stored import (
    ASIDE,
    FULL,
    NAME,
    append,
    cut_file,
    fail_append,
    make_claims_durable,
    open_store,
    put,
    segment_paths,
    values_of_log,
    write_file,
)

LOG_FILE = f"data/{NAME}/00000000000000000000.log"


@pytest.fixture
def store(disk: FakeDisk) -> Store:
    return open_store(disk)


def journals(disk: FakeDisk) -> list[str]:
    return disk.children("data/journals")


def test_a_flush_continues_each_of_its_logs(store: Store) -> None:
    put(store, b"a", b"b")
    log, other = store.open_log(NAME), store.open_log("__group_events-0")
    assert store.commit([append(log, b"c"), append(other, b"x")]) == [None, None]
    assert values_of_log(store) == [b"a", b"b", b"c"]
    assert values_of_log(store, "__group_events-0") == [b"x"]


def test_two_batches_of_a_flush_may_go_to_one_log(store: Store) -> None:
    log = store.open_log(NAME)
    assert store.commit([append(log, b"a", b"b"), append(log, b"c")]) == [None, None]
    assert values_of_log(store) == [b"a", b"b", b"c"]


def test_a_batch_carries_epoch_and_time(store: Store, disk: FakeDisk) -> None:
    put(store, b"a", epoch=7)
    header = read_header(disk.contents(LOG_FILE))
    assert (header.leader_epoch, header.max_timestamp) == (7, TIME)


def five_logs(store: Store, flushes: int) -> list[Log]:
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(5)]
    for _ in range(flushes):
        store.commit([append(log, b"v") for log in logs])
    return logs


def test_a_flush_is_one_write_and_one_sync_of_the_journal(store: Store, disk: FakeDisk) -> None:
    logs = five_logs(store, flushes=5)
    before = len(disk.trace)
    store.commit([append(log, b"v") for log in logs])
    first, second, *segments = writes(disk, before)
    assert (first, second) == (("write", "journals"), ("sync", "journals"))
    assert segments == [("write", logs[0].name)], "and the log that is behind longest"


def writes(disk: FakeDisk, since: int) -> list[tuple[str, str]]:
    return [(call.split()[0], call.split()[1].split("/")[1]) for call in disk.trace[since:]]


def test_many_flushes_of_a_log_become_one_write(store: Store, disk: FakeDisk) -> None:
    logs = five_logs(store, flushes=8)
    before = len(disk.trace)
    store.catch_up()
    behind = [logs[number].name for number in (3, 4, 0, 1)]
    assert writes(disk, before) == [("write", name) for name in behind]
    assert [values_of_log(store, log.name) for log in logs] == [[b"v"] * 8] * 5


def test_a_reader_sees_what_is_written_and_whoever_opens_the_log_all(store: Store) -> None:
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(2)]
    store.commit([append(log, b"v") for log in logs])
    assert [log.next_offset for log in logs] == [1, 0]
    assert logs[1].read(0, 1000) == b""
    assert store.open_log(logs[1].name).next_offset == 1


def test_a_log_that_is_far_behind_is_written_at_once(store: Store) -> None:
    first, second = (store.open_log(f"__consumer_offsets-{number}") for number in range(2))
    store.commit([append(first, b"v"), append(second, bytes(QUEUE_BYTES))])
    assert (first.next_offset, second.next_offset) == (1, 1)


def test_what_is_queued_is_split_where_segments_end(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(segment_bytes=210))
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(8)]
    for _ in range(6):
        store.commit([append(log, b"v" * 20) for log in logs])
    store.catch_up()
    sizes = [len(disk.contents(path)) for path in segment_paths(disk, logs[7].name)]
    assert len(sizes) > 1
    assert max(sizes) <= 210
    assert values_of_log(store, logs[7].name) == [b"v" * 20] * 6


def test_what_is_queued_goes_into_a_new_segment_when_the_last_one_is_old(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(segment_ms=1_000))
    log = store.open_log(NAME)

    def put_at(*times: int) -> None:
        for time in times:
            store.commit([Append(log, 1, time, [(b"key", b"%d" % time)])])
        store.catch_up()

    put_at(5_000, 5_900)
    put_at(6_001, 6_002)
    assert len(segment_paths(disk, NAME)) == 2
    assert values_of_log(store) == [b"5000", b"5900", b"6001", b"6002"]


def test_a_journal_is_dropped_only_when_what_is_queued_is_synced(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=2000))
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(4)]
    for number in range(60):
        store.commit([append(log, b"%d" % number) for log in logs])
    assert len(journals(disk)) < 60, "old journals were dropped"
    disk.power_cut("lose")
    store = open_store(disk)
    assert all(values_of_log(store, log.name) == [b"%d" % n for n in range(60)] for log in logs)


def test_an_open_log_is_returned_as_it_is(store: Store) -> None:
    assert store.open_log(NAME) is store.open_log(NAME)


@pytest.mark.parametrize("name", ["topic", "-1", "topic-", "a/../b-1", ""])
def test_a_log_has_the_name_of_a_partition(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        store.open_log(name)


def test_the_partition_folders_are_listed(store: Store) -> None:
    put(store, b"v")
    put(store, b"v", name="my-topic-12")
    assert store.log_names() == [NAME, "my-topic-12"]


def test_a_power_cut_loses_nothing_that_was_committed(store: Store, disk: FakeDisk) -> None:
    put(store, b"a")
    put(store, b"b")
    disk.power_cut("lose")
    assert not disk.has(f"data/{NAME}")
    assert values_of_log(open_store(disk)) == [b"a", b"b"]


def test_what_a_killed_process_left_in_the_cache_survives_a_power_cut(
    store: Store, disk: FakeDisk
) -> None:
    put(store, b"a")
    disk.revive()
    store = open_store(disk)
    store.open_log(NAME)
    put(store, b"x", name="__group_events-0")
    assert len(journals(disk)) == 1
    disk.power_cut("names")
    assert values_of_log(open_store(disk)) == [b"a"]


def test_a_second_process_with_the_node_id_is_refused(store: Store, disk: FakeDisk) -> None:
    pid = disk.contents("data/nodes/0").decode().strip()
    with pytest.raises(Locked, match=rf"node 0 is already running on data \(pid {pid}\)"):
        open_store(disk)
    store.close()
    open_store(disk)


def test_a_shard_has_one_owner(store: Store, disk: FakeDisk) -> None:
    assert store.claim(3) == 1
    other = open_store(disk, node=1)
    with pytest.raises(Locked, match="shard 3 is held by node 0"):
        other.claim(3)
    store.release(3)
    assert other.claim(3) == 2


def test_a_claim_that_cannot_read_its_lease_leaves_nothing_open(
    disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FakeFiles(disk)
    store = Store(files, "data", 0)
    before = files.open_paths
    monkeypatch.setattr(files, "read", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        store.claim(3)
    assert files.open_paths == before


def test_a_node_lock_that_cannot_be_written_leaves_nothing_open(disk: FakeDisk) -> None:
    open_store(disk).close()
    files = FakeFiles(disk)
    disk.failures[disk.calls + 3] = FULL  # behind the syncs of the folders
    with pytest.raises(OSError, match="No space left"):
        Store(files, "data", 0)
    assert files.open_paths == []


def test_many_claims_share_one_sync(store: Store, disk: FakeDisk) -> None:
    for shard in range(50):
        store.claim(shard)
        store.open_log(f"__consumer_offsets-{shard}")
    assert not [call for call in disk.trace if call.startswith("sync data")]
    put(store, b"v")
    syncs = [call for call in disk.trace if call.startswith("sync data")]
    assert syncs == [f"sync data/journals/{name}" for name in journals(disk)]
    disk.power_cut("lose")
    assert open_store(disk).claim(49) == 2


def test_a_later_claim_is_durable_with_the_next_flush(store: Store, disk: FakeDisk) -> None:
    store.claim(1)
    put(store, b"v")
    store.claim(2)
    put(store, b"v")
    disk.power_cut("lose")
    assert open_store(disk).claim(2) == 2


def test_a_claim_rises_within_a_process(store: Store) -> None:
    assert [store.claim(3), store.claim(3)] == [1, 2]


def test_an_odd_lease_file_does_not_lower_the_epoch(store: Store, disk: FakeDisk) -> None:
    store.claim(3)
    make_claims_durable(store)
    disk.power_cut("lose")
    write_file(disk, "data/leases/3", bytes(5))
    assert open_store(disk).claim(3) == 2


def test_the_next_owner_finds_what_the_last_one_committed(store: Store, disk: FakeDisk) -> None:
    store.claim(0)
    put(store, b"a")
    disk.power_cut("lose")
    other = open_store(disk, node=1)
    assert other.claim(0) == 2
    assert values_of_log(other) == [b"a"]


def test_an_older_epoch_is_fenced_and_nothing_is_written(store: Store, disk: FakeDisk) -> None:
    put(store, b"a", epoch=2)
    before = len(disk.trace)
    [error] = store.commit([append(store.open_log(NAME), b"b", epoch=1)])
    assert isinstance(error, Fenced) and str(error) == f"{NAME} is in epoch 2, not 1"
    assert len(disk.trace) == before


def test_a_flush_leaves_out_what_cannot_be_written_and_no_more(
    store: Store, disk: FakeDisk
) -> None:
    names = [f"__consumer_offsets-{number}" for number in range(4)]
    appends = [append(store.open_log(name), b"v") for name in names]
    put(store, b"newer", name=names[1], epoch=2)
    fail_append(disk, appends[2].log)
    appends[3].log.close()
    errors = store.commit(appends)
    assert [type(error) for error in errors] == [type(None), Fenced, AppendFailed, AppendFailed]
    disk.power_cut("lose")
    store = open_store(disk)
    assert [values_of_log(store, name) for name in names] == [[b"v"], [b"newer"], [], []]


def test_a_log_that_was_opened_again_is_not_written_to_by_its_former_user(
    store: Store, disk: FakeDisk
) -> None:
    former = store.open_log(NAME)
    fail_append(disk, former)
    assert store.open_log(NAME) is not former
    [error] = store.commit([append(former, b"v")])
    assert isinstance(error, AppendFailed) and "must be opened again" in str(error)


def test_a_log_that_flushes_write_to_is_not_appended_to_directly(store: Store) -> None:
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(2)]
    store.commit([append(log, b"v") for log in logs])  # the second one is queued
    logs[1].append(batch(0, b"direct"))
    with pytest.raises(AssertionError, match="appended to beside the flushes"):
        store.catch_up()


def test_journals_are_dropped_as_their_logs_are_synced(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=500))
    store.claim(0)
    for _ in range(60):
        put(store, b"v")
        assert len(journals(disk)) <= 2
    assert values_of_log(store) == [b"v"] * 60


def test_a_journal_stays_until_the_marks_of_its_logs_are_durable(disk: FakeDisk) -> None:
    """Without its mark, a start writes to a log again what is in no journal, which may be torn."""
    store = open_store(disk, limits=Limits(journal_bytes=500))
    store.claim(0)
    for _ in range(20):
        before = len(disk.trace)
        put(store, b"v")
        calls = disk.trace[before:]
        synced = [at for at, call in enumerate(calls) if call.startswith(f"sync {LOG_FILE}")]
        removed = [at for at, call in enumerate(calls) if call.startswith("remove")]
        assert not synced or not removed or removed[-1] < synced[0]


def test_a_flush_syncs_at_most_one_log_more(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=3000))
    names = [f"__consumer_offsets-{number}" for number in range(4)]
    for _ in range(40):
        before = len(disk.trace)
        store.commit([append(store.open_log(name), b"v") for name in names])
        syncs = [call for call in disk.trace[before:] if call.startswith("sync data")]
        assert len(syncs) <= 2


def test_a_failed_first_flush_does_not_cost_the_journal(store: Store, disk: FakeDisk) -> None:
    store.claim(0)
    disk.failures[disk.calls + 3] = FULL  # behind the making of the file
    with pytest.raises(AppendFailed, match="No space left"):
        make_claims_durable(store)
    store.close()
    disk.power_cut("lose")
    store = open_store(disk)
    assert (store.known_shards(), store.claim(0)) == (1, 2)


def test_after_a_failed_first_flush_a_stop_takes_the_same_journal(
    store: Store, disk: FakeDisk
) -> None:
    store.claim(0)
    disk.failures[disk.calls + 3] = FULL
    with pytest.raises(AppendFailed, match="No space left"):
        make_claims_durable(store)
    before = journals(disk)
    store.close()
    assert journals(disk) == before


@pytest.mark.parametrize("call", [1, 2])
def test_a_journal_that_cannot_begin_leaves_nothing_open(disk: FakeDisk, call: int) -> None:
    files = FakeFiles(disk)
    store = Store(files, "data", 0)
    store.claim(0)
    before = files.open_paths
    disk.failures[disk.calls + call] = FULL
    with pytest.raises(AppendFailed, match="No space left"):
        make_claims_durable(store)
    assert (files.open_paths, journals(disk)) == (before, [])


def test_a_stop_that_cannot_write_lets_go_of_everything(disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    store = Store(files, "data", 0)
    store.claim(0)
    make_claims_durable(store)
    store.open_log(ASIDE).close()
    disk.failures[disk.calls + 3] = FULL
    with pytest.raises(AppendFailed, match="No space left"):
        store.close()
    assert files.open_paths == []
    assert open_store(disk).known_shards() == 1


def test_a_log_that_cannot_be_closed_does_not_keep_others_from_it(disk: FakeDisk) -> None:
    store = open_store(disk)
    store.claim(0)
    first, second = (store.open_log(name) for name in (NAME, ASIDE))
    assert store.commit([append(second, b"v"), append(first, b"v")]) == [None, None]
    assert not disk.has(LOG_FILE), "a flush writes the segment of one log"
    disk.failures[disk.calls + 3] = FULL
    with pytest.raises(AppendFailed, match=f"cannot append to data/{NAME}.*No space left"):
        store.close()
    disk.power_cut("lose")
    assert values_of(disk.contents(f"data/{ASIDE}/{0:020d}.log")) == [b"v"]
    store = open_store(disk)
    store.claim(0)
    assert store.behind() == sorted([NAME, ASIDE])
    for name in store.behind():
        assert values_of_log(store, name) == [b"v"]
    assert store.behind() == []


def test_another_nodes_journal_is_read_once(store: Store, disk: FakeDisk) -> None:
    store.claim(0)
    put(store, bytes(3_000_000))
    disk.revive()
    files = CountingFiles(disk)
    other = Store(files, "data", 1)
    for shard in range(50):
        other.claim(shard)
    [journal] = journals(disk)
    assert files.bytes_read < 2 * len(disk.contents(f"data/journals/{journal}"))


def test_what_another_node_claims_later_is_found(store: Store, disk: FakeDisk) -> None:
    store.claim(0)
    make_claims_durable(store)
    other = open_store(disk, node=1)
    assert other.claim(1) == 1
    store.claim(3)
    make_claims_durable(store)
    store.release(3)
    write_file(disk, "data/leases/3", bytes(5))
    assert other.claim(3) == 2


def test_a_journal_that_another_node_dropped_is_let_go(store: Store, disk: FakeDisk) -> None:
    files = FakeFiles(disk)
    other = Store(files, "data", 1)
    store.claim(0)
    make_claims_durable(store)
    assert other.known_shards() == 1
    path = f"data/journals/{journals(disk)[0]}"
    assert path in files.open_paths
    files.remove(path)
    assert other.known_shards() == 0
    assert path not in files.open_paths


def test_a_damaged_journal_costs_what_only_it_holds(store: Store, disk: FakeDisk) -> None:
    put(store, b"v")
    disk.revive()
    store = open_store(disk)
    for _ in range(2):
        put(store, b"v", name="__group_events-0")
    disk.power_cut("lose")
    disk.flip(f"data/journals/{journals(disk)[1]}", 30)
    files = FakeFiles(disk)
    store = Store(files, "data", 0)
    assert values_of_log(store) == [b"v"]
    with pytest.raises(Corrupt, match=r"ends at offset 0.*resumes at offset 1.*byte 0 is damaged"):
        store.open_log("__group_events-0")
    put(store, b"w")
    store.close()
    assert files.open_paths == []


def test_a_closed_store_leaves_the_epochs_and_nothing_else(store: Store, disk: FakeDisk) -> None:
    store.claim(0)
    put(store, b"v")
    store.close()
    assert len(journals(disk)) == 1
    disk.power_cut("lose")
    assert values_of_log(open_store(disk)) == [b"v"]
    assert open_store(disk, node=1).claim(0) == 2


def test_no_space_in_the_journal_leaves_the_logs_as_they_were(store: Store, disk: FakeDisk) -> None:
    put(store, b"a")
    disk.failures[disk.calls + 1] = FULL
    with pytest.raises(AppendFailed, match="No space left"):
        put(store, b"b")
    put(store, b"c")
    disk.power_cut("lose")
    assert values_of_log(open_store(disk)) == [b"a", b"c"]


def test_no_space_in_a_segment_breaks_that_log_only(store: Store, disk: FakeDisk) -> None:
    put(store, b"x", name="__group_events-0")
    log = store.open_log(NAME)
    disk.failures[disk.calls + 3] = FULL
    assert store.commit([append(log, b"a" * 100)]) == [None], "the journal has it"
    [error] = store.commit([append(log, b"v")])
    assert isinstance(error, AppendFailed)
    put(store, b"y", name="__group_events-0")
    assert values_of_log(store) == [b"a" * 100]
    put(store, b"b")
    assert values_of_log(store) == [b"a" * 100, b"b"]


def test_a_journal_is_kept_for_a_log_that_is_broken(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=600))
    put(store, b"x", name="__group_events-0")
    store.open_log(NAME)
    disk.failures[disk.calls + 3] = FULL
    put(store, b"a")
    for _ in range(30):
        put(store, b"y", name="__group_events-0")
    disk.power_cut("lose")
    assert values_of_log(open_store(disk)) == [b"a"]


def test_after_a_failed_sync_the_store_takes_no_more_work(store: Store, disk: FakeDisk) -> None:
    put(store, b"a")
    disk.failures[disk.calls + 2] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(SyncFailed, match="Input/output error"):
        put(store, b"b")
    with pytest.raises(SyncFailed, match="failed before"):
        store.commit([])
    with pytest.raises(SyncFailed, match="failed before"):
        store.open_log("__group_events-0")
    store.close()
    disk.power_cut("lose")
    assert values_of_log(open_store(disk)) == [b"a"]


def test_a_journal_write_that_cannot_be_taken_back_stops_the_store(
    store: Store, disk: FakeDisk
) -> None:
    put(store, b"a")
    for call in (1, 2):
        disk.failures[disk.calls + call] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(SyncFailed, match="take back"):
        put(store, b"b")


def test_damage_before_the_journal_begins_stops_the_opening(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=300))
    for _ in range(12):
        put(store, b"v")
    disk.power_cut("keep")
    disk.flip(LOG_FILE, 70)
    with pytest.raises(Corrupt, match="byte 0 is damaged"):
        open_store(disk).open_log(NAME)


def test_a_log_that_ends_before_its_journal_begins_is_corrupt(disk: FakeDisk) -> None:
    store = open_store(disk, limits=Limits(journal_bytes=300))
    for _ in range(12):
        put(store, b"v")
    disk.power_cut("keep")
    cut_file(disk, LOG_FILE, 0)
    with pytest.raises(Corrupt, match="the file ends at byte 0, and offsets 0 to 10 were there"):
        open_store(disk).open_log(NAME)


def test_an_epoch_that_goes_back_in_the_journal_is_corrupt(disk: FakeDisk) -> None:
    store = open_store(disk)
    put(store, b"a", epoch=5)
    disk.power_cut("lose")
    journal = JournalWriter(FakeFiles(disk), "data/journals", 0, 2)
    journal.write(batch_entry(NAME.encode(), batch(1, b"b", epoch=4)), {NAME: 2})
    disk.power_cut("lose")
    with pytest.raises(Corrupt, match="epoch 5, but its journal resumes at offset 1, epoch 4"):
        open_store(disk).open_log(NAME)


# -- recovering a log beside flushes --------------------------------------------------------------


class Beside(FakeFiles):
    """Does something else before every call of the system, as another thread may."""

    def __init__(self, disk: FakeDisk) -> None:
        super().__init__(disk)
        self.other: Callable[[], None] | None = None
        self.times = 0

    def _inode(self, handle: int) -> Inode:
        self._do()
        return super()._inode(handle)

    def list_folder(self, path: str) -> list[str]:
        self._do()
        return super().list_folder(path)

    def _do(self) -> None:
        other, self.other = self.other, None
        if other is not None:
            self.times += 1
            other()
            self.other = other


def beside(disk: FakeDisk, journal_bytes: int) -> tuple[Beside, Store, list[Log]]:
    """A store of three logs."""
    files = Beside(disk)
    store = Store(files, "data", 0, Limits(journal_bytes=journal_bytes))
    names = [f"__consumer_offsets-{number}" for number in range(3)]
    return files, store, [store.open_log(name) for name in names]


def commit_in(store: Store, log: Log, values: list[bytes], value: bytes) -> None:
    assert store.commit([append(log, value)]) == [None]
    values.append(value)


@pytest.mark.parametrize("journal_bytes", [150, 1_000, 1 << 20])
def test_a_log_is_recovered_while_flushes_of_others_go_on(
    disk: FakeDisk, journal_bytes: int
) -> None:
    files, store, [failed, *others] = beside(disk, journal_bytes)
    kept: dict[str, list[bytes]] = {log.name: [] for log in (failed, *others)}
    for number in range(5):
        commit_in(store, failed, kept[failed.name], b"%d" % number)
    fail_append(disk, failed)
    assert store.usable_log(failed.name) is None

    def flush_of_others() -> None:
        for log in others:
            commit_in(store, log, kept[log.name], b"%d" % files.times)

    files.other = flush_of_others
    recovered = store.recover_log(failed.name)
    files.other = None
    assert files.times > 5
    commit_in(store, recovered, kept[failed.name], b"more")
    disk.power_cut("lose")
    again = open_store(disk)
    assert {name: values_of_log(again, name) for name in kept} == kept


def test_a_shard_is_claimed_while_flushes_go_on(disk: FakeDisk) -> None:
    files, store, [log, *_] = beside(disk, 150)
    kept: list[bytes] = []
    files.other = lambda: commit_in(store, log, kept, b"%d" % files.times)
    epochs = [store.claim(3) for _ in range(20)]
    files.other = None
    assert epochs == list(range(1, 21))
    commit_in(store, log, kept, b"more")
    disk.power_cut("lose")
    again = open_store(disk)
    assert again.claim(3) == 21
    assert values_of_log(again) == kept


def test_a_claim_during_a_flush_is_written_with_the_next_one(disk: FakeDisk) -> None:
    files, store, [log, *_] = beside(disk, 1 << 20)
    commit_in(store, log, [], b"a")
    epochs: list[int] = []

    def claim_once() -> None:
        if not epochs:
            epochs.append(store.claim(3))

    files.other = claim_once
    commit_in(store, log, [], b"b")
    files.other = None
    assert epochs == [1]
    commit_in(store, log, [], b"c")
    disk.power_cut("lose")
    assert open_store(disk).claim(3) == 2


# -- writing back beside flushes -------------------------------------------------------------------


def write_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Ten flushes of a kilobyte, of which two may be unsynced; the jobs for another thread."""
    monkeypatch.setattr("groupkeeper.storage.journal.flush_writer.WRITE_BACK_BYTES", 2_000)
    jobs: list[Callable[[], None]] = []
    store.write_back_on(jobs.append)
    for _ in range(10):
        put(store, b"v" * 1_000)
    return jobs


def test_a_log_is_written_back_beside_rounds(
    store: Store, disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = write_much(store, monkeypatch)
    assert f"sync {LOG_FILE}" not in disk.trace
    assert len(jobs) == 5
    for job in jobs:
        job()
    assert disk.trace.count(f"sync {LOG_FILE}") == 5
    put(store, b"v")
    disk.power_cut("lose")
    assert len(values_of_log(open_store(disk))) == 11


def test_after_writing_back_has_failed_no_flush_is_acknowledged(
    store: Store, disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = store.open_log(NAME)
    [job, *_] = write_much(store, monkeypatch)
    disk.failures[disk.calls + 1] = OSError(errno.EIO, "Input/output error")
    job()
    with pytest.raises(SyncFailed, match="failed before: cannot sync"):
        store.commit([append(log, b"value")])


def test_a_log_that_was_closed_meanwhile_is_not_written_back(
    store: Store, disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job, *_] = write_much(store, monkeypatch)
    store.close()
    calls = disk.calls
    job()
    assert disk.calls == calls
