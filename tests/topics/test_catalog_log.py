"""Damage to the catalog on the disk: put right from the copy and told, or refused."""

from collections.abc import Callable

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.topics.catalog_log import FOLDERS
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.topics.test_catalog import NOW, end_process, everything, grown_old, opened, topic

SEGMENT = "00000000000000000000.log"


async def lived(end: str = "stop") -> tuple[FakeDisk, dict[str, object]]:
    """A catalog of some changes, after a stop or a crash; and what it knew."""
    disk = FakeDisk()
    catalog = opened(disk)
    await catalog.create([topic("a", 3), topic("b")], NOW)
    await catalog.reserve_producer_ids(NOW)
    await catalog.change([topic("a", 5, **{"retention.ms": "7"})], NOW)
    await catalog.delete([catalog.by_name["b"]], NOW)
    known = everything(catalog)
    if end == "stop":
        catalog.close()
        disk.write_back()
        disk.revive()
    else:
        end_process(disk, end)
    return disk, known


def cut(size: int) -> Callable[[FakeDisk, str], None]:
    def damage(disk: FakeDisk, folder: str) -> None:
        path = f"data/{folder}/{SEGMENT}"
        files = FakeFiles(disk)
        files.truncate(files.open(path), max(0, len(disk.contents(path)) - size))
        disk.write_back()

    return damage


def zero(disk: FakeDisk, folder: str, at: int = 0, size: int = 512) -> None:
    path = f"data/{folder}/{SEGMENT}"
    files = FakeFiles(disk)
    length = len(disk.contents(path))
    files.write(files.open(path), bytes(min(size, length - at)), at)
    disk.write_back()


DAMAGES: dict[str, Callable[[FakeDisk, str], None]] = {
    "one byte cut": cut(1),
    "hundred bytes cut": cut(100),
    "all cut": cut(1_000_000),
    "first block zeroed": zero,
    "last bytes zeroed": lambda disk, folder: zero(disk, folder, 512, 10_000),
    "all zeroed": lambda disk, folder: zero(disk, folder, 0, 10_000),
    "segment removed": lambda disk, folder: disk.remove(f"data/{folder}/{SEGMENT}"),
    "folder removed": lambda disk, folder: disk.remove(f"data/{folder}"),
}


@pytest.mark.parametrize("end", ["stop", "kill", "lose"])
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_to_one_copy_is_told_and_made_good(damage, folder, end):
    disk, known = await lived(end)
    DAMAGES[damage](disk, folder)
    told: list[str] = []
    catalog = opened(disk, "not this one", told.append, must_exist=True)
    assert everything(catalog) == known
    assert f"data/{folder}" in told[-1]
    catalog.close()
    disk.power_cut("lose")
    told.clear()
    again = opened(disk, "not this one", told.append, must_exist=True)
    assert (everything(again), told) == (known, [])
    await again.create([topic("new")], NOW)


@pytest.mark.parametrize("folder", FOLDERS)
async def test_every_flipped_bit_is_told_and_made_good(folder):
    disk, known = await lived()
    path = f"data/{folder}/{SEGMENT}"
    size = len(disk.contents(path))
    for position in range(0, size, 2):
        told: list[str] = []
        disk.flip(path, position, 1 << position // 2 % 8)
        catalog = opened(disk, "not this one", told.append, must_exist=True)
        assert everything(catalog) == known, position
        assert told, f"nothing was said about byte {position}"
        catalog.close()
        disk.revive()


ENDS = ("one byte cut", "hundred bytes cut", "last bytes zeroed")


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - ENDS))
async def test_damage_to_both_copies_is_refused(damage):
    disk, _ = await lived()
    for folder in FOLDERS:
        DAMAGES[damage](disk, folder)
    with pytest.raises(Corrupt, match="data/catalog") as refused:
        opened(disk, must_exist=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("damage", ENDS)
async def test_what_is_missing_at_the_end_of_both_copies_is_told(damage):
    disk, _ = await lived()
    for folder in FOLDERS:
        DAMAGES[damage](disk, folder)
    told: list[str] = []
    opened(disk, told=told.append, must_exist=True)
    assert all(any(f"data/{folder}/" in line for line in told) for folder in FOLDERS)


async def test_a_catalog_that_is_gone_is_refused_until_somebody_begins_a_new_one() -> None:
    disk, _ = await lived()
    for folder in FOLDERS:
        disk.remove(f"data/{folder}")
    with pytest.raises(Corrupt) as refused:
        opened(disk, must_exist=True)
    assert str(refused.value) == (
        "data/catalog and data/catalog-copy are missing or empty, and with them all topics: "
        "restore one of them from a backup, or recreate the topics that have folders: "
        "groupkeeper repair data, or start without topics: "
        "rm -rf data/catalog data/catalog-copy; mkdir data/catalog"
    )
    FakeFiles(disk).make_folder("data/catalog")
    assert opened(disk, "another", must_exist=True).cluster_id == "another"


async def test_a_catalog_without_a_copy_gets_one() -> None:
    """As in a directory of a version that kept only one."""
    disk, known = await lived()
    disk.remove("data/catalog-copy")
    opened(disk).close()
    disk.power_cut("lose")
    disk.remove("data/catalog")
    assert everything(opened(disk, "not this one")) == known


async def test_a_lost_segment_in_the_middle_is_made_good() -> None:
    disk = FakeDisk()
    known = await grown_old(disk)
    segments = [name for name in disk.children("data/catalog") if name.endswith(".log")]
    assert len(segments) > 3
    for segment in segments:
        disk.revive()
        disk.remove(f"data/catalog/{segment}")
        told: list[str] = []
        catalog = opened(disk, "not this one", told.append)
        assert everything(catalog) == known
        assert "data/catalog is restored" in told[-1]
        catalog.close()
        disk.write_back()


async def test_an_unfinished_change_is_cut_off_and_told() -> None:
    disk, known = await lived()
    catalog = opened(disk)
    disk.crash_at = disk.calls + 1
    with pytest.raises(Crash):
        await catalog.create([topic("unfinished")], NOW)
    disk.revive()
    told: list[str] = []
    assert everything(opened(disk, told=told.append)) == known
    [line] = told
    assert line.startswith(f"data/catalog/{SEGMENT}: ")
    assert "cut off" in line


@pytest.mark.parametrize("end", ["kill", "lose", "names", "keep", "tear"])
@pytest.mark.parametrize("damage", ["folder removed", "first block zeroed"])
async def test_no_crash_while_a_copy_is_made_again_loses_anything(damage, end):
    call = 0
    while True:
        call += 1
        disk, known = await lived()
        DAMAGES[damage](disk, FOLDERS[0])
        disk.crash_at = disk.calls + call
        try:
            opened(disk, "not this one")
        except Crash:
            end_process(disk, end)
            assert everything(opened(disk, "not this one")) == known
        else:
            break
    assert call > 5
