"""What each kind of damage does: the rows of the table in docs/storage.md.

Everything is repaired, or refused in a line that names the file and what to do. No log is served
without its lost records as if they had never existed.
"""

import re
from collections.abc import Callable
from random import Random

import pytest

from groupkeeper.protocol.record_batch import HEADER_SIZE
from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, StorageError, remedy
from groupkeeper.storage.folders import FolderList
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.start import read_start, write_start
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.support.batches import batch, values_of
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.stored import (
    append,
    cut_file,
    fail_append,
    journal_paths,
    make_claims_durable,
    open_store,
    put,
    salt_positions,
    segment_paths,
    values_in,
    write_file,
)

pytestmark = pytest.mark.usefixtures("fewer_zeros")

LIMITS = Limits(segment_bytes=4_000, index_interval_bytes=500, journal_bytes=12_000)
NAMES = [f"__consumer_offsets-{number}" for number in range(3)]
TOPIC = "orders-0"
FLUSHES = 40
VALUE_BYTES = 150


def value_of(number: int) -> bytes:
    return b"%d " % number + b"v" * VALUE_BYTES


def fill(disk: FakeDisk, flushes: int = FLUSHES, *, stop: bool) -> None:
    """Commits to three logs, the last of which gets none at the end, and appends to a topic's."""
    files = FakeFiles(disk)
    store = Store(files, "data", 0, LIMITS)
    epoch = max(store.claim(shard) for shard in range(3))
    logs = [store.open_log(name) for name in NAMES]
    topic = open_log(files, f"data/{TOPIC}", LIMITS)
    for number in range(flushes):
        taking = logs if number < flushes - 5 else logs[:2]
        appends = [append(log, value_of(number), epoch=epoch) for log in taking]
        assert not any(store.commit(appends))
        topic.append(batch(number, value_of(number)))
    if stop:
        topic.close()
        store.close()
    else:
        disk.revive()


def expected(name: str) -> list[bytes | None]:
    return [value_of(number) for number in range(FLUSHES if name != NAMES[2] else FLUSHES - 5)]


def opened(disk: FakeDisk, name: str) -> Log:
    """A log after a restart."""
    disk.revive()
    if name == TOPIC:
        return without_journal(disk, name)
    return open_store(disk, limits=LIMITS).open_log(name)


def without_journal(disk: FakeDisk, name: str) -> Log:
    """A log as its segments have it."""
    return open_log(FakeFiles(disk), f"data/{name}", LIMITS)


def size_of(disk: FakeDisk, path: str) -> int:
    return len(disk.contents(path))


BATCH = len(batch(0, value_of(10)))
Damage = Callable[[FakeDisk, str], None]


def cut_inside(disk: FakeDisk, name: str) -> None:
    path = segment_paths(disk, name)[-1]
    cut_file(disk, path, size_of(disk, path) - 700)


def cut_at_a_border(disk: FakeDisk, name: str) -> None:
    path = segment_paths(disk, name)[-1]
    cut_file(disk, path, size_of(disk, path) - 4 * BATCH)


def flip_in_the_last(disk: FakeDisk, name: str) -> None:
    path = segment_paths(disk, name)[-1]
    disk.flip(path, size_of(disk, path) - 800)


def flip_an_epoch(disk: FakeDisk, name: str) -> None:
    """No checksum of a batch covers its header's first fields."""
    disk.flip(segment_paths(disk, name)[-1], 15, 4)


def remove_the_last(disk: FakeDisk, name: str) -> None:
    FakeFiles(disk).remove(segment_paths(disk, name)[-1])


def remove_all(disk: FakeDisk, name: str) -> None:
    for path in segment_paths(disk, name):
        FakeFiles(disk).remove(path)


def remove_the_folder(disk: FakeDisk, name: str) -> None:
    files = FakeFiles(disk)
    for file in disk.children(f"data/{name}"):
        files.remove(f"data/{name}/{file}")
    files.remove_folder(f"data/{name}")


def remove_the_first(disk: FakeDisk, name: str) -> None:
    FakeFiles(disk).remove(segment_paths(disk, name)[0])


def remove_a_middle_one(disk: FakeDisk, name: str) -> None:
    FakeFiles(disk).remove(segment_paths(disk, name)[1])


def cut_the_first_at_a_border(disk: FakeDisk, name: str) -> None:
    path = segment_paths(disk, name)[0]
    cut_file(disk, path, size_of(disk, path) - BATCH)


def flip_in_the_first(disk: FakeDisk, name: str) -> None:
    disk.flip(segment_paths(disk, name)[0], HEADER_SIZE + 20)


def flip_an_offset_in_the_first(disk: FakeDisk, name: str) -> None:
    """That of the last batch: no other one follows in the file that it would not fit."""
    path = segment_paths(disk, name)[0]
    data = disk.contents(path)
    last = data.rindex(b"\0\0\0\0\0\0\0")
    while data[last + 16 : last + 17] != b"\2":
        last = data.rindex(b"\0\0\0\0\0\0\0", 0, last)
    disk.flip(path, last + 7, 0x40)


LAST: list[Damage] = [cut_inside, cut_at_a_border, flip_in_the_last, flip_an_epoch, remove_the_last]
EARLIER: list[Damage] = [
    remove_the_first,
    remove_a_middle_one,
    cut_the_first_at_a_border,
    flip_in_the_first,
    flip_an_offset_in_the_first,
]


@pytest.mark.parametrize("name", [NAMES[0], TOPIC])
@pytest.mark.parametrize("damage", [*LAST, *EARLIER, remove_all])
def test_damage_after_a_clean_stop_is_refused(disk: FakeDisk, name: str, damage: Damage) -> None:
    fill(disk, stop=True)
    damage(disk, name)
    with pytest.raises(Corrupt) as refused:
        values_in(opened(disk, name))
    assert f"data/{name}" in str(refused.value)
    assert re.search(r"byte|offset|missing", str(refused.value))
    assert str(refused.value).endswith(remedy(f"data/{name}"))
    assert values_in(opened(disk, NAMES[1])) == expected(NAMES[1])


@pytest.mark.parametrize("name", [NAMES[0], TOPIC])
def test_a_lost_folder_after_a_clean_stop_is_refused(disk: FakeDisk, name: str) -> None:
    fill(disk, stop=True)
    remove_the_folder(disk, name)
    for end in ("kill", "stop", "again"):
        store = open_store(disk, limits=LIMITS)
        with pytest.raises(Corrupt, match=f"data/{name} is missing, with all its records: restore"):
            store.folders.check(name)
        store.close() if end == "stop" else disk.revive()
    accept(disk, name)
    open_store(disk, limits=LIMITS).folders.check(name)


def test_a_folder_that_may_go_is_not_missed(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    remove_the_folder(disk, TOPIC)
    files = FakeFiles(disk)
    folders = Store(files, "data", 0, LIMITS).folders
    folders.note_removed(TOPIC)
    folders.save()
    files.sync_folder("data")
    disk.power_cut("lose")
    open_store(disk, limits=LIMITS).folders.check(TOPIC)


def test_a_folder_that_was_made_since_is_missed_until_the_machine_starts_anew(
    disk: FakeDisk,
) -> None:
    fill(disk, stop=False)
    open_store(disk, limits=LIMITS).folders.note(TOPIC)
    disk.revive()
    remove_the_folder(disk, TOPIC)
    with pytest.raises(Corrupt, match=f"data/{TOPIC} is missing, with all its records: restore"):
        open_store(disk, limits=LIMITS).folders.check(TOPIC)
    disk.revive()
    disk.power_cut("keep")  # its records were in the page cache only: they were not promised
    assert open_store(disk, limits=LIMITS).folders.check(TOPIC) == ""


@pytest.mark.parametrize("node", [0, 1])
def test_a_stop_does_not_list_a_folder_that_it_did_not_sync(disk: FakeDisk, node: int) -> None:
    store = open_store(disk)
    store.claim(0)
    put(store, b"v", name=NAMES[0])
    store.catch_up()
    disk.revive()
    store = open_store(disk, node=node)
    store.claim(0)
    store.close()
    disk.power_cut("lose")
    store = open_store(disk)
    store.claim(0)
    log = store.open_log(NAMES[0])
    assert values_in(log) == [b"v"]


@pytest.mark.parametrize("stop", [True, False])
def test_the_start_of_a_log_is_put_back(disk: FakeDisk, stop: bool) -> None:
    fill(disk, stop=True)
    files = FakeFiles(disk)
    store = Store(files, "data", 0, LIMITS)
    write_start(files, f"data/{TOPIC}", 2)
    store.folders.note(TOPIC, 2)
    store.close() if stop else disk.revive()
    FakeFiles(disk).remove(f"data/{TOPIC}/log-start-offset-checkpoint")
    disk.power_cut("keep")
    store = open_store(disk, limits=LIMITS)
    told = store.folders.check(TOPIC)
    assert told.startswith(f"data/{TOPIC}/log-start-offset-checkpoint was missing")
    assert read_start(FakeFiles(disk), f"data/{TOPIC}") == 2
    assert store.folders.check(TOPIC) == ""


def test_a_start_before_the_one_that_is_noted_is_put_back(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    store = Store(FakeFiles(disk), "data", 0, LIMITS)
    write_start(FakeFiles(disk), f"data/{TOPIC}", 20)
    store.folders.note(TOPIC, 20)
    store.close()
    write_start(FakeFiles(disk), f"data/{TOPIC}", 2)
    store = open_store(disk, limits=LIMITS)
    told = store.folders.check(TOPIC)
    assert told == (
        f"data/{TOPIC}/log-start-offset-checkpoint was damaged and had 2: restored, the log begins "
        "at offset 20"
    )
    assert read_start(FakeFiles(disk), f"data/{TOPIC}") == 20


def test_a_start_after_the_one_that_is_noted_holds(disk: FakeDisk) -> None:
    """A full disk may have refused the note."""
    fill(disk, stop=True)
    store = Store(FakeFiles(disk), "data", 0, LIMITS)
    store.folders.note(TOPIC, 20)
    store.close()
    write_start(FakeFiles(disk), f"data/{TOPIC}", 30)
    store = open_store(disk, limits=LIMITS)
    assert store.folders.check(TOPIC) == ""
    assert read_start(FakeFiles(disk), f"data/{TOPIC}") == 30


def test_what_is_noted_while_the_list_is_written_is_in_it(disk: FakeDisk) -> None:
    """One thread deletes topics while another makes them."""
    fill(disk, stop=True)
    files = FakeFiles(disk)
    folders = FolderList(files, "data")
    rename = files.rename

    def note_first(path: str, to: str) -> None:
        files.rename = rename  # type: ignore[method-assign]
        folders.note("new-0")
        rename(path, to)

    files.rename = note_first  # type: ignore[method-assign]
    folders.note_removed(TOPIC)
    folders.save()
    with pytest.raises(Corrupt, match="new-0 is missing"):
        FolderList(files, "data").check("new-0")


def test_the_list_does_not_grow_with_every_start(
    disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.storage.folders.MOST_REPEATED", 10)
    fill(disk, stop=True)
    folders = FolderList(FakeFiles(disk), "data")
    before = len(disk.contents("data/folders").splitlines())
    for start in range(1, 100):
        folders.note("t-0", start)
        assert len(disk.contents("data/folders").splitlines()) <= before + 12
    assert disk.contents("data/folders").endswith(b" t-0 99\n")


def test_a_list_that_is_damaged_is_told(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    disk.flip("data/folders", 12)
    store = open_store(disk, limits=LIMITS)
    assert "data/folders is damaged" in store.take_repairs()[0]


def test_a_lost_folder_of_a_group_log_after_a_crash_is_refused(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    remove_the_folder(disk, NAMES[0])
    with pytest.raises(
        Corrupt, match=f"{NAMES[0]} ends at offset 0, epoch -1, but its journal resumes"
    ):
        opened(disk, NAMES[0])


@pytest.mark.parametrize("name", [NAMES[0], TOPIC])
@pytest.mark.parametrize("damage", [*LAST, *EARLIER, remove_all])
def test_what_is_left_is_served_once_a_person_accepts_that(
    disk: FakeDisk, name: str, damage: Damage
) -> None:
    fill(disk, stop=True)
    damage(disk, name)
    accept(disk, name)
    for again in range(3):
        log = opened(disk, name)
        left = values_in(log)
        wanted = expected(name)
        assert set(left) <= set(wanted)
        assert sorted(left, key=wanted.index) == left
        assert damage in (flip_an_epoch, flip_an_offset_in_the_first) or len(left) < len(wanted)
        assert bool(log.take_repairs()) == (not again)
        assert ACCEPT_FILE not in disk.children(f"data/{name}")
        log.close()


@pytest.mark.parametrize("bit", [0, 8, 20, 40])
def test_an_offset_that_no_checksum_covers_is_looked_at_when_it_is_read(
    disk: FakeDisk, bit: int
) -> None:
    fill(disk, stop=True)
    path = segment_paths(disk, TOPIC)[0]
    place = disk.contents(path).rindex((9).to_bytes(8, "big"))
    disk.flip(path, place + 7 - bit // 8, 1 << bit % 8)
    log = opened(disk, TOPIC)
    for offset in (0, 5, 8, 9):
        with pytest.raises(Corrupt, match=f"{path}: the header of the batch at byte"):
            log.read(offset, 100_000)
    assert values_of(log.read(7, 1)) == [value_of(7)]


def test_an_offset_that_no_segment_can_hold_is_damage(disk: FakeDisk) -> None:
    fill(disk, flushes=8, stop=False)
    path = segment_paths(disk, TOPIC)[-1]
    disk.flip(path, disk.contents(path).rindex((7).to_bytes(8, "big")) + 2)
    with pytest.raises(Corrupt, match=f"{path}: the batch at byte .* is damaged"):
        opened(disk, TOPIC)
    accept(disk, TOPIC)
    for _ in range(2):
        log = opened(disk, TOPIC)
        assert log.next_offset == 7
        log.close()


@pytest.mark.parametrize("lost", [1, 100, 300])
@pytest.mark.parametrize("name", [NAMES[0], TOPIC])
def test_the_last_sector_of_a_log_is_kept_twice(disk: FakeDisk, name: str, lost: int) -> None:
    fill(disk, stop=True)
    path = segment_paths(disk, name)[-1]
    disk.flip(path, size_of(disk, path) - lost)
    log = opened(disk, name)
    assert values_in(log) == expected(name)
    [what] = log.take_repairs()
    assert re.match(f"{path}: restored bytes [0-9]+ to {size_of(disk, path) - 1}", what)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "damage", [*(each for each in LAST if each is not flip_an_epoch), remove_all]
)
def test_what_the_journal_has_is_put_right_after_a_crash(
    disk: FakeDisk, name: str, damage: Damage
) -> None:
    fill(disk, flushes=10, stop=False)
    damage(disk, name)
    log = opened(disk, name)
    assert values_in(log) == expected(name)[: len(values_in(log))]
    assert len(values_in(log)) >= 5


@pytest.mark.parametrize("byte", [*range(8), *range(12, 16)])
def test_the_header_of_the_last_batch_is_compared_with_the_journal(
    disk: FakeDisk, byte: int
) -> None:
    """No checksum covers its base offset and its epoch, and no batch follows that would not fit."""
    fill(disk, flushes=8, stop=False)
    path = segment_paths(disk, NAMES[0])[-1]
    last = disk.contents(path).rindex((7).to_bytes(8, "big"))
    disk.flip(path, last + byte, 0x40)
    log = opened(disk, NAMES[0])
    assert values_in(log) == [value_of(number) for number in range(8)]
    assert log.take_repairs()[0].startswith(f"{path}: cut off ")
    assert log.last_epoch == 1


@pytest.mark.parametrize("name", [*NAMES, TOPIC])
@pytest.mark.parametrize("damage", EARLIER)
def test_damage_to_an_earlier_segment_after_a_crash_is_refused(
    disk: FakeDisk, name: str, damage: Damage
) -> None:
    fill(disk, stop=False)
    damage(disk, name)
    with pytest.raises(Corrupt, match=f"data/{name}/.*restore it"):
        values_in(opened(disk, name))


# -- journals --------------------------------------------------------------------------------------


def one_flush_each(disk: FakeDisk, *names: str) -> tuple[str, list[int]]:
    """Flushes of one log each that no segment has. Returns the journal and where they begin."""
    store = open_store(disk)
    epoch = max(store.claim(shard) for shard in range(3))
    logs = {name: store.open_log(name) for name in names}
    make_claims_durable(store)
    disk.write_back()
    for at, name in enumerate(names):
        value = value_of(names[:at].count(name))
        assert store.commit([append(logs[name], value, epoch=epoch)]) == [None]
    disk.power_cut("lose")
    [path] = journal_paths(disk)
    return path, salt_positions(disk, path)[1:]


def test_a_damaged_flush_costs_its_logs_and_no_others(disk: FakeDisk) -> None:
    path, starts = one_flush_each(disk, NAMES[0], NAMES[0], NAMES[1], NAMES[2])
    disk.flip(path, starts[1] + 60)
    store = open_store(disk)
    [what] = store.take_repairs()
    assert f"{path}: the flush at byte {starts[1]} is damaged" in what
    assert [values_in(store.open_log(name)) for name in NAMES[1:]] == [[value_of(0)]] * 2
    with pytest.raises(Corrupt, match=f"{NAMES[0]} ends at offset 1, but reached 1") as refused:
        store.open_log(NAMES[0])
    assert what in str(refused.value)
    assert f"groupkeeper repair data/{NAMES[0]}" in str(refused.value)


def test_a_damaged_flush_that_the_segments_have_costs_nothing(disk: FakeDisk) -> None:
    store = open_store(disk)
    epoch = store.claim(0)
    log = store.open_log(NAMES[0])
    for number in range(3):
        store.commit([append(log, value_of(number), epoch=epoch)])
    disk.revive()
    disk.flip(journal_paths(disk)[0], 600)
    store = open_store(disk)
    assert values_in(store.open_log(NAMES[0])) == [value_of(number) for number in range(3)]
    assert "is damaged" in store.take_repairs()[0]
    assert store.claim(0) == epoch + 1


def test_what_is_left_of_a_log_is_served_once_a_person_accepts_that(disk: FakeDisk) -> None:
    path, starts = one_flush_each(disk, NAMES[0], NAMES[0], NAMES[0], NAMES[1])
    disk.flip(path, starts[1] + 60)
    accept(disk, NAMES[0])
    log = opened(disk, NAMES[0])
    assert values_in(log) == [value_of(0), value_of(2)]
    assert "but its journal resumes at offset 2" in log.take_repairs()[0]
    disk.power_cut("lose")
    log = opened(disk, NAMES[0])
    assert (values_in(log), log.take_repairs()) == ([value_of(0), value_of(2)], [])


def test_damage_that_no_flush_tells_of_costs_the_logs_without_a_later_round(disk: FakeDisk) -> None:
    path, starts = one_flush_each(disk, NAMES[0], NAMES[1], *[NAMES[2]] * 12)
    for start in starts[1:12]:
        write_file(disk, path, bytes(100), start)
    store = open_store(disk)
    with pytest.raises(Corrupt, match=f"{NAMES[1]} may lack records from offset 0 on .*{path}"):
        store.open_log(NAMES[1])
    with pytest.raises(Corrupt, match=f"{NAMES[2]} ends at offset 0"):
        store.open_log(NAMES[2])
    accept(disk, NAMES[1])
    for value in range(3):
        disk.revive()
        store = open_store(disk)
        epoch = max(store.claim(shard) for shard in range(3))
        assert len(values_in(store.open_log(NAMES[1]))) == value
        put(store, b"value", name=NAMES[1], epoch=epoch)
        disk.power_cut("lose")


def test_a_lost_journal_is_missed_by_the_next_one(disk: FakeDisk) -> None:
    store = Store(FakeFiles(disk), "data", 0, Limits(journal_bytes=2_000))
    epoch = store.claim(0)
    logs = [store.open_log(name) for name in NAMES]
    disk.write_back()
    flushes = 0
    while len(journal_paths(disk)) < 2:
        flushes += 1
        assert not any(store.commit([append(log, value_of(1), epoch=epoch) for log in logs]))
    disk.power_cut("lose")
    FakeFiles(disk).remove(journal_paths(disk)[0])
    assert [outcome(disk, name)[0] for name in NAMES] == [[value_of(1)] * flushes, None, None]
    with pytest.raises(Corrupt, match=f"data/{NAMES[1]} ends at offset 0.*restore it"):
        opened(disk, NAMES[1])


def remove_journals(disk: FakeDisk) -> dict[str, bytes]:
    """All of them, as an operator may to free space. Returns what they held."""
    files = FakeFiles(disk)
    held = {}
    for path in journal_paths(disk):
        held[path] = disk.contents(path)
        files.remove(path)
    return held


def started(disk: FakeDisk, node: int = 0) -> Store:
    store = open_store(disk, node, LIMITS)
    make_claims_durable(store, epoch=max(store.claim(shard) for shard in range(3)))
    return store


def test_a_log_whose_last_journal_is_missing_is_refused_by_every_start(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    ends = [without_journal(disk, name).next_offset for name in NAMES]
    remove_journals(disk)
    for stop in (True, False, True):
        store = started(disk)
        for name, end in zip(NAMES, ends, strict=True):
            with pytest.raises(Corrupt) as refused:
                store.open_log(name)
            assert str(refused.value) == (
                f"data/{name} may lack records from offset {end} on: a journal that they went "
                f"through is missing from data/journals: {remedy(f'data/{name}')}"
            )
        if stop:
            store.close()
        disk.revive()


def test_what_a_missing_journal_held_can_be_given_up(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    log = without_journal(disk, NAMES[0])
    left, end = values_in(log), log.next_offset
    remove_journals(disk)
    with pytest.raises(Corrupt):
        started(disk).open_log(NAMES[0])
    disk.revive()
    accept(disk, NAMES[0])
    store = started(disk)
    log = store.open_log(NAMES[0])
    assert values_in(log) == left
    assert log.take_repairs() == [
        (
            f"data/{NAMES[0]} may lack records from offset {end} on: a journal that they went "
            "through is missing from data/journals: accepted"
        )
    ]
    fail_append(disk, log)  # then it is opened again by the same process
    assert values_in(store.open_log(NAMES[0])) == left
    disk.revive()
    log = started(disk).open_log(NAMES[0])
    assert (values_in(log), log.take_repairs()) == (left, [])


def refuse_and_put_back(disk: FakeDisk) -> set[str]:
    """Start without the journals, which refuses all logs; put them back and return their paths."""
    held = remove_journals(disk)
    refusing = started(disk)
    for name in NAMES:
        with pytest.raises(Corrupt):
            refusing.open_log(name)
    disk.revive()
    for path, data in held.items():
        write_file(disk, path, data)
    return set(held)


def test_a_journal_that_was_put_back_is_enough(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    refuse_and_put_back(disk)
    store = started(disk)
    for name in NAMES:
        log = store.open_log(name)
        assert (values_in(log), log.take_repairs()) == (expected(name), [])


def test_a_journal_that_was_put_back_is_not_missed_once_it_is_removed(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    held = refuse_and_put_back(disk)
    store = started(disk)
    for name in NAMES:
        store.open_log(name)
    put(store, b"more", name=NAMES[0], epoch=9)
    assert not held & set(journal_paths(disk))
    disk.revive()
    store = started(disk)
    for name in NAMES[1:]:
        log = store.open_log(name)
        assert (values_in(log), log.take_repairs()) == (expected(name), [])


def test_a_journal_that_was_put_back_tells_of_logs_that_it_has_no_batches_of(
    disk: FakeDisk,
) -> None:
    store = open_store(disk, limits=LIMITS)
    assert [store.claim(shard) for shard in range(3)] == [1, 1, 1]
    put(store, b"once", name=NAMES[2])
    [first] = journal_paths(disk)
    while first in journal_paths(disk):
        put(store, value_of(0), name=NAMES[0])
    disk.revive()
    held = remove_journals(disk)
    with pytest.raises(Corrupt):
        started(disk).open_log(NAMES[2])
    disk.revive()
    for path, data in held.items():
        write_file(disk, path, data)
    assert values_in(started(disk).open_log(NAMES[2])) == [b"once"]


def test_a_folder_from_elsewhere_has_been_in_no_journal(disk: FakeDisk) -> None:
    log = open_log(FakeFiles(disk), f"data/{NAMES[0]}", LIMITS)
    log.append(batch(0, b"from elsewhere", epoch=12))
    log.sync()
    for epochs in ([1, 13], [14]):
        disk.revive()  # killed before the first flush
        store = open_store(disk)
        assert store.claim(0) == epochs[0]
        log = store.open_log(NAMES[0])
        assert values_in(log) == [b"from elsewhere"]
        if epochs[0] <= log.last_epoch:
            assert store.claim(0, log.last_epoch) == epochs[1]


def test_a_journal_that_was_emptied_is_named(disk: FakeDisk) -> None:
    fill(disk, stop=False)
    for path in journal_paths(disk):
        cut_file(disk, path, 0)
    with pytest.raises(Corrupt, match=rf"missing from data/journals \({path} holds no flush\)"):
        started(disk).open_log(NAMES[0])


def test_a_journal_is_missing_beside_an_older_one_of_another_node(disk: FakeDisk) -> None:
    started(disk, node=1)
    disk.revive()
    fill(disk, stop=False)
    [path] = [path for path in journal_paths(disk) if "/0-" in path]
    FakeFiles(disk).remove(path)
    with pytest.raises(Corrupt, match="a journal that they went through is missing"):
        started(disk).open_log(NAMES[0])


def test_a_lost_journal_costs_nothing_after_a_clean_stop(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    FakeFiles(disk).remove(journal_paths(disk)[0])
    store = open_store(disk)
    assert [store.claim(shard) for shard in range(3)] == [2, 2, 2]
    for name in NAMES:
        log = store.open_log(name)
        assert (values_in(log), log.take_repairs()) == (expected(name), [])


def test_an_unfinished_flush_is_told(disk: FakeDisk) -> None:
    path, starts = one_flush_each(disk, NAMES[0], NAMES[1])
    disk.flip(path, starts[1] + 60)
    store = open_store(disk)
    told = store.take_repairs()
    assert told == [f"{path}: the unfinished flush at byte {starts[1]} is left out"]
    assert values_in(store.open_log(NAMES[0])) == [value_of(0)]


# -- what can be made again ------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("file", ["manifest", "leader-epoch-checkpoint", "0.index", "0.timeindex"])
@pytest.mark.parametrize("how", ["flip", "cut", "zero", "remove"])
def test_files_that_can_be_made_again(disk: FakeDisk, stop: bool, file: str, how: str) -> None:
    fill(disk, stop=stop)
    file = file.replace("0.", f"{0:020}.")
    for name in (NAMES[0], TOPIC):
        spoil(disk, f"data/{name}/{file}", how, Random(3))
        log = opened(disk, name)
        assert values_in(log) == expected(name)
        told = [what for what in log.take_repairs() if "manifest is damaged" in what]
        assert len(told) == (file == "manifest" and how != "remove")
        assert values_of(log.read(7, 1))[0] == value_of(7)


def accept(disk: FakeDisk, name: str) -> None:
    files = FakeFiles(disk)
    files.make_folder(f"data/{name}")
    files.open(f"data/{name}/{ACCEPT_FILE}", create=True)


def spoil(disk: FakeDisk, path: str, how: str, random: Random) -> None:
    if how == "remove":
        FakeFiles(disk).remove(path)
        return
    size = size_of(disk, path)
    if how == "flip":
        disk.flip(path, random.randrange(size), 1 << random.randrange(8))
    elif how == "cut":
        cut_file(disk, path, random.randrange(size))
    else:
        start = random.randrange(size)
        write_file(disk, path, bytes(min(512, size - start)), start)


@pytest.mark.parametrize("part", range(6))
def test_nothing_is_lost_in_silence(part: int) -> None:
    """Any file, anywhere, after a clean stop and after a crash with and without the page cache."""
    for seed in range(part, 300, 6):
        check_that_nothing_is_lost_in_silence(seed)


def check_that_nothing_is_lost_in_silence(seed: int) -> None:
    random = Random(seed)
    disk = FakeDisk()
    end = random.choice(["stop", "kill", "power"])
    fill(disk, stop=end == "stop")
    if end == "power":
        disk.power_cut("keep")
    paths = [
        f"data/{folder}/{file}"
        for folder in (*NAMES, TOPIC, "journals", "leases")
        for file in disk.children(f"data/{folder}")
        if size_of(disk, f"data/{folder}/{file}")
    ]
    paths += ["data/folders"] if end == "stop" else []
    path = random.choice(paths)
    how = random.choice(["flip", "cut", "zero", "remove"])
    spoil(disk, path, how, random)
    what = f"seed {seed}: {how} {path} after {end}"
    outcomes = {name: outcome(disk, name) for name in (*NAMES, TOPIC)}
    for name, (values, line) in outcomes.items():
        if values is None:
            assert path.split("/")[1] in (name, "journals"), f"{what}: {name}: {line}"
            assert "data/" in line
        elif end != "stop" and is_exempt(path, how, name):
            assert values == expected(name)[: len(values)]
        else:
            assert values == expected(name), what


def is_exempt(path: str, how: str, name: str) -> bool:
    """The tail of a live journal, or of a topic's log, cannot be told from a crash before it."""
    return "journals/" in path or (name == TOPIC and path.startswith(f"data/{TOPIC}"))


def outcome(disk: FakeDisk, name: str) -> tuple[list[bytes | None] | None, str]:
    try:
        return values_in(opened(disk, name)), ""
    except StorageError as error:
        return None, str(error)
