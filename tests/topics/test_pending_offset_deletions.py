"""Which partitions of the group topic have to forget which deleted topics."""

import asyncio

import pytest

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics import pending_offset_deletions as module
from groupkeeper.topics.catalog import Catalog
from groupkeeper.topics.catalog_log import CatalogFolders
from groupkeeper.topics.limits import OverLimitError
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.turns import Turns
from tests.support.cleaned import compact_log
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.topics.scene import NOW, InlineWorker


def opened(disk: FakeDisk) -> tuple[Catalog, PendingOffsetDeletions]:
    """As a process that starts finds them."""
    files = FakeFiles(disk)
    files.make_folder("data")
    disk.sync_names(".")
    folders = CatalogFolders(files, "data", Limits(), lambda what: None)
    catalog = Catalog(folders.open, 4, InlineWorker(), Turns())
    catalog.load(NOW, lambda: "cluster-1")
    return catalog, PendingOffsetDeletions(catalog, Turns(), lambda: NOW)


async def test_it_is_durable_and_for_each_partition() -> None:
    disk = FakeDisk()
    _, pending_offset_deletions = opened(disk)
    await pending_offset_deletions.add({"a", "b"}, [1, 3])
    await pending_offset_deletions.add({"b", "c"}, [2])
    disk.power_cut("lose")
    _, again = opened(disk)
    assert [again.of(n) for n in range(4)] == [set(), {"a", "b"}, {"b", "c"}, {"a", "b"}]
    await again.remove({"a", "b"}, 3)
    disk.power_cut("lose")
    _, again = opened(disk)
    assert [again.of(n) for n in range(4)] == [set(), {"a", "b"}, {"b", "c"}, set()]
    await again.remove({"a", "b"}, 1)
    await again.remove({"b", "c"}, 2)
    catalog, _ = opened(disk)
    assert catalog.pending_offset_deletions == {}


async def test_it_outlives_a_compaction() -> None:
    disk = FakeDisk()
    catalog, pending_offset_deletions = opened(disk)
    for _ in range(20):
        await pending_offset_deletions.add({"a"}, [1])
        await pending_offset_deletions.add({"b"}, [1])
        await pending_offset_deletions.remove({"b"}, 1)
    size = disk.used()
    for log in catalog.logs():
        log.roll()
        compact_log(log)
    assert opened(disk)[1].of(1) == {"a"}
    assert disk.used() < size / 2
    assert opened(disk)[1].of(1) == {"a"}


async def test_what_is_known_is_not_written_again() -> None:
    disk = FakeDisk()
    _, pending_offset_deletions = opened(disk)
    await pending_offset_deletions.add({"a"}, [1])
    calls = disk.calls
    await pending_offset_deletions.add({"a"}, [1])
    await pending_offset_deletions.remove({"a"}, 2)
    assert disk.calls == calls


async def test_it_is_to_be_forgotten_before_it_is_durable() -> None:
    _, pending_offset_deletions = opened(FakeDisk())
    adding = asyncio.ensure_future(pending_offset_deletions.add({"a"}, [1]))
    await asyncio.sleep(0)
    assert pending_offset_deletions.of(1) == {"a"}
    await asyncio.gather(adding, pending_offset_deletions.remove({"a"}, 1))
    assert pending_offset_deletions.of(1) == set()


async def test_beyond_the_limit_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_OFFSET_DELETIONS", 3)
    _, pending_offset_deletions = opened(FakeDisk())
    await pending_offset_deletions.add({"a"}, [1, 2])
    with pytest.raises(OverLimitError, match="MAX_PENDING_OFFSET_DELETIONS"):
        await pending_offset_deletions.add({"b", "c"}, [1])
    assert (pending_offset_deletions.of(1), pending_offset_deletions.of(2)) == ({"a"}, {"a"})
    await pending_offset_deletions.add({"b"}, [1])
    await pending_offset_deletions.add({"a", "b"}, [1])
    await pending_offset_deletions.remove({"a"}, 2)
    await pending_offset_deletions.add({"c"}, [1])


async def test_a_disk_that_refuses_changes_nothing() -> None:
    disk = FakeDisk()
    _, pending_offset_deletions = opened(disk)
    await pending_offset_deletions.add({"a"}, [1])
    disk.failures = {disk.calls + n: OSError(28, "full") for n in range(1, 9)}
    with pytest.raises((StorageError, OSError)):
        await pending_offset_deletions.add({"b"}, [1])
    assert pending_offset_deletions.of(1) == {"a"}
    disk.failures = {}
    await pending_offset_deletions.remove({"a"}, 1)
    assert pending_offset_deletions.of(1) == opened(disk)[1].of(1) == set()
