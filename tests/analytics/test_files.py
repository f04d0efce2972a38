"""Logs on a file system of pyarrow, here its own one in memory: the same rows as from the disk."""

from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import fs

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.pipeline.lag import sample
from groupkeeper.analytics.reading import files, parse_split
from groupkeeper.analytics.reading.files import RemotePath, place
from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import data_folders, plan
from groupkeeper.analytics.reading.segments import expand
from groupkeeper.analytics.reading.topic_log import TopicLogs
from tests.analytics.logs import NOW, index_of, varied
from tests.analytics.test_lag import based, timed, timeindex_of

BATCHES = varied()
LOG = b"".join(BATCHES)
LONG = "00000000000000000000"


@pytest.fixture
def store(monkeypatch):
    """Writes files, and is what mock:// names."""
    monkeypatch.setitem(files.SCHEMES, "mock", "mock")
    files._system.cache_clear()
    system, _ = files._system("mock:///")

    def write(path, data):
        system.create_dir(str(Path(path).parent))
        with system.open_output_stream(path) as file:
            file.write(data)

    yield write
    files._system.cache_clear()


@pytest.fixture
def folder(store):
    store(f"data/__consumer_offsets-3/{LONG}.log", LOG + b"torn")
    store(f"data/__consumer_offsets-3/{LONG}.index", index_of(BATCHES, every=2))
    store(f"data/__consumer_offsets-3/{LONG}.log.deleted", LOG)
    store(f"data/orders-0/{LONG}.log", LOG)
    store("data/orders-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    return "mock:///data"


def rows(work):
    return [
        row
        for chunk in work.chunks
        for split in chunk
        for batch in parse_split(split)
        for row in batch.to_pylist()
    ]


def local(tmp_path):
    path = tmp_path / "__consumer_offsets-3"
    path.mkdir()
    (path / f"{LONG}.log").write_bytes(LOG + b"torn")
    (path / f"{LONG}.index").write_bytes(index_of(BATCHES, every=2))
    return plan([tmp_path], chunk_bytes=500)


@pytest.mark.parametrize(
    "below", ["", "/", "/__consumer_offsets-3", f"/__consumer_offsets-3/{LONG}.log"]
)
def test_a_url_gives_the_same_rows_in_the_same_splits(folder, tmp_path, below):
    work = plan(expand([folder + below.format("__consumer_offsets", LONG)]), chunk_bytes=500)
    assert len(work.chunks) > 3
    assert rows(work) == rows(local(tmp_path))


def test_a_file_that_is_replaced_is_read_again_by_its_offsets(folder, store):
    work = plan(expand([folder]), chunk_bytes=500)
    before = rows(work)
    store(f"data/__consumer_offsets-3/{LONG}.log", LOG)
    assert [row for row in before if row["offset"] is not None] == rows(work)


def test_a_file_that_is_gone_is_told(folder, store):
    work = plan(expand([folder]))
    files._system("mock:///")[0].delete_file(f"data/__consumer_offsets-3/{LONG}.log")
    assert [row["problem"] for row in rows(work)] == ["segment went away before it was read"]


def test_names_of_topics_are_found_beside_the_log(folder):
    assert topic_names(plan(expand([folder]))) == {bytes(15) + b"\1": "orders"}


def test_logs_of_topics_are_found_beside_the_log(folder, store):
    batches = based([timed(each * 1_000) for each in range(10)], 0)
    store(f"data/paid-0/{LONG}.log", b"".join(batches))
    store(f"data/paid-0/{LONG}.index", index_of(batches))
    store(f"data/paid-0/{LONG}.timeindex", timeindex_of(batches))
    logs = TopicLogs(data_folders(plan(expand([folder]))))
    with closing(logs.open("paid", 0)) as log:
        assert sample(log, NOW + 8_500, 4) == (9, 5, 4_500, None)
    assert logs.open("paid", 1) is None


def test_a_url_with_nothing_behind_it_is_refused(folder):
    with pytest.raises(AnalyticsError, match="no such file or folder: mock:///nowhere"):
        plan(expand(["mock:///nowhere"]))
    with pytest.raises(AnalyticsError, match="nothing to read in mock:///data/orders-0"):
        plan(expand([f"{folder}/orders-0"]))


def test_hadoops_names_of_a_scheme_are_known_and_settings_stay_behind():
    path = place("s3a://bucket/a/b?endpoint_override=localhost:1&scheme=http&region=x")
    assert isinstance(path, RemotePath)
    assert (
        str(path / "c") == "s3a://bucket/a/b/c?endpoint_override=localhost:1&scheme=http&region=x"
    )
    assert str(path.parent) == "s3a://bucket/a?endpoint_override=localhost:1&scheme=http&region=x"
    system, where = path.located()
    assert isinstance(system, fs.S3FileSystem)
    assert where == "bucket/a/b"


def test_a_file_system_that_cannot_be_had_is_one_line():
    with pytest.raises(AnalyticsError, match=r"^cannot reach s3://bucket/\?nonsense=1: .+$"):
        plan(expand(["s3://bucket/x?nonsense=1"]))


def test_only_urls_are_remote():
    assert place("/a/b") == Path("/a/b")
    assert place("a://b") == Path("a://b")
