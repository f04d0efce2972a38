"""What an observer stores survives every crash: no event is missing, and none is there twice."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from groupkeeper.history.rounds import Folding, Round
from groupkeeper.protocol.group_events import Event, decode
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.errors import Corrupt, Locked
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.storage.observer_mark import OtherDirectory
from groupkeeper.watch import store as store_module
from groupkeeper.watch.partition import STATE_VERSION, PartitionWatch
from groupkeeper.watch.store import WatchStore
from tests.analytics.churn import churn
from tests.analytics.logs import batch, commit, group
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.wandering_log import wandering_log

SEEDS = 200
MODES = ("lose", "names", "keep", "tear")
DATA = "./data"


def opened(files: Any, partitions: int = 1, cluster: str = "cluster") -> WatchStore:
    return WatchStore(files, DATA, partitions, cluster, lambda: 1_000)


def begun(store: WatchStore) -> PartitionWatch:
    fold = store.open(0)
    if not fold.has_begun:
        fold.begin(0, "topic")
    return fold


def stored(store: WatchStore, partition: int = 0) -> list[Event]:
    """All events in the segments."""
    store.catch_up()
    log = store.log_of(partition)
    chunks = [] if log is None else log.batches(log.start_offset)
    records = (
        record
        for chunk in chunks
        for header in iter_batches(chunk)
        for record in decode_records(chunk, header)
    )
    return [decode(each.key, each.value or b"") for each in records]


# -- crashes -------------------------------------------------------------------------------------


def observe(files: FakeFiles, data: bytes, chance: Random) -> list[Event]:
    """One process: it reads the log in random pieces, with checkpoints now and then."""
    store = opened(files)
    fold = begun(store)
    while piece := rest_of(data, fold.position)[: chance.randrange(500, 6_000)]:
        before = fold.position
        store.feed(fold, piece)
        if fold.position == before:  # less than one batch
            store.feed(fold, rest_of(data, before))
        if chance.random() < 0.3:
            store.checkpoint(fold)
    found = stored(store)
    store.close()
    return found


def rest_of(data: bytes, position: int) -> bytes:
    for header in iter_batches(data):
        if header.next_offset > position:
            return data[header.position :]
    return b""


@pytest.fixture
def small_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is written anew often, in several parts."""
    monkeypatch.setattr(store_module, "STATE_LEAST", 3_000)
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 2_000)
    monkeypatch.setattr(store_module, "STATE_SEGMENT_BYTES", 4_000)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_killed_observer_stores_what_one_stores_that_was_never_killed(
    seed: int, small_state: None
) -> None:
    data = b"".join(wandering_log(seed, 25, ("billing", "audit", "ledger")))
    expected = observe(FakeFiles(FakeDisk()), data, Random(seed))
    chance, disk = Random(seed), FakeDisk()
    kills = 0
    while True:
        if kills < 6:
            disk.crash_at = disk.calls + chance.randrange(1, 40 + 20 * kills)
        try:
            found = observe(FakeFiles(disk), data, chance)
        except Crash:
            kills += 1
            if chance.random() < 0.5:
                disk.revive()  # kill -9
            else:
                disk.power_cut(chance.choice(MODES), chance.randrange(1 << 30))
        else:
            break
    assert kills
    assert found == expected


def test_events_that_were_stored_are_known_to_the_next_process_without_a_checkpoint() -> None:
    files = MemoryFiles()
    records, _ = churn()
    store = opened(files)
    store.feed(begun(store), records)
    expected = stored(store)
    store.close()
    again = opened(files)
    fold = begun(again)
    assert fold.position == 0
    assert again.feed(fold, records).events == []
    assert stored(again) == expected


# -- what is stored ------------------------------------------------------------------------------


def rounds(events: list[Event]) -> dict[tuple[str, int], str]:
    """The causes of completed rounds, by group and generation."""
    folds, found = dict[str, Folding](), {}
    for event in events:
        if event.group is not None:
            for each in folds.setdefault(event.group, Folding()).add(event):
                if isinstance(each, Round) and each.outcome == "completed":
                    found[each.group, each.generation] = str((each.cause or {}).get("code"))
    return found


def test_inferred_causes_are_those_that_the_coordinator_stored() -> None:
    records, told = churn()
    store = opened(MemoryFiles())
    store.feed(begun(store), records)
    inferred, known = rounds(stored(store)), rounds(told)
    assert inferred.keys() == known.keys()
    wrong = {key: code for key, code in inferred.items() if code != known[key]}
    assert len(known) > 60
    assert set(wrong.values()) <= {"unknown"}
    assert len(wrong) <= 2


def test_events_have_their_source_and_rise_by_one() -> None:
    records, _ = churn()
    store = opened(MemoryFiles())
    store.feed(begun(store), records)
    events = stored(store)
    assert [each.seq for each in events] == [*range(len(events))]
    assert {each.epoch for each in events} == {0}
    assert {each.fields["source"] for each in events} == {"log"}
    assert all(0 < each.fields["confidence"] < 1 for each in events)


def test_the_state_is_written_anew_before_it_takes_much_room(small_state: None) -> None:
    files = MemoryFiles()
    store = opened(files)
    fold = begun(store)
    store.feed(fold, batch([group("g", 1, "ann")], base=0))
    for number in range(1, 300):
        store.feed(fold, batch([commit("g", "orders", 0, number)], base=number))
        store.checkpoint(fold)
    state = store.store.open_log("__observer-0")
    assert state.next_offset >= 598
    assert state.start_offset > 500
    assert state.size < 20_000


def test_a_loss_is_stored_with_the_place_where_reading_goes_on() -> None:
    files = MemoryFiles()
    store = opened(files)
    fold = begun(store)
    store.feed(fold, batch([group("g", 1, "ann")], base=0))
    store.lose(fold, 50, "records were deleted", 99)
    store.close()
    again = opened(files)
    assert begun(again).position == 50
    last = stored(again)[-1]
    assert (last.type, last.group, last.at_ms) == ("history_lost", None, 99)
    assert last.fields["to_offset"] == 50


# -- the directory -------------------------------------------------------------------------------


def test_one_process_has_the_directory() -> None:
    disk = FakeDisk()
    store = opened(FakeFiles(disk))
    with pytest.raises(Locked, match="is in use by another observer: stop it, or choose"):
        opened(FakeFiles(disk))
    store.close()
    opened(FakeFiles(disk)).close()


def _other_cluster(files: Any) -> None:
    opened(files).close()
    opened(files, cluster="another")


def _other_partitions(files: Any) -> None:
    opened(files, partitions=3).close()
    opened(files, partitions=4)


def _other_data(files: Any) -> None:
    files.make_folder(DATA)
    files.make_folder(f"{DATA}/orders-0")
    opened(files)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (_other_cluster, "of the cluster cluster, and another answers: choose another --data"),
        (_other_partitions, "a topic with 3 partitions, and the topic of the cluster has 4"),
        (_other_data, "other data than an observer's: choose an empty --data"),
    ],
)
def test_other_directories_are_refused(wrong: Callable[[Any], None], line: str) -> None:
    files = MemoryFiles()
    with pytest.raises(OtherDirectory, match=line):
        wrong(files)


def test_a_state_that_is_none_is_told() -> None:
    files = MemoryFiles()
    store = opened(files)
    fold = begun(store)
    store.checkpoint(fold)
    bad = json.dumps({"v": STATE_VERSION}).encode()
    store._write(0, [(b"", bad)])
    store.close()
    with pytest.raises(Corrupt, match="not the state of an observer"):
        opened(files).open(0)
