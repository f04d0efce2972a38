"""The data directory: new, copied from elsewhere, and gone while the server runs."""

from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.server.directory import MEMORY_JOURNAL_BYTES, Directory
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.backup.note import INCOMPLETE, NotRestored
from groupkeeper.storage.errors import Corrupt, DirectoryLost, StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.storage.files.whole import read_whole
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.observer_mark import check_mark
from groupkeeper.storage.recovery.opening import open_log
from tests.support.directories import restore
from tests.support.fake_files import FakeFiles
from tests.support.served import Lines, Serve, Served, groups_apart, settle

FIXTURES = Path(__file__).parent.parent / "fixtures"
FROM_KAFKA = FIXTURES / "kafka-consumer-offsets"


# -- backups ---------------------------------------------------------------------------------------


def test_the_beginning_of_a_backup_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / f"today{INCOMPLETE}"
    Directory(Files(), ServeOptions(folder)).store.close()  # a name alone makes no backup
    with pytest.raises(NotRestored, match="was not completed: remove it"):
        Directory(Files(), ServeOptions(folder))


def test_the_directory_of_an_observer_is_not_served(tmp_path: Path) -> None:
    check_mark(Files(), str(tmp_path), "cluster")
    with pytest.raises(StorageError, match="is of `groupkeeper observe`: choose another"):
        Directory(Files(), ServeOptions(tmp_path))


# -- new, without format ---------------------------------------------------------------------------


def test_a_new_directory_is_told_in_one_line_and_once(serve: Serve, lines: Any) -> None:
    served = serve(start=False)
    served.start()
    served.run(served.server.log_findings())
    [line] = lines()
    assert line["event"] == "new data directory"
    assert line["cluster"] == served.server.topics.cluster_id
    assert (line["data_dir"], len(line["directory"])) == ("data", 32)
    served.stop()
    served.start()
    served.run(served.server.log_findings())
    assert len(lines()) == 1


def test_a_directory_without_its_format_file_is_adopted_in_one_line(
    serve: Serve, lines: Any
) -> None:
    served = serve("offsets.topic.num.partitions=6", start=False)
    restore(FIXTURES / "data-directory-2" / "stopped", served.disk)
    served.disk.remove("data/format")
    for _ in range(2):
        served.start()
        served.run(served.server.log_findings())
        served.stop()
    [line] = [line for line in lines() if line["logger"] == "data"]
    assert line["event"] == "data directory adopted"
    assert served.disk.has("data/format")


def test_a_setting_refuses_a_directory_without_data(serve: Serve) -> None:
    served = serve("data.dir.must.exist=true", start=False)
    with pytest.raises(StorageError) as refused:
        served.start()
    assert str(refused.value) == (
        "data has no data, and data.dir.must.exist is set: is its volume mounted? "
        "For a first start, set it to false"
    )
    assert not served.disk.has("data"), "the next start would take it for one with data"
    served.machine.settings = load()[0]
    served.start()
    served.stop()
    served.machine.settings = load(assignments=["data.dir.must.exist=true"])[0]
    served.start()


def test_a_directory_from_elsewhere_counts_as_data(serve: Serve) -> None:
    served = serve("data.dir.must.exist=true", start=False)
    restore(FROM_KAFKA, served.disk)
    served.start()


def test_folders_of_no_topic_are_named_in_one_line(serve: Serve, lines: Any) -> None:
    served = serve()
    served.stop()
    files = FakeFiles(served.disk)
    for name in ("orders-5", "orders-6", "lost-0", "lost-1", "lost-10", "not one", "x-1", "y-1"):
        files.make_folder(f"data/{name}")
    served.start()
    served.run(served.server.log_findings())
    [line] = [each for each in lines() if each["logger"] != "access"]
    assert (line["event"], line["level"], line["count"]) == (
        "folders without a topic",
        "warning",
        6,
    )
    assert line["folders"] == "lost-0, lost-1, lost-10, orders-6, x-1, ..."


def test_a_damaged_catalog_is_put_right_and_told(serve: Serve) -> None:
    served = serve()
    told: list[str] = []
    served.machine.topics_told = told.append
    served.stop()
    served.disk.remove("data/catalog")
    served.start()
    assert told[0].startswith("data/catalog is restored from data/catalog-copy")
    assert served.server.topics.partition_count("orders") == 6


@pytest.mark.parametrize("with_format", [False, True])
def test_a_lost_catalog_is_refused_where_a_server_has_run(serve: Serve, with_format: bool) -> None:
    served = serve()
    served.stop()
    for name in ("catalog", "catalog-copy", *(() if with_format else ("format",))):
        served.disk.remove(f"data/{name}")
    with pytest.raises(Corrupt, match="data/catalog and data/catalog-copy are missing or empty"):
        served.start()


# -- copied ----------------------------------------------------------------------------------------


def test_the_number_of_partitions_of_a_brokers_folders_is_adopted(serve: Serve, lines: Any) -> None:
    served = serve(start=False)
    restore(FROM_KAFKA, served.disk)
    served.start()
    served.settled()
    assert len(served.server.group_partitions) == 3
    assert len(served.client().fetched("billing")) == 8
    [line] = [line for line in lines() if "taken from the data" in line["event"]]
    assert {"asked": 50, "used": 3}.items() <= line.items()
    served.restart()
    assert len(served.server.group_partitions) == 3


def test_another_number_that_was_set_is_refused_in_one_line(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=50", start=False)
    restore(FROM_KAFKA, served.disk)
    with pytest.raises(StorageError) as refused:
        served.start()
    assert str(refused.value) == (
        "data has folders of __consumer_offsets that were not made with "
        "offsets.topic.num.partitions = 50: set it to 3, or leave it out"
    )
    served.machine.settings = load(assignments=["offsets.topic.num.partitions=3"])[0]
    served.start()
    served.settled()
    assert len(served.client().fetched("billing")) == 8


@pytest.mark.parametrize("lost", [("journals",), ("journals", "format"), ("journals", "leases")])
@pytest.mark.parametrize("made_with", [7, 50])
def test_a_directory_that_lost_its_journals_keeps_its_number(
    serve: Serve, lost: tuple[str, ...], made_with: int
) -> None:
    served = serve(f"offsets.topic.num.partitions={made_with}")
    groups = groups_apart(made_with, 3)
    assert [served.client().commit(5, group) for group in groups] == [0, 0, 0]
    served.stop()
    for name in lost:
        served.disk.remove(f"data/{name}")
    served.machine.settings = load()[0]
    served.start()
    served.settled()
    assert [served.client().fetched(group) for group in groups] == [{("orders", 0): 5}] * 3
    assert len(served.server.group_partitions) == made_with


def test_folders_that_the_default_does_not_fit_and_nothing_tells_of_are_refused(
    serve: Serve,
) -> None:
    served = serve("offsets.topic.num.partitions=7")
    groups = groups_apart(7, 3)[1:]
    assert [served.client().commit(5, group) for group in groups] == [0, 0]
    served.stop()
    for name in ("journals", "format", "leases", "__consumer_offsets-0"):
        served.disk.remove(f"data/{name}")
    served.machine.settings = load()[0]
    with pytest.raises(StorageError, match="unknown number of partitions"):
        served.start()
    served.machine.settings = load(assignments=["offsets.topic.num.partitions=7"])[0]
    served.start()
    served.settled()
    assert served.client().fetched(groups[0]) == {("orders", 0): 5}


def test_a_log_in_a_newer_epoch_than_anybody_knows_is_served(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1", start=False)
    files = FakeFiles(served.disk)
    log = open_log(files, "data/__consumer_offsets-0", Limits())
    log.append(encode_batch(0, 9, 1, [(b"\0\x09", b"of a type that nobody knows")]))
    log.sync()
    log.close()
    served.start()
    served._make_topics()
    served.settled()
    assert [served.client().commit(number) for number in range(10)] == [0] * 10
    served.recover()
    assert served.client().fetched() == {("orders", 0): 9}


# -- in memory -------------------------------------------------------------------------------------


def test_journals_in_memory_stay_small() -> None:
    files = MemoryFiles()
    store = Directory(files, ServeOptions(Path("memory"), memory=True)).store
    epoch, log = store.claim(0), store.open_log("__consumer_offsets-0")
    for _ in range(40):
        records = [(b"key", bytes(512 * 1024))]
        assert store.commit([Append(log, epoch, 0, records)]) == [None]
        names = files.list_folder("memory/journals")
        sizes = [len(read_whole(files, f"memory/journals/{name}")) for name in names]
        assert sum(sizes) < 3 * MEMORY_JOURNAL_BYTES


# -- gone while the server runs --------------------------------------------------------------------


def test_a_directory_that_is_removed_ends_acknowledgements_at_once(served: Served) -> None:
    client = served.client()
    assert client.commit(1) == 0
    served.advance(0.1)
    served.disk.remove("data")
    assert client.commit(2) != 0
    assert isinstance(served.server.failed.result(), DirectoryLost)


@pytest.mark.parametrize("gone", ["data", "data/nodes/0", "data/journals"])
def test_an_idle_server_notices_within_a_second(served: Served, gone: str) -> None:
    assert served.client().commit(1) == 0
    served.advance(1)
    served.disk.remove(gone)
    served.advance(1)
    assert isinstance(served.server.failed.result(), DirectoryLost)


def test_a_lock_that_is_removed_costs_a_reload_of_its_partition_only(served: Served) -> None:
    first, second = groups_apart(4)
    client = served.client()
    member_id, generation = settle(client, second)
    assert [client.commit(1, first), client.commit(1)] == [0, 0]
    served.disk.remove(f"data/leases/{served.driver(first).index}")
    served.advance(1)
    served.settled()
    assert client.commit(2, first) == 0
    assert client.beat(member_id, generation, second) == 0
    assert served.server.metrics.counts["partitions_closed", "LockLost"] == 1
    served.recover()
    assert served.client().fetched(first) == {("orders", 0): 2}


def locked_by_another(served: Served) -> FakeFiles:
    """The lock of group g's partition was removed, and another process has it now."""
    path = f"data/leases/{served.driver('g').index}"
    served.disk.remove(path)
    other = FakeFiles(served.disk)
    handle = other.open(path, create=True)
    other.write(handle, b"9 4", 0)
    assert other.lock(handle)
    return other


def test_a_partition_locked_by_another_process_is_given_up(served: Served, lines: Lines) -> None:
    client = served.client()
    assert client.commit(1) == 0
    index = served.driver("g").index
    other = locked_by_another(served)
    assert client.commit(2) == ErrorCode.NOT_COORDINATOR
    served.advance(5)
    assert served.states()[index] == "absent"
    assert client.commit(2) == ErrorCode.NOT_COORDINATOR
    [line] = [line for line in lines() if line["event"] == "another process owns the partition"]
    assert (line["partition"], line["error"]) == (index, f"shard {index} is held by node 4")
    assert "restart this one" in line["remedy"]
    other.kill()
    served.advance(31)
    assert served.states()[index] == "absent"
    served.recover()
    assert served.client().commit(3) == 0
