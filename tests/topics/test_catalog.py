"""The catalog: durable before visible, whatever crashes in the middle."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics.catalog import PRODUCER_ID_BLOCK, Catalog, Topic
from groupkeeper.topics.catalog_log import FOLDERS, SEGMENT_BYTES, CatalogFolders
from groupkeeper.turns import Turns
from tests.support.cleaned import compact_log
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.topics.scene import NOW, InlineWorker, Scene, batch


def opened(
    disk: FakeDisk,
    cluster_id: str = "cluster-1",
    told: Callable[[str], None] = lambda what: None,
    *,
    must_exist: bool = False,
    segment_bytes: int = SEGMENT_BYTES,
) -> Catalog:
    files = FakeFiles(disk)
    files.make_folder("data")
    disk.sync_names(".")
    folders = CatalogFolders(
        files, "data", Limits(segment_bytes=segment_bytes), told, must_exist=must_exist
    )
    catalog = Catalog(folders.open, 4, InlineWorker(), Turns())
    catalog.load(NOW, lambda: cluster_id)
    return catalog


def topic(name: str, partitions: int = 1, **configs: str) -> Topic:
    return Topic(name, name.encode().ljust(16, b"."), partitions, configs)


async def test_partitions_are_counted_through_all_changes() -> None:
    disk = FakeDisk()
    catalog = opened(disk)
    internal, widest = catalog.partition_total, catalog.widest
    await catalog.create([topic("a", 3), topic("b", 2)], NOW)
    assert (catalog.partition_total, catalog.widest) == (internal + 5, max(widest, 3))
    await catalog.change([topic("a", 7)], NOW)
    assert (catalog.partition_total, catalog.widest) == (internal + 9, 7)
    await catalog.delete([catalog.by_name["b"]], NOW)
    assert catalog.partition_total == internal + 7
    assert opened(disk).partition_total == internal + 7


async def test_topics_come_back_as_they_were() -> None:
    disk = FakeDisk()
    await opened(disk).create([topic("a", 3, **{"retention.ms": "5"}), topic("b")], NOW)
    again = opened(disk)
    found = again.by_name["a"]
    assert (found.partition_count, found.configs) == (3, {"retention.ms": "5"})
    assert again.by_id[found.topic_id] is found
    assert again.counts == {"a": 3, "b": 1, "__consumer_offsets": 4, "__group_events": 4}


async def test_a_deleted_topic_is_a_leftover_until_it_is_purged() -> None:
    disk = FakeDisk()
    catalog = opened(disk)
    await catalog.create([topic("a", 3)], NOW)
    await catalog.delete([catalog.by_name["a"]], NOW)
    assert "a" not in catalog.counts
    again = opened(disk)
    leftover = again.being_deleted["a"]
    assert leftover.partition_count == 3
    await again.purged([leftover], NOW)
    assert opened(disk).being_deleted == {}


def test_the_cluster_and_the_group_topic_keep_their_ids() -> None:
    disk = FakeDisk()
    first, second = opened(disk), opened(disk, "another")
    assert first.cluster_id == second.cluster_id == "cluster-1"
    ids = {each.by_name["__consumer_offsets"].topic_id for each in (first, second)}
    assert len(ids) == 1


async def test_a_catalog_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    disk = FakeDisk()
    await opened(disk).create([topic("a")], NOW)
    for folder in FOLDERS:
        disk.flip(f"data/{folder}/00000000000000000000.log", 70)
    with pytest.raises(StorageError):
        opened(disk)


REFUSED = {
    "delete": lambda catalog: catalog.delete([catalog.by_name["a"]], NOW),
    "grow": lambda catalog: catalog.change([topic("a", 9)], NOW),
    "create": lambda catalog: catalog.create([topic("b")], NOW),
}
UNCHANGED = {"a": 3, "__consumer_offsets": 4, "__group_events": 4}


async def refused(disk: FakeDisk, what: str, *, calls: int = 1) -> Catalog:
    """A catalog that was refused a change: this many calls failed, the first is that of a sync."""
    catalog = opened(disk)
    await catalog.create([topic("a", 3)], NOW)
    sync = disk.calls + 2
    disk.failures = {sync + more: OSError(5, "Input/output error") for more in range(calls)}
    with pytest.raises(StorageError):
        await REFUSED[what](catalog)
    assert catalog.counts == UNCHANGED
    return catalog


@pytest.mark.parametrize("end", ["kill", "lose", "keep", "tear"])
@pytest.mark.parametrize("what", REFUSED)
async def test_a_refused_change_is_not_carried_out_later(what, end):
    disk = FakeDisk()
    await refused(disk, what)
    end_process(disk, end)
    assert opened(disk).counts == UNCHANGED, "by the next start"
    disk = FakeDisk()
    catalog = await refused(disk, what, calls=4)  # it could not be taken back at once, either
    ids = await catalog.reserve_producer_ids(NOW)
    end_process(disk, end)
    again = opened(disk)
    assert again.counts == UNCHANGED, "made durable by a later change"
    assert (await again.reserve_producer_ids(NOW)).start == ids.stop


async def test_no_change_is_taken_while_a_refused_one_cannot_be_taken_back() -> None:
    disk = FakeDisk()
    catalog = await refused(disk, "delete", calls=20)
    with pytest.raises((StorageError, OSError)):
        await catalog.reserve_producer_ids(NOW)


async def test_what_a_killed_process_wrote_is_durable_before_it_is_seen() -> None:
    disk = FakeDisk()
    catalog = opened(disk)
    disk.crash_at = disk.calls + 2  # the sync
    with pytest.raises(Crash):
        await catalog.create([topic("a", 3)], NOW)
    end_process(disk, "kill")
    assert opened(disk).counts == UNCHANGED
    end_process(disk, "lose")
    assert opened(disk).counts == UNCHANGED


async def grown_old(disk: FakeDisk) -> dict[str, object]:
    """A catalog with many changes behind it; gives what it knows."""
    catalog = opened(disk, segment_bytes=100_000)
    await catalog.create([topic("a", 3), topic("b"), topic("gone"), topic("going")], NOW)
    await catalog.reserve_producer_ids(NOW)
    await catalog.delete([catalog.by_name["gone"], catalog.by_name["going"]], NOW)
    await catalog.purged([catalog.being_deleted["gone"]], NOW)
    for number in range(40):
        await catalog.change([topic("a", 3, x=f"{number}" * 20_000)], NOW)
    known = everything(catalog)
    catalog.close()
    disk.write_back()
    return known


def everything(catalog: Catalog) -> dict[str, object]:
    return {
        "cluster": catalog.cluster_id,
        "topics": {
            topic.name: (topic.topic_id, topic.partition_count, topic.configs)
            for topic in catalog.by_name.values()
        },
        "being_deleted": {topic.name: topic.topic_id for topic in catalog.being_deleted.values()},
        "collision": catalog.find_collision("a"),
    }


def catalog_bytes(disk: FakeDisk) -> int:
    return sum(len(disk.contents(f"data/catalog/{name}")) for name in disk.children("data/catalog"))


def compacted(disk: FakeDisk) -> Catalog:
    """A catalog in several segments, of which the cleaner has compacted all but the last."""
    catalog = opened(disk, segment_bytes=100_000)
    for log in catalog.logs():
        compact_log(log)
    return catalog


async def test_compaction_lets_old_values_go() -> None:
    disk = FakeDisk()
    known = await grown_old(disk)
    before = catalog_bytes(disk)
    catalog = compacted(disk)
    assert catalog_bytes(disk) < before / 4
    catalog.close()
    catalog = opened(disk)
    assert everything(catalog) == known
    assert (await catalog.reserve_producer_ids(NOW)).start == PRODUCER_ID_BLOCK
    await catalog.create([topic("new")], NOW)
    disk.power_cut("lose")
    again = opened(disk)
    assert set(again.by_name) == {"a", "b", "new", "__consumer_offsets", "__group_events"}
    assert (again.cluster_id, set(again.being_deleted)) == ("cluster-1", {"going"})
    assert (await again.reserve_producer_ids(NOW)).start == 2 * PRODUCER_ID_BLOCK


@pytest.mark.parametrize("lost", [[], ["catalog"], ["catalog-copy"]])
async def test_a_compacted_catalog_is_whole_without_manifests_and_makes_copies(
    lost: list[str],
) -> None:
    disk = FakeDisk()
    known = await grown_old(disk)
    compacted(disk).close()
    for folder in FOLDERS:
        disk.remove(f"data/{folder}/manifest")
    for folder in lost:
        disk.remove(f"data/{folder}")
    assert everything(opened(disk, "not this one")) == known


async def test_a_compacted_segment_that_is_lost_is_made_good() -> None:
    disk = FakeDisk()
    known = await grown_old(disk)
    compacted(disk).close()
    disk.write_back()
    disk.remove(f"data/catalog/{0:020d}.log")
    told: list[str] = []
    assert everything(opened(disk, "not this one", told.append)) == known
    assert "data/catalog is restored" in told[-1]


@pytest.mark.parametrize("end", ["kill", "lose", "names", "keep", "tear"])
async def test_no_crash_during_a_compaction_loses_anything(end: str) -> None:
    disk = FakeDisk()
    await grown_old(disk)
    first = disk.calls
    compacted(disk)
    for call in range(1, disk.calls - first + 1, 3):
        disk = FakeDisk()
        known = await grown_old(disk)
        disk.crash_at = disk.calls + call
        with suppress(Crash):
            compacted(disk)
        end_process(disk, end)
        assert everything(opened(disk)) == known
        end_process(disk, "lose")
        assert everything(opened(disk)) == known


def end_process(disk: FakeDisk, end: str) -> None:
    """By `kill -9`, which leaves the page cache, or by a power cut of that mode."""
    if end == "kill":
        disk.revive()
    else:
        disk.power_cut(end, seed=7)


def make(*names: str) -> CreateTopicsRequest:
    requested_topics = [
        CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names
    ]
    return CreateTopicsRequest(topics=requested_topics)


async def life(scene: Scene, known: dict[str, int]) -> None:
    """Topics come, get messages and go; `known` notes what was acknowledged."""
    known["id"] = (await _init(scene)).producer_id
    await scene.ask(7, make("a", "b"))
    known["b kept"] = 1
    await scene.produce("a", 0, batch("old"))
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000)
    await scene.ask(6, deletion)
    known["a deleted"] = 1
    await scene.ask(7, make("a"))


async def _init(scene: Scene) -> object:
    return await scene.ask(4, InitProducerIdRequest(transactional_id=None))


async def crash(scene: Scene, known: dict[str, int]) -> None:
    """Live until the disk says that it is over."""
    living = asyncio.ensure_future(life(scene, known))
    for _ in range(10_000):
        if scene.disk.dead:
            break
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(living, *others, return_exceptions=True)


async def calls_of_a_life() -> tuple[int, int]:
    scene = Scene()
    first = scene.disk.calls
    await life(scene, {})
    return first, scene.disk.calls


@pytest.mark.parametrize("mode", ["kill", "lose", "keep", "tear"])
async def test_a_crash_at_every_call(mode):
    first, last = await calls_of_a_life()
    assert last - first > 15
    for at in range(first + 1, last + 1):
        await crash_and_check(at, mode)


async def crash_and_check(at: int, mode: str) -> None:
    scene = Scene()
    known: dict[str, int] = {}
    scene.disk.crash_at = at
    await crash(scene, known)
    if mode == "kill":
        scene.files.kill()
        scene.disk.revive()
    else:
        scene.disk.power_cut(mode, seed=at)
    again = Scene(scene.disk)
    if "b kept" in known:
        assert again.topics.partition_count("b") == 1
    if "id" in known:
        assert (await _init(again)).producer_id > known["id"]
    is_new = again.topics.partition_count("a") is None
    await again.create("a")
    if is_new or "a deleted" in known:
        assert (await again.fetch(("a", 0, 0))).high_watermark == 0


async def test_users_and_acls_come_back_as_they_were() -> None:
    disk = FakeDisk()
    catalog = opened(disk)
    await catalog.change_access([("user:a", {"salt": "x"}), ("acl:1", {"host": "*"})], NOW)
    await catalog.change_access([("user:a", {"salt": "y"}), ("acl:1", None)], NOW)
    assert catalog.access == {"user:a": {"salt": "y"}}
    assert opened(disk).access == catalog.access


async def test_a_change_of_users_that_was_not_durable_is_none() -> None:
    disk = FakeDisk()
    catalog = opened(disk)
    await catalog.change_access([("user:a", {"salt": "x"})], NOW)
    disk.failures[disk.calls + 1] = OSError(28, "No space left on device")
    with pytest.raises((StorageError, OSError)):
        await catalog.change_access([("user:a", None), ("user:b", {"salt": "z"})], NOW)
    assert catalog.access == {"user:a": {"salt": "x"}} == opened(disk).access
