from pathlib import Path

import pytest

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.plan import Split, cut, pack, plan
from groupkeeper.analytics.reading.segments import SegmentFile, cover, expand, find_segments
from groupkeeper.analytics.reading.walk import read_index
from tests.analytics.logs import batch, commit, index_of, write_segment

BATCHES = [batch([commit("g", "t", 0, n)], base=n) for n in range(12)]
SIZE = len(BATCHES[0])
BOUNDARIES = set(range(0, SIZE * 13, SIZE))


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data" / "__consumer_offsets-3"
    write_segment(made, 0, b"".join(BATCHES))
    return made


def segment(folder):
    return find_segments([folder])[0]


def splits(folder, limit):
    return list(cut(next(cover([segment(folder)])), limit, last=True))


@pytest.mark.parametrize("where", ["", "data", "data/__consumer_offsets-3"])
def test_folders_are_found_at_and_below_the_path(folder, tmp_path, where):
    assert segment(tmp_path / where) == SegmentFile(
        folder / f"{0:020d}.log", partition=3, base=0, size=12 * SIZE
    )


def test_a_segment_may_be_named_itself(folder):
    assert segment(folder / f"{0:020d}.log").partition == 3


def test_a_segment_outside_of_a_partition_folder_has_no_partition(tmp_path):
    assert segment(write_segment(tmp_path, 0, BATCHES[0])).partition == -1


def test_segments_come_in_the_order_of_the_log(folder):
    for base in (100, 20):
        write_segment(folder, base, BATCHES[0])
    write_segment(folder.parent / "__consumer_offsets-0", 7, BATCHES[0])
    found = [(each.partition, each.base) for each in find_segments([folder.parent])]
    assert found == [(0, 7), (3, 0), (3, 20), (3, 100)]


@pytest.mark.parametrize("name", ["x.log.deleted", "x.log.swap", "x.log.cleaned", "x.snapshot"])
def test_only_finished_log_files_are_read(folder, name):
    (folder / name.replace("x", f"{9:020d}")).write_bytes(BATCHES[0])
    assert len(find_segments([folder])) == 1


def test_other_topics_are_passed_over(folder):
    write_segment(folder.parent / "orders-3", 0, BATCHES[0])
    write_segment(folder.parent / "orders-3" / "__consumer_offsets-9", 0, BATCHES[0])
    assert {each.partition for each in find_segments([folder.parent])} == {3}


def test_empty_segments_are_skipped(folder):
    write_segment(folder, 12, b"")
    assert plan([folder]).segments == 1


def test_folders_without_bytes_make_an_empty_plan(tmp_path):
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"")
    assert plan([tmp_path]).chunks == ()


def test_a_path_without_a_log_is_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (index := folder / f"{0:020d}.index").write_bytes(b"")
    for path in (tmp_path / "empty", index):
        with pytest.raises(AnalyticsError, match=f"nothing to read in {path}"):
            plan([path])
    with pytest.raises(AnalyticsError, match=r"no such file or folder: .*nowhere"):
        plan([tmp_path / "nowhere"])


def test_two_copies_of_one_partition_are_refused(folder, tmp_path):
    write_segment(tmp_path / "copy" / "__consumer_offsets-3", 0, BATCHES[0])
    with pytest.raises(AnalyticsError, match="partition 3 is in both"):
        plan([tmp_path])


@pytest.fixture
def archived(tmp_path):
    """Offsets 0 to 11: 4 to 8 are archived, and only 1, 3, 7 and what follows are not removed."""
    log, archive = (tmp_path / name / "__consumer_offsets-3" for name in ("data", "data/archive"))
    for base, last in ((4, 6), (6, 9)):
        write_segment(archive, base, b"".join(BATCHES[base:last]))
    write_segment(log, 0, b"".join(BATCHES[n] for n in (1, 3, 7)))
    write_segment(log, 9, b"".join(BATCHES[9:]))
    return log


def places(segments):
    return [(each.path.parent.parent.name, each.base, each.size) for each in segments]


def test_an_archive_has_precedence_over_what_was_made_of_it(archived):
    assert places(find_segments([archived.parent])) == [
        ("data", 0, 2 * SIZE),
        ("archive", 4, 2 * SIZE),
        ("archive", 6, 3 * SIZE),
        ("data", 9, 3 * SIZE),
    ]


def test_segments_that_are_archived_and_not_compacted_yet_are_read_once(archived):
    write_segment(archived, 0, b"".join(BATCHES[:4]))
    write_segment(archived, 4, b"".join(BATCHES[4:6]))
    write_segment(archived, 6, b"".join(BATCHES[6:9]))
    assert sum(each.size for each in find_segments([archived.parent])) == len(BATCHES) * SIZE


@pytest.mark.parametrize(("name", "size"), [("archive", 5), ("__consumer_offsets-3", 6)])
def test_an_archive_or_a_log_is_read_alone_if_it_is_named(archived, name, size):
    assert plan([archived.parent / name]).size == size * SIZE


def test_an_archive_of_another_log_is_refused(archived, tmp_path):
    archived.rename(tmp_path / "__consumer_offsets-3")
    with pytest.raises(AnalyticsError, match="partition 3 is in both"):
        plan([tmp_path])


def test_a_path_named_twice_is_read_once(folder):
    assert plan([folder, folder.parent]).size == 12 * SIZE


@pytest.mark.parametrize("every", [0, 1, 2, 5])
@pytest.mark.parametrize("limit", [1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 100 * SIZE])
def test_splits_cover_the_segment_and_start_at_batches(folder, every, limit):
    if every:
        index = index_of(BATCHES, every=every, padding=800)
        (folder / f"{0:020d}.index").write_bytes(index)
    cuts = splits(folder, limit)
    assert [0, *(each.end for each in cuts)] == [*(each.start for each in cuts), 12 * SIZE]
    assert {each.start for each in cuts} <= BOUNDARIES
    assert all(each.size >= limit for each in cuts[:-1])


def test_the_index_says_where_the_walk_begins(folder, monkeypatch):
    (folder / f"{0:020d}.index").write_bytes(index_of(BATCHES, every=5, padding=80))
    begun = []
    headers = walk.headers
    monkeypatch.setattr(
        walk, "headers", lambda file, at, *rest: begun.append(at) or headers(file, at, *rest)
    )
    assert [each.start for each in splits(folder, 6 * SIZE)] == [0, 6 * SIZE]
    assert begun == [5 * SIZE]


def test_without_an_index_the_headers_say_it(folder):
    assert [each.start for each in splits(folder, 4 * SIZE)] == [0, 4 * SIZE, 8 * SIZE]


def test_zero_padding_and_what_follows_is_no_index(folder):
    entries = index_of(BATCHES, every=4)
    (folder / f"{0:020d}.index").write_bytes(entries + bytes(64) + entries + b"odd")
    assert read_index(folder / f"{0:020d}.log", 12 * SIZE) == [4 * SIZE, 8 * SIZE]


def test_an_index_that_points_between_batches_is_not_believed(folder):
    (folder / f"{0:020d}.index").write_bytes(index_of([b"x" * 27, *BATCHES], base=-1000))
    assert {each.start for each in splits(folder, 2 * SIZE)} <= BOUNDARIES


def test_a_segment_of_rubbish_is_one_split(tmp_path):
    path = write_segment(tmp_path / "__consumer_offsets-0", 0, b"\xff" * 1000)
    assert [(each.start, each.end) for each in splits(path, 10)] == [(0, 1000)]


def test_a_torn_batch_belongs_to_the_split_before_it(tmp_path):
    path = write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(BATCHES)[:-9])
    assert splits(path, 4 * SIZE)[-1].end == 12 * SIZE - 9


def test_only_the_end_of_the_log_may_be_torn(folder):
    write_segment(folder, 12, b"".join(BATCHES))
    chunks = plan([folder], chunk_bytes=5 * SIZE).chunks
    assert [each.last for chunk in chunks for each in chunk] == [False, False, False, True]


def test_small_splits_are_packed_in_order():
    small = [Split("a", 0, 0, size, last=False) for size in (4, 4, 4, 20, 1)]
    assert [[each.size for each in chunk] for chunk in pack(small, 9)] == [[4, 4], [4], [20], [1]]


# ---------------------------------------------------------------- names and links


def test_a_partition_folder_may_be_a_link(folder, tmp_path):
    (tmp_path / "disk").mkdir()
    moved = folder.rename(tmp_path / "disk" / "p3")
    folder.symlink_to(moved)
    write_segment(tmp_path / "disk" / "p4", 0, BATCHES[0])
    (folder.parent / "__consumer_offsets-4").symlink_to(tmp_path / "disk" / "p4")
    assert [each.partition for each in find_segments([folder.parent])] == [3, 4]
    assert find_segments([folder])[0].partition == 3


def test_a_segment_may_be_a_link(folder, tmp_path):
    path = folder / f"{0:020d}.log"
    stored = path.rename(tmp_path / "MD5-abc")
    path.symlink_to(stored)
    assert (segment(folder).base, segment(folder).size) == (0, 12 * SIZE)


def test_a_folder_is_found_under_both_of_its_names_once(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder.parent)
    assert plan([folder, tmp_path / "link"]).size == 12 * SIZE


def test_the_folder_may_be_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert segment(Path()).partition == 3


def test_lone_segments_need_a_folder(tmp_path):
    lone = [write_segment(tmp_path, base, BATCHES[0]) for base in (0, 7)]
    with pytest.raises(AnalyticsError, match=r"partition of .* is unknown: put .* into a folder"):
        plan(lone)


def test_segments_of_two_unnamed_folders_are_not_mixed(tmp_path):
    lone = [write_segment(tmp_path / name, 0, BATCHES[0]) for name in "ab"]
    with pytest.raises(AnalyticsError, match="names a partition: read them separately"):
        plan(lone)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_paths_may_be_urls_and_patterns(folder, prefix):
    (folder.parent / "with space").mkdir()
    name = "with%20space" if prefix else "with space"
    assert expand([f"{prefix}{folder.parent}/{name}"]) == [folder.parent / "with space"]
    assert expand([f"{prefix}{folder.parent}/__consumer_*-[0-9]"]) == [folder]


def test_patterns_without_a_match_and_other_file_systems_are_refused(tmp_path):
    with pytest.raises(AnalyticsError, match="no file or folder matches"):
        expand([f"{tmp_path}/*.log"])
    with pytest.raises(AnalyticsError, match="no file system for ftp:"):
        expand(["ftp://bucket/x"])
