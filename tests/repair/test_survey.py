"""What a survey says of each kind of damage: what is readable, what is lost, and how certain."""

import json
from collections.abc import Callable, Iterator

import pytest

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.repair.logs import LogContents, target_of
from groupkeeper.repair.survey import DamagedLog, Survey
from groupkeeper.storage.errors import Locked, OtherFormat, StorageError
from groupkeeper.storage.files.whole import checksum
from groupkeeper.storage.locks import NodeLocks
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from tests.support.damaged import (
    CLUSTER,
    PARTITIONS,
    SETTINGS,
    commit_late,
    live,
    looked,
    repaired,
    seen,
)
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.served import Served, settle
from tests.support.stored import cut_file, journal_paths, segment_paths, write_file

GROUP = "billing"
LOG = f"__consumer_offsets-{partition_of(GROUP, PARTITIONS)}"
OTHER = next(
    f"other-{n}" for n in range(99) if partition_of(f"other-{n}", PARTITIONS) == int(LOG[-1])
)
"""A second group in the same log."""


@pytest.fixture(autouse=True)
def fewer_zeros() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("groupkeeper.storage.journal.journal.AHEAD_BYTES", 8_000)
        yield


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """Two groups in one log: one commits first, then only the other one, and both at the end."""
    served = serve(*SETTINGS)
    client = served.client()
    for offset in range(10):
        assert client.commit(offset, OTHER) == 0
    for offset in range(40):
        assert client.commit(offset, GROUP) == 0
    return served


def damage_commit(disk: FakeDisk, group_id: str, offset: int) -> tuple[str, int]:
    """Flip a bit in the committed offset; returns the segment and where its batch begins."""
    for path in segment_paths(disk, LOG):
        data, at = disk.contents(path), 0
        while at < len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            batch = data[at : at + size]
            if group_id.encode() in batch and offset.to_bytes(8, "big") in batch[61:]:
                disk.flip(path, at + 61 + batch[61:].index(offset.to_bytes(8, "big")))
                return path, at
            at += size
    raise AssertionError("no such commit")


def damaged_log(found: Survey) -> DamagedLog:
    [log] = found.logs
    return log


def contents_of(log: DamagedLog) -> LogContents:
    assert log.contents is not None
    return log.contents


def test_a_sound_directory_needs_nothing(served: Served) -> None:
    for end in (served.stop, served.start, served.machine.kill):
        end()
        if end == served.start:
            continue
        found = looked(served.disk)
        assert not found.is_damaged
        sound = found.sound[LOG]
        assert (sound.records, sound.groups, sound.members, sound.offsets) == (50, 2, 0, 2)
        assert repaired(served.disk)[1] == ""


def test_the_lost_record_is_named(served: Served) -> None:
    served.stop()
    path, at = damage_commit(served.disk, GROUP, 3)
    log = damaged_log(looked(served.disk))
    assert log.refused.startswith(f"{path}: the batch at byte {at} is damaged")
    contents = contents_of(log)
    assert (contents.groups, contents.offsets, contents.records) == (2, 2, 49)
    [loss] = log.losses
    assert (loss.path, loss.start, loss.end) == (path, at, loss.first + 1)
    assert loss.what in log.lines


def test_members(serve: Callable[..., Served]) -> None:
    served = serve(*SETTINGS)
    client = served.client()
    member_id, generation = settle(client, GROUP)
    for offset in range(30):
        member = {"member_id": member_id, "generation": generation}
        assert client.commit(offset, GROUP, **member) == 0
    served.stop()
    damage_commit(served.disk, GROUP, 20)
    log = damaged_log(looked(served.disk))
    assert (contents_of(log).members, contents_of(log).groups) == (1, 1)


def test_how_much_a_lost_journal_had_is_unknown(served: Served) -> None:
    commit_late(served, 77)
    served.machine.kill()
    for path in journal_paths(served.disk):
        FakeFiles(served.disk).remove(path)
    found = looked(served.disk)
    log = next(log for log in found.logs if log.name == LOG)
    assert "a journal that they went through is missing" in log.refused
    assert None in [loss.end for loss in log.losses]
    assert contents_of(log).offsets == 2
    repaired(served.disk)
    assert not looked(served.disk).is_damaged


def test_a_missing_folder(served: Served) -> None:
    served.stop()
    served.disk.remove(f"data/{LOG}")
    log = damaged_log(looked(served.disk))
    assert log.refused == f"data/{LOG} is missing, with all its records"
    assert contents_of(log).records == 0
    assert [(loss.first, loss.end) for loss in log.losses] == [(0, 50)]
    repaired(served.disk)
    served.start()
    served.settled()
    assert GROUP not in seen(served).groups


def test_a_missing_folder_of_a_topic(serve: Callable[..., Served]) -> None:
    served = serve(*SETTINGS)
    live(served)
    served.stop()
    served.disk.remove("data/orders-0")
    log = damaged_log(looked(served.disk))
    assert log.contents == LogContents(0, 0)
    assert [(loss.first, loss.end) for loss in log.losses] == [(0, None)]
    repaired(served.disk)
    assert not looked(served.disk).is_damaged


@pytest.mark.parametrize("name", ["manifest", f"{0:020}.index", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("how", ["flip", "remove"])
def test_what_a_start_mends_by_itself_needs_no_repair(served: Served, name: str, how: str) -> None:
    served.stop()
    path = f"data/{LOG}/{name}"
    if how == "remove":
        FakeFiles(served.disk).remove(path)
    elif served.disk.contents(path):
        served.disk.flip(path, 0)
    found = looked(served.disk)
    assert not found.is_damaged
    assert bool(found.mended) == (name == "manifest" and how == "flip")


def test_a_damaged_start_of_a_log(serve: Callable[..., Served]) -> None:
    served = serve(*SETTINGS)
    live(served)
    served.stop()
    write_file(served.disk, "data/orders-0/log-start-offset-checkpoint", b"odd")
    log = damaged_log(looked(served.disk))
    assert "log-start-offset-checkpoint is damaged" in log.refused
    assert log.losses == []
    assert contents_of(log).records == 30
    repaired(served.disk)
    assert not looked(served.disk).is_damaged


def test_a_damaged_flush_of_the_journal_is_told(served: Served) -> None:
    served.machine.kill()
    [path] = journal_paths(served.disk)
    served.disk.flip(path, 1200)
    found = looked(served.disk)
    assert any(f"{path}: the flush at byte" in line for line in found.mended)


def test_a_segment_that_no_server_can_load_is_not_touched(served: Served) -> None:
    """Its checksum is right; what is in it is not: nothing that a repair could decide about."""
    served.stop()
    for name in served.disk.children(f"data/{LOG}"):
        FakeFiles(served.disk).remove(f"data/{LOG}/{name}")
    odd = encode_batch(0, 9, 1, [(b"\0\1", b"odd")])
    write_file(served.disk, f"data/{LOG}/{0:020}.log", odd)
    for path in journal_paths(served.disk):
        FakeFiles(served.disk).remove(path)
    log = damaged_log(looked(served.disk))
    assert "cannot be decoded" in log.refused
    assert log.beyond_repair
    repaired(served.disk)
    assert served.disk.contents(f"data/{LOG}/{0:020}.log") == odd


# -- the directory as a whole ----------------------------------------------------------------------


def test_a_running_server_is_in_the_way(served: Served) -> None:
    with pytest.raises(Locked, match=r"node 0 is running on data \(pid \d+\): stop it first"):
        NodeLocks(FakeFiles(served.disk), "data")
    served.stop()
    locks = NodeLocks(FakeFiles(served.disk), "data")
    with pytest.raises(Locked):
        served.start()
    locks.close()
    served.start()


def test_a_damaged_format_is_moved_away(served: Served) -> None:
    served.stop()
    before = served.disk.contents("data/format")
    served.disk.flip("data/format", 3)
    found = looked(served.disk)
    assert found.format_damage.startswith("data/format is damaged")
    _, originals = repaired(served.disk)
    assert served.disk.contents(f"{originals}/format") != before
    served.start()
    served.settled()
    assert len(served.states()) == PARTITIONS


def test_a_directory_of_a_newer_version_is_refused(served: Served) -> None:
    served.stop()
    line = json.dumps({"format": 99, "directory": "x", "shards": 4}).encode()
    write_file(served.disk, "data/format", line + b"\n" + checksum(line) + b"\n")
    cut_file(served.disk, "data/format", len(line) + 10)
    with pytest.raises(OtherFormat):
        looked(served.disk)


@pytest.mark.parametrize(
    "path", [f"data/{LOG}", f"data/{LOG}/{0:020}.log", f"data/{LOG}/{999:020}.log"]
)
def test_one_log_of_a_directory(served: Served, path: str) -> None:
    served.stop()
    damage_commit(served.disk, GROUP, 3)
    served.disk.remove(f"data/__consumer_offsets-{(int(LOG[-1]) + 1) % PARTITIONS}")
    found = looked(served.disk, path)
    assert [log.name for log in found.logs] == [LOG]
    assert found.target.path == f"data/{LOG}"
    repaired(served.disk, path)
    assert not looked(served.disk, path).is_damaged


def test_a_folder_that_was_copied(served: Served) -> None:
    """Without journals and locks, beside nothing else: as from a broker."""
    served.stop()
    damage_commit(served.disk, GROUP, 3)
    files = FakeFiles(served.disk)
    files.make_folder("copy/orders-copy")
    for name in served.disk.children(f"data/{LOG}"):
        write_file(
            served.disk, f"copy/orders-copy/{name}", served.disk.contents(f"data/{LOG}/{name}")
        )
    found = looked(served.disk, "copy/orders-copy")
    assert found.target.path == "copy/orders-copy"
    log = damaged_log(found)
    assert contents_of(log).records == 49
    _, originals = repaired(served.disk, "copy/orders-copy")
    assert originals.startswith("copy/repaired-")
    assert not looked(served.disk, "copy/orders-copy").is_damaged
    assert served.disk.children("copy") == ["orders-copy", originals.rpartition("/")[2]]


def test_nothing_to_look_at(disk: FakeDisk) -> None:
    FakeFiles(disk).make_folder("data/empty")
    for path in ("data", "data/empty"):
        with pytest.raises(StorageError, match="not a data directory, partition folder"):
            target_of(FakeFiles(disk), path)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


# -- the catalog -----------------------------------------------------------------------------------


@pytest.fixture
def stopped(serve: Callable[..., Served]) -> Served:
    """With more topics than the end of the catalog that is kept twice."""
    served = serve(*SETTINGS)
    live(served)
    for number in range(8):
        made = [CreatableTopic(name=f"more-{number}", num_partitions=1, replication_factor=1)]
        served.client().call(4, CreateTopicsRequest(topics=made, timeout_ms=1000))
    served.stop()
    return served


def zero(disk: FakeDisk, folder: str, start: int, size: int) -> None:
    [path] = segment_paths(disk, folder)
    write_file(disk, path, bytes(size), start)


def test_one_damaged_copy_of_the_catalog_is_mended_by_a_start(stopped: Served) -> None:
    stopped.disk.remove(f"data/{CATALOG[0]}")
    found = looked(stopped.disk)
    assert not found.is_damaged
    assert any(f"data/{CATALOG[0]} is restored" in line for line in found.mended)


def test_two_copies_with_damage_in_different_places_lose_nothing(stopped: Served) -> None:
    before = (catalog := stopped.server.topics.catalog).cluster_id, set(catalog.by_name)
    zero(stopped.disk, CATALOG[0], 0, 60)
    zero(stopped.disk, CATALOG[1], 130, 60)
    found = looked(stopped.disk)
    assert found.catalog is not None
    assert found.catalog.left.losses == []
    repaired(stopped.disk)
    assert not looked(stopped.disk).is_damaged
    stopped.start()
    catalog = stopped.server.topics.catalog
    assert (catalog.cluster_id, set(catalog.by_name)) == before


def test_topics_that_only_have_folders_are_made_anew(stopped: Served) -> None:
    before = seen_messages(stopped)
    for name in CATALOG:
        zero(stopped.disk, name, 130, 60)
    found = looked(stopped.disk)
    assert found.catalog is not None
    left = found.catalog.left
    assert left.cluster_id
    assert [(loss.first, loss.end) for loss in left.losses] == [(1, 3)]
    assert len(left.topics()) == 8
    assert found.catalog.from_folders == {"orders": 1, "payments": 3}
    repaired(stopped.disk)
    stopped.start()
    stopped.settled()
    assert seen(stopped).messages == before


def seen_messages(stopped: Served) -> dict[tuple[str, int], list[int]]:
    stopped.start()
    stopped.settled()
    found = seen(stopped).messages
    stopped.stop()
    return found


def test_a_catalog_that_is_gone(stopped: Served) -> None:
    for name in CATALOG:
        stopped.disk.remove(f"data/{name}")
    found = looked(stopped.disk)
    assert found.catalog is not None
    assert "are missing or empty" in found.catalog.refused
    repaired(stopped.disk)
    assert not looked(stopped.disk).is_damaged
    stopped.start()
    stopped.settled()
    assert stopped.server.topics.cluster_id == CLUSTER
    assert {name: count for name, count in seen(stopped).topics.items() if name[0] != "_"} == {
        "orders": 1,
        "payments": 3,
    }


def test_no_producer_id_is_given_twice(stopped: Served) -> None:
    def new_id() -> int:
        answer = stopped.client().call(0, InitProducerIdRequest(transactional_id=None))
        return int(answer.producer_id)

    stopped.start()
    known = new_id()
    stopped.stop()
    for name in CATALOG:
        zero(stopped.disk, name, 130, 1_500)
    repaired(stopped.disk)
    stopped.start()
    assert new_id() > known
