"""What a log keeps once a person has accepted that the rest of it is lost: all that is sound."""

import pytest

from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.errors import Corrupt, Loss
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.start import FILE_NAME as START_FILE
from groupkeeper.storage.log.start import write_start
from groupkeeper.storage.recovery.manifest import ManifestFile
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from tests.storage.test_damage import (
    FLUSHES,
    LIMITS,
    NAMES,
    TOPIC,
    Damage,
    accept,
    cut_inside,
    cut_the_first_at_a_border,
    expected,
    fill,
    flip_in_the_first,
    opened,
    remove_a_middle_one,
    remove_the_first,
    remove_the_last,
    value_of,
)
from tests.support.batches import batch
from tests.support.cleaned import TOKEN, clean
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.stored import put, segment_paths, values_in, write_file

pytestmark = pytest.mark.usefixtures("fewer_zeros")

NAME = NAMES[0]


def flip_value(disk: FakeDisk, path: str, number: int) -> None:
    """Damage the batch with this value."""
    disk.flip(path, disk.contents(path).index(value_of(number)))


@pytest.mark.parametrize("name", [NAME, TOPIC])
def test_what_was_written_after_the_last_mark_is_kept(disk: FakeDisk, name: str) -> None:
    """The marks know where bytes were before the damaged ones were left out."""
    fill(disk, flushes=10, stop=True)
    files = FakeFiles(disk)
    store = Store(files, "data", 0, LIMITS)
    store.claim(0)
    topic = open_log(files, f"data/{TOPIC}", LIMITS)
    for number in range(10, 15):
        put(store, value_of(number), name=NAME, epoch=2)
        topic.append(batch(number, value_of(number)))
    store.catch_up()
    disk.revive()
    flip_value(disk, segment_paths(disk, name)[-1], 3)
    with pytest.raises(Corrupt):
        opened(disk, name)
    accept(disk, name)
    wanted = [value_of(number) for number in range(15) if number != 3]
    for _ in range(2):
        log = opened(disk, name)
        assert values_in(log) == wanted
        log.close()


def numbers_in(log: Log) -> set[int]:
    return {int((value or b"").split()[0]) for value in values_in(log)}


def lost_in(log: Log) -> set[int]:
    """The offsets that are said to be lost."""
    return {number for loss in log.losses for number in range(loss.first, loss.end or 0)}


def test_gaps_are_filled_from_the_journal(disk: FakeDisk) -> None:
    """Of three damaged batches the journal, which holds the newest, still has two."""
    fill(disk, flushes=30, stop=False)
    for number in (2, 26, 29):
        [path, *_] = [p for p in segment_paths(disk, NAME) if value_of(number) in disk.contents(p)]
        flip_value(disk, path, number)
    accept(disk, NAME)
    log = opened(disk, NAME)
    assert lost_in(log) == {2}
    assert values_in(log) == [value_of(number) for number in range(30) if number != 2]
    assert any("offsets 26 to 26 are taken from the journal" in line for line in log.repairs)
    assert log.next_offset == 30


def test_a_loss_names_offsets_and_bytes(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    first = segment_paths(disk, NAME)[0]
    start = disk.contents(first).index((3).to_bytes(8, "big"))
    end = disk.contents(first).index((5).to_bytes(8, "big"), start)
    flip_value(disk, first, 3)
    flip_value(disk, first, 4)
    accept(disk, NAME)
    what = f"{first}: left out bytes {start} to {end - 1}, offsets 3 to 4"
    assert opened(disk, NAME).losses == [Loss(what, 3, 5, first, start, end)]


@pytest.mark.parametrize("damage", [cut_the_first_at_a_border, cut_inside, remove_a_middle_one])
def test_a_cut_or_missing_segment_names_the_offsets(disk: FakeDisk, damage: Damage) -> None:
    fill(disk, stop=True)
    damage(disk, TOPIC)
    accept(disk, TOPIC)
    log = opened(disk, TOPIC)
    assert lost_in(log) == set(range(FLUSHES)) - numbers_in(log) != set()


def test_the_journal_knows_how_much_a_missing_last_segment_had(disk: FakeDisk) -> None:
    """Of what followed the last finished segment it has the newest batches."""
    fill(disk, flushes=34, stop=False)
    remove_the_last(disk, NAME)
    accept(disk, NAME)
    log = opened(disk, NAME)
    assert log.next_offset == 34
    assert lost_in(log) == set(range(34)) - numbers_in(log) != set()
    assert all(loss.end is not None for loss in log.losses)


def test_segments_without_damage_stay_guarded(disk: FakeDisk) -> None:
    """The manifest still knows their checksums, and which of them were compacted."""
    fill(disk, stop=True)
    before = ManifestFile(FakeFiles(disk), f"data/{NAME}").on_disk.finished
    flip_in_the_first(disk, NAME)
    accept(disk, NAME)
    opened(disk, NAME).close()
    after = ManifestFile(FakeFiles(disk), f"data/{NAME}").on_disk.finished
    assert len(before) == len(after) > 1
    assert [*after[1:]] == [*before[1:]]
    assert after[0].crc is None


@pytest.mark.parametrize("number", [0, 5, 16, 17, 39])
@pytest.mark.parametrize("byte", range(17))
@pytest.mark.parametrize("name", [NAME, TOPIC])
def test_a_header_is_mended_as_the_place_of_its_batch_tells(
    disk: FakeDisk, byte: int, number: int, name: str
) -> None:
    """The first and the last batch of a segment, of the log, and one in the middle."""
    fill(disk, stop=True)
    before = ManifestFile(FakeFiles(disk), f"data/{name}").on_disk.finished
    [*_, path] = [p for p in segment_paths(disk, name) if int(p[-24:-4]) <= number]
    batch_at = disk.contents(path).rindex(number.to_bytes(8, "big") + b"\0\0\0")
    disk.flip(path, batch_at + byte, 0x40)
    accept(disk, name)
    log = opened(disk, name)
    assert (values_in(log), log.losses) == (expected(name), [])
    log.close()
    after = ManifestFile(FakeFiles(disk), f"data/{name}").on_disk.finished
    assert [each[:4] for each in after] == [each[:4] for each in before]


def test_an_epoch_that_is_wrong_at_the_end_of_a_segment(disk: FakeDisk) -> None:
    """No other batch of its segment contradicts it; the next segment does."""
    fill(disk, stop=True)
    [path, following, *_] = segment_paths(disk, TOPIC)
    last = disk.contents(path).rindex((int(following[-24:-4]) - 1).to_bytes(8, "big"))
    disk.flip(path, last + 15, 4)
    with pytest.raises(Corrupt):
        values_in(opened(disk, TOPIC))
    accept(disk, TOPIC)
    assert values_in(opened(disk, TOPIC)) == expected(TOPIC)


def test_a_damaged_start_is_taken_from_the_list_of_folders(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    files = FakeFiles(disk)
    store = Store(files, "data", 0, LIMITS)
    write_start(files, f"data/{TOPIC}", 3)
    store.folders.note(TOPIC, 3)
    store.close()
    write_file(disk, f"data/{TOPIC}/{START_FILE}", b"odd")
    accept(disk, TOPIC)
    store = Store(FakeFiles(disk), "data", 0, LIMITS)
    assert "was damaged: restored, the log begins at offset 3" in store.folders.check(TOPIC)
    log = open_log(FakeFiles(disk), f"data/{TOPIC}", LIMITS)
    assert values_in(log) == expected(TOPIC)[3:]


def test_a_damaged_start_that_nothing_else_knows_is_given_up(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    write_file(disk, f"data/{TOPIC}/{START_FILE}", b"odd")
    with pytest.raises(Corrupt):
        opened(disk, TOPIC)
    accept(disk, TOPIC)
    for again in range(2):
        log = opened(disk, TOPIC)
        assert values_in(log) == expected(TOPIC)
        assert bool(log.take_repairs()) == (not again)
        log.close()


# -- compacted logs --------------------------------------------------------------------------------


def compacted(disk: FakeDisk, *groups: int) -> dict[int, bytes]:
    """The topic's log without two thirds of the values in its finished segments; what it holds."""
    fill(disk, stop=True)
    files = FakeFiles(disk)
    log = open_log(files, f"data/{TOPIC}", LIMITS)
    swap = Swap(log, clean(files, log, *groups))
    swap.prepare(TOKEN)
    assert swap.switch()
    swap.finish()
    kept = {int((value or b"").split()[0]): value or b"" for value in values_in(log)}
    log.close()
    assert 10 < len(kept) < FLUSHES
    return kept


@pytest.mark.parametrize("groups", [(), (1, 1)])
@pytest.mark.parametrize("number", [0, 3, 6])
def test_gaps_of_a_compaction_are_no_loss(
    disk: FakeDisk, groups: tuple[int, ...], number: int
) -> None:
    kept = compacted(disk, *groups)
    flip_value(disk, segment_paths(disk, TOPIC)[0], number)
    accept(disk, TOPIC)
    log = opened(disk, TOPIC)
    assert numbers_in(log) == kept.keys() - {number}
    [loss] = log.losses
    assert number in range(loss.first, loss.end or 0)
    assert lost_in(log) & kept.keys() == {number}
    log.close()
    assert values_in(opened(disk, TOPIC)) == [kept[n] for n in sorted(kept) if n != number]


def test_a_compacted_segment_that_is_missing_or_cut(disk: FakeDisk) -> None:
    for damage in (remove_the_first, cut_the_first_at_a_border):
        disk = FakeDisk()
        kept = compacted(disk, 1, 1)
        damage(disk, TOPIC)
        accept(disk, TOPIC)
        log = opened(disk, TOPIC)
        missing = kept.keys() - numbers_in(log)
        assert missing == lost_in(log) & kept.keys() != set()


def test_undamaged_segments_are_still_known_as_compacted(disk: FakeDisk) -> None:
    compacted(disk, 1, 1)
    flip_value(disk, segment_paths(disk, TOPIC)[1], 18)
    accept(disk, TOPIC)
    opened(disk, TOPIC).close()
    manifest = ManifestFile(FakeFiles(disk), f"data/{TOPIC}").on_disk
    assert manifest.finished[0].compacted


def test_a_swap_that_a_crash_left_is_completed_first(disk: FakeDisk) -> None:
    fill(disk, stop=True)
    files = FakeFiles(disk)
    log = open_log(files, f"data/{TOPIC}", LIMITS)
    swap = Swap(log, clean(files, log))
    swap.prepare(TOKEN)
    assert swap.switch()
    disk.revive()
    [new] = [path for path in segment_paths(disk, TOPIC) if path.endswith(".swap")]
    disk.flip(new, disk.contents(new).index(value_of(6)))
    with pytest.raises(Corrupt, match=r"\.swap is damaged"):
        opened(disk, TOPIC)
    accept(disk, TOPIC)
    log = opened(disk, TOPIC)
    found = numbers_in(log)
    assert 6 not in found
    assert {0, 3, 9, 12} <= found
    assert 6 in lost_in(log)
