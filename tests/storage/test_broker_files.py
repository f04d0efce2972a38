"""Folders of a broker that was killed, or copied, while its cleaner replaced segments.

Segments begin at the offsets 0, 2, 4 and 6. The cleaner has made one of the first three of them,
without the records of offsets 0 to 2 and 5.
"""

from itertools import pairwise

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import batch, offsets_of
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.stored import write_file

FOLDER = "data/__consumer_offsets-0"
OLD = {
    "00000000000000000000.log": batch(0, b"a") + batch(1, b"b"),
    "00000000000000000000.index": b"",
    "00000000000000000002.log": batch(2, b"c") + batch(3, b"d"),
    "00000000000000000002.snapshot": b"of the broker",
    "00000000000000000004.log": batch(4, b"e") + batch(5, b"f"),
    "00000000000000000004.txnindex": b"of the broker",
}
LAST = {"00000000000000000006.log": batch(6, b"g")}
NEW = {
    "00000000000000000000.index": b"",
    "00000000000000000000.log": batch(3, b"d") + batch(4, b"e"),
    "00000000000000000000.timeindex": b"",
}
COMPACTED, WHOLE = [3, 4, 6], [0, 1, 2, 3, 4, 5, 6]

Contents = dict[str, bytes]


def named(files: Contents, suffix: str) -> Contents:
    return {f"{name}{suffix}": data for name, data in files.items()}


def states() -> list[Contents]:
    """What the folder has after each step of the cleaner."""
    found = [OLD | LAST]
    for complete in range(len(NEW) + 1):  # the files get `.swap` one after the other
        done = dict(list(NEW.items())[:complete])
        rest = {name: data for name, data in NEW.items() if name not in done}
        found.append(OLD | LAST | named(done, ".swap") | named(rest, ".cleaned"))
    for gone in range(1, len(OLD) + 1):
        done = dict(list(OLD.items())[:gone])
        rest = {name: data for name, data in OLD.items() if name not in done}
        found.append(rest | LAST | named(NEW, ".swap") | named(done, ".deleted"))
    for moved in range(1, len(NEW) + 1):
        done = dict(list(NEW.items())[-moved:])
        rest = {name: data for name, data in NEW.items() if name not in done}
        found.append(done | LAST | named(rest, ".swap") | named(OLD, ".deleted"))
    return found


def disk_of(contents: Contents) -> FakeDisk:
    disk = FakeDisk()
    FakeFiles(disk).make_folder(FOLDER)
    for name, data in contents.items():
        write_file(disk, f"{FOLDER}/{name}", data)
    disk.write_back()
    return disk


def offsets(disk: FakeDisk) -> list[int]:
    log = open_log(FakeFiles(disk), FOLDER, Limits())
    found = [offset for chunk in log.batches() for offset in offsets_of(chunk)]
    assert log.next_offset == 7
    log.close()
    return found


@pytest.mark.parametrize("contents", states())
def test_every_state_that_the_cleaner_leaves_is_completed_or_undone(contents: Contents) -> None:
    disk = disk_of(contents)
    is_complete = "00000000000000000002.log" not in contents or not any(
        name.endswith(".cleaned") for name in contents
    )
    expected = COMPACTED if is_complete and contents != OLD | LAST else WHOLE
    assert offsets(disk) == expected
    left = [name.partition(".")[2] for name in disk.children(FOLDER) if name[0] == "0"]
    assert {*left} <= {"log", "index", "timeindex", "snapshot", "txnindex"}
    assert offsets(disk) == expected


@pytest.mark.parametrize("contents", states())
def test_a_crash_while_it_is_completed_changes_nothing(contents: Contents) -> None:
    expected = offsets(disk_of(contents))
    for call in range(1, 60):
        for mode in ("kill", "lose", "tear"):
            disk = disk_of(contents)
            disk.crash_at = disk.calls + call
            try:
                offsets(disk)
            except Crash:
                disk.revive() if mode == "kill" else disk.power_cut(mode, call)
                assert offsets(disk) == expected


def test_several_new_segments_take_all_the_places_of_the_old_ones() -> None:
    new = {
        "00000000000000000000.log.swap": batch(1, b"b"),
        "00000000000000000004.log.swap": batch(4, b"e"),
    }
    assert offsets(disk_of(OLD | LAST | new)) == [1, 4, 6]


def test_a_damaged_one_is_dropped_while_the_old_segments_are_there() -> None:
    disk = disk_of(OLD | LAST | {"00000000000000000000.log.swap": batch(3, b"d")[:-1]})
    log = open_log(FakeFiles(disk), FOLDER, Limits())
    [line] = log.take_repairs()
    assert line.startswith(f"{FOLDER}/00000000000000000000.log.swap is damaged: removed; its sour")
    assert offsets(disk) == WHOLE


def test_a_damaged_one_whose_old_segments_are_gone_is_refused() -> None:
    disk = disk_of(LAST | {"00000000000000000000.log.swap": batch(3, b"d")[:-1]})
    with pytest.raises(Corrupt, match=r"00\.log\.swap is damaged: restore it"):
        offsets(disk)
    write_file(disk, f"{FOLDER}/accept-loss", b"")
    assert offsets(disk) == [6]


def test_states_follow_each_other() -> None:
    assert all(one != other for one, other in pairwise(states()))
    assert len(states()) == 1 + 4 + 6 + 3
