"""Lag of commits: what the topics' logs beside the analysed log say, exactly."""

import os
import struct
import tracemalloc
from collections import Counter
from csv import DictReader
from pathlib import Path

import pytest
from pyarrow import parquet

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.pipeline.lag import sample
from groupkeeper.analytics.reading import topic_log
from groupkeeper.analytics.reading.topic_log import TopicLog, TopicLogs
from groupkeeper.testing import Broker
from tests.analytics.logs import (
    APPEND_TIME,
    HORIZON,
    NOW,
    analysis,
    batch,
    commit,
    group,
    index_of,
    record,
    write_segment,
)
from tests.analytics.logs import log as log_of
from tests.analytics.stored import analyzed, read_tables, rows, same

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def said(table):
    """(group, topic partition, minute) -> the rest of its row; minutes and times since NOW."""
    found = {}
    for row in table.to_pylist():
        time = round(row["time"].timestamp() * 1000) - NOW
        key = row["group"], row["topic_partition"], (time + NOW) // MINUTE - NOW // MINUTE
        assert key not in found
        found[key] = (
            time,
            *(row[name] for name in ("committed_offset", "end_offset", "lag", "lag_ms", "note")),
        )
    return found


def lag_of(folder, tmp_path, **how):
    out = tmp_path / "out"
    analysis(folder, out=out, **how)
    return said(read_tables(out, names=["lag"])["lag"])


# -- the production server ---------------------------------------------------------------------


def test_of_the_server_with_records_and_commits_at_known_times(tmp_path):
    data = tmp_path / "data"
    with Broker(topics={"orders": 2}, data=data) as broker:
        broker.freeze()
        start = broker.produce("orders", "0", partition=0).timestamp_ms
        for second in range(1, 10):
            broker.advance(1)
            broker.produce("orders", str(second), partition=0)
        broker.commit("billing", {("orders", 0): 4, ("orders", 1): 0})
        broker.advance(60)
        broker.commit("billing", {("orders", 0): 10})
        broker.advance(60)
        broker.produce_many("orders", [*"abcde"], partition=0)
        broker.advance(3)
        broker.commit("billing", {("orders", 0): 10})
    out = tmp_path / "out"
    assert analyzed(data, out) == 0
    found = [
        (round(row["time"].timestamp() * 1000) - start, *[*row.values()][4:])
        for row in read_tables(out, names=["lag"])["lag"].sort_by("time").to_pylist()
        if row["topic_partition"] == 0
    ]
    assert found == [
        (9 * SECOND, 4, 10, 6, 5 * SECOND, None),
        (69 * SECOND, 10, 10, 0, 0, None),
        (132 * SECOND, 10, 15, 5, 3 * SECOND, None),
    ]


def test_indexes_of_the_server_lead_to_its_records(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_log, "BLOCK_BYTES", 8 * 1024)
    settings = {"log.segment.bytes": 128 * 1024}
    with Broker(topics={"orders": 1}, data=tmp_path, settings=settings) as broker:
        for second in range(200):
            at = NOW + second * SECOND
            broker.produce("orders", bytes(1_000), partition=0, timestamp_ms=at)
    indexes = [path.stat().st_size for path in (tmp_path / "orders-0").glob("*.*index")]
    assert len(indexes) == 4
    assert min(indexes) > 0
    log = TopicLogs([str(tmp_path)]).open("orders", 0)
    for end in range(1, 201, 7):
        for offset in range(0, end, 13):
            found = sample(log, NOW + end * SECOND - 1, offset)
            assert found == (end, end - offset, (end - offset) * SECOND - 1, None)
    log.close()


# -- folders of Kafka's format -----------------------------------------------------------------


def timed(time, count=1, length=0, span=0, attributes=0):
    """A batch whose first record has that time after NOW, and its last one `span` later."""
    payload = b"".join(
        record(delta, b"k", bytes(length), time_delta=span if delta == count - 1 else 0)
        for delta in range(count)
    )
    times = {"base_time": NOW + time, "max_time": NOW + time + span}
    return batch([None] * count, 0, attributes, payload=payload, **times)


def based(batches, base):
    """The same batches with rising offsets."""
    made = []
    for data in batches:
        made.append(struct.pack(">q", base) + data[8:])
        base += struct.unpack_from(">i", data, 23)[0] + 1
    return made


def timeindex_of(batches, base=0, every=1, padding=0):
    entries, latest, at = b"", -1, 0
    for number, data in enumerate(batches):
        time = struct.unpack_from(">q", data, 35)[0]
        if time > latest:
            latest = time
            at = struct.unpack_from(">q", data)[0] + struct.unpack_from(">i", data, 23)[0]
        if number and number % every == 0 and entries[-12:-4] != struct.pack(">q", latest):
            entries += struct.pack(">qi", latest, at - base)
    return entries + bytes(padding)


def topic_segment_of(folder, batches, base=0, every=0, padding=0):
    """A segment; with indexes if an entry is `every` so many batches."""
    batches = based(batches, base)
    path = write_segment(folder, base, b"".join(batches))
    if every:
        path.with_suffix(".index").write_bytes(index_of(batches, base, every, padding))
        times = timeindex_of(batches, base, every, padding)
        path.with_suffix(".timeindex").write_bytes(times)
    return path


def commits_of(folder, *commits, partition=3):
    """A log of commits: (group, topic partition, offset, time after NOW)."""
    made = [batch([commit(g, "orders", p, o, time=NOW + at)]) for g, p, o, at in commits]
    write_segment(folder / f"__consumer_offsets-{partition}", 0, log_of(*made))


@pytest.fixture
def broker_folder(tmp_path):
    """What a broker has: two segments of a topic, a compacted one, and one cut by retention."""
    data = tmp_path / "broker"
    # Offsets 0 to 9 in the seconds 0 to 9; 10 to 19 in a batch of the seconds 60 to 62.
    topic_segment_of(data / "orders-0", [timed(each * SECOND) for each in range(10)], every=1)
    later = [timed(60 * SECOND, 10, span=2 * SECOND), timed(300 * SECOND)]
    topic_segment_of(data / "orders-0", later, base=10)
    topic_segment_of(data / "orders-1", [timed(each * MINUTE) for each in range(3)], base=50)
    return data


CASES = {
    "behind, at the first record of a batch": (0, 4, 9_500, (10, 6, 5_500, None)),
    "written in the same millisecond": (0, 4, 5_000, (6, 2, 1_000, None)),
    "caught up": (0, 10, 9_000, (10, 0, 0, None)),
    "caught up before the next batch": (0, 10, 61_999, (10, 0, 0, None)),
    "inside of a batch: to the batch": (0, 13, 70_000, (20, 7, 8_000, None)),
    "in another segment": (0, 9, 70_000, (20, 11, 61_000, None)),
    "ahead of what was written by then": (0, 6, 4_000, (5, 0, 0, "ahead")),
    "ahead of the whole log": (0, 900, 400_000, (21, 0, 0, "ahead")),
    "before the first record": (0, 0, -1, (0, 0, 0, None)),
    "deleted by retention": (1, 49, 130_000, (53, 4, None, "deleted")),
    "the first one that retention left": (1, 50, 130_000, (53, 3, 130_000, None)),
    "a time before the first record that is left": (1, 50, -1, None),
    "no folder": (2, 5, 10_000, None),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case(case, broker_folder, tmp_path):
    partition, offset, at, expected = CASES[case]
    commits_of(broker_folder, ("g", partition, offset, at))
    found = [*lag_of(broker_folder, tmp_path).values()]
    assert found == ([(at, offset, *expected)] if expected else [])


def test_one_row_a_minute_of_its_last_commit(broker_folder, tmp_path):
    commits = [("g", 0, 1, 5_000), ("g", 0, 8, 8_000), ("h", 0, 2, 8_000), ("g", 0, 20, 62_000)]
    commits_of(broker_folder, *commits)
    first, later = 0, (NOW + 62_000) // MINUTE - NOW // MINUTE
    expected = {
        ("g", 0, first): (8_000, 8, 9, 1, 0, None),
        ("h", 0, first): (8_000, 2, 9, 7, 6_000, None),
        ("g", 0, later): (62_000, 20, 20, 0, 0, None),
    }
    assert lag_of(broker_folder, tmp_path) == expected


def test_only_groups_that_are_asked_for(broker_folder, tmp_path):
    commits_of(broker_folder, ("g", 0, 1, 5_000), ("h", 0, 2, 8_000))
    found = lag_of(broker_folder, tmp_path, groups=frozenset({"h"}))
    assert [group for group, _, _ in found] == ["h"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_makes_the_same(spark, broker_folder, tmp_path):
    from groupkeeper.analytics.spark import Logs, tables_of

    commits_of(broker_folder, ("g", 0, 4, 9_500), ("g", 0, 9, 70_000))
    found = tables_of(Logs.read(spark, str(broker_folder)))["lag"].toArrow()
    assert said(found) == lag_of(broker_folder, tmp_path)


def test_the_longest_of_several_copies_counts(broker_folder, tmp_path):
    follower = broker_folder.parent / "follower"
    topic_segment_of(follower / "orders-0", [timed(0)])
    commits_of(follower, ("h", 0, 4, 9_500), partition=4)
    commits_of(broker_folder, ("g", 0, 4, 9_500))
    out = tmp_path / "out"
    analysis(broker_folder, follower, out=out)
    found = said(read_tables(out, names=["lag"])["lag"])
    assert {end for _, _, end, *_ in found.values()} == {10}


def test_a_topic_cannot_lead_out_of_the_folder(broker_folder):
    inside = broker_folder / "inside"
    inside.mkdir()
    assert TopicLogs([str(broker_folder)]).open("orders", 0)
    assert TopicLogs([str(inside)]).open("../orders", 0) is None


# -- logs that are not plain -------------------------------------------------------------------


def asked(tmp_path, time, committed):
    log = TopicLog(tmp_path / "t-0")
    try:
        return sample(log, NOW + time, committed)
    finally:
        log.close()


def test_append_time_is_that_of_every_record(tmp_path):
    made = [timed(0, 5, span=40, attributes=APPEND_TIME), timed(SECOND, attributes=APPEND_TIME)]
    topic_segment_of(tmp_path / "t-0", made)
    assert asked(tmp_path, 2 * SECOND, 0) == (6, 6, 2 * SECOND - 40, None)
    assert asked(tmp_path, 2 * SECOND, 3) == (6, 3, 2 * SECOND - 40, None)


def test_a_batch_is_written_when_the_largest_time_up_to_it_says(tmp_path):
    """Late data does not move the end back, and has its own age."""
    topic_segment_of(tmp_path / "t-0", [timed(each) for each in (0, 500, 20, 1_000, 900)])
    assert asked(tmp_path, 499, 0) == (1, 1, 499, None)
    assert asked(tmp_path, 500, 2) == (3, 1, 480, None)
    assert asked(tmp_path, 999, 3) == (3, 0, 0, None)
    assert asked(tmp_path, 1_000, 4) == (5, 1, 100, None)


def test_a_segment_that_begins_in_the_future_does_not_hide_those_behind_it(tmp_path):
    for base, at in ((0, 0), (1, 9_999 * HOUR), (2, 2 * HOUR), (3, 3 * HOUR)):
        topic_segment_of(tmp_path / "t-0", [timed(at)], base=base)
    assert asked(tmp_path, 2 * HOUR, 3) == (3, 0, 0, None)
    assert asked(tmp_path, 4 * HOUR, 3) == (4, 1, HOUR, None)
    assert asked(tmp_path, HOUR, 1) == (1, 0, 0, None)


def test_records_without_a_time(tmp_path):
    topic_segment_of(tmp_path / "t-0", [timed(0), timed(-NOW - 1), timed(SECOND)])
    assert asked(tmp_path, 10, 1) == (2, 1, None, "no_time")
    topic_segment_of(tmp_path / "t-0", [timed(-NOW - 1)])
    assert asked(tmp_path, 10, 0) is None


def test_what_compaction_removed_is_not_known(tmp_path):
    batches = based([timed(each * SECOND) for each in range(6)], 0)
    path = write_segment(tmp_path / "t-0", 0, b"".join([*batches[:2], *batches[4:]]))
    assert asked(tmp_path, 10 * SECOND, 3) == (6, 3, None, "compacted")
    assert asked(tmp_path, 10 * SECOND, 4) == (6, 2, 6 * SECOND, None)
    # The end was somewhere between 2 and 4.
    assert asked(tmp_path, 3 * SECOND, 2) is None
    cleaned = timed(0, 2, attributes=HORIZON)
    path.write_bytes(cleaned + batches[2])
    assert asked(tmp_path, 10 * SECOND, 1) == (3, 2, None, "compacted")


def test_a_torn_end_does_not_count(tmp_path):
    path = topic_segment_of(tmp_path / "t-0", [timed(0), timed(SECOND)])
    sound = path.read_bytes()
    path.write_bytes(sound + timed(2 * SECOND)[:-1])
    assert asked(tmp_path, 5 * SECOND, 0) == (2, 2, 5 * SECOND, None)
    path.write_bytes(sound + bytes(500))
    assert asked(tmp_path, 5 * SECOND, 2) == (2, 0, 0, None)


def test_a_hole_between_segments_is_an_end_that_is_not_known(tmp_path):
    topic_segment_of(tmp_path / "t-0", [timed(0), timed(SECOND)])
    topic_segment_of(tmp_path / "t-0", [timed(MINUTE)], base=9)
    assert asked(tmp_path, SECOND - 1, 0) == (1, 1, SECOND - 1, None)
    assert asked(tmp_path, SECOND, 0) is None
    assert asked(tmp_path, 2 * MINUTE, 5) == (10, 5, None, "compacted")


def test_any_number_of_segments_is_asked_with_few_open(tmp_path):
    for base in range(10):
        topic_segment_of(tmp_path / "t-0", [timed(base * SECOND)], base=base)
    log = TopicLog(tmp_path / "t-0")
    opened = {*os.listdir("/proc/self/fd")}
    for base in [*range(10), *range(9, -1, -1)]:
        assert sample(log, NOW + 9 * SECOND, base) == (10, 10 - base, (9 - base) * SECOND, None)
        assert len({*os.listdir("/proc/self/fd")} - opened) <= 4
    log.close()
    assert {*os.listdir("/proc/self/fd")} <= opened


def test_a_segment_that_went_away_says_nothing(tmp_path):
    topic_segment_of(tmp_path / "t-0", [timed(0)])
    topic_segment_of(tmp_path / "t-0", [timed(MINUTE)], base=1)
    log = TopicLog(tmp_path / "t-0")
    assert sample(log, NOW + MINUTE, 1) == (2, 1, 0, None)
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    assert sample(log, NOW + MINUTE, 0) == (2, 2, None, "unreadable")
    assert sample(log, NOW, 0) is None
    log.close()


def test_an_empty_last_segment_ends_the_log(tmp_path):
    topic_segment_of(tmp_path / "t-0", [timed(0), timed(SECOND)])
    write_segment(tmp_path / "t-0", 2, b"")
    assert asked(tmp_path, 5 * SECOND, 1) == (2, 1, 4 * SECOND, None)


def test_a_damaged_segment_says_nothing(tmp_path):
    path = topic_segment_of(tmp_path / "t-0", [timed(0), timed(SECOND)])
    topic_segment_of(tmp_path / "t-0", [timed(MINUTE), timed(2 * MINUTE)], base=2)
    data, magic = path.read_bytes(), len(timed(0)) + 16
    path.write_bytes(data[:magic] + b"\7" + data[magic + 1 :])
    assert asked(tmp_path, 2 * SECOND, 0) is None
    assert asked(tmp_path, 2 * MINUTE, 0) == (4, 4, None, "unreadable")
    assert asked(tmp_path, 2 * MINUTE, 3) == (4, 1, 0, None)


# -- indexes -----------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(topic_log, "BLOCK_BYTES", 300)
    monkeypatch.setattr(topic_log, "_BLOCKS", 3)


TIMES = (0, 1, 1, 5, 3, 9, 9, 2, 12, 20, 11, 30, 31, 25, 40, 41, 60, 59, 58, 70)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("is_backward", [False, True])
def test_indexes_change_no_answer(every, is_backward, tmp_path):
    batches = [timed(at, 2, length=20) for at in TIMES]
    topic_segment_of(tmp_path / "t-0", batches[:12], every=every)
    topic_segment_of(tmp_path / "t-0", batches[12:], base=24, every=every, padding=2400)
    log = TopicLog(tmp_path / "t-0")
    latest = [max(TIMES[: number + 1]) for number in range(len(TIMES))]
    moments = sorted(range(-1, 80), reverse=is_backward)
    for at in moments:
        end = 2 * sum(each <= at for each in latest)
        for offset in range(0, 41, 3):
            found = sample(log, NOW + at, offset)
            if offset < end:
                expected = end, end - offset, max(0, at - TIMES[offset // 2]), None
            else:
                expected = end, 0, 0, "ahead" if offset > end else None
            assert found == expected, (at, offset)
    log.close()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", [".index", ".timeindex"])
def test_a_wrong_index_never_makes_a_wrong_answer(name, tmp_path):
    batches = [timed(each * SECOND, length=20) for each in range(40)]
    path = topic_segment_of(tmp_path / "t-0", batches, every=2)
    index = path.with_suffix(name)
    right = index.read_bytes()
    answers = Counter()
    for at in range(len(right)):
        index.write_bytes(right[:at] + bytes([right[at] ^ 5]) + right[at + 1 :])
        found = asked(tmp_path, 30 * SECOND, 20)
        assert found in (None, (31, 11, 10 * SECOND, None), (31, 11, None, "unreadable"))
        answers[found] += 1
    assert answers[31, 11, 10 * SECOND, None] > len(right) // 4


def test_too_much_without_an_index_is_not_walked(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_log, "UNINDEXED_MOST", 300)
    topic_segment_of(tmp_path / "t-0", [timed(each) for each in range(10)])
    assert asked(tmp_path, 20, 0) is None


# -- size --------------------------------------------------------------------------------------

BATCH, BATCHES = 16 * 1024, 12_800
"""A log of 200 MiB, of which the file system stores the headers only."""


def large_log(folder):
    """A batch of ten records each second."""
    folder.mkdir()
    path = folder / f"{0:020d}.log"
    index, times = [], []
    with path.open("wb") as file:
        for number in range(BATCHES):
            time, position = NOW + number * SECOND, number * BATCH
            about = BATCH - 12, 5, 2, 0, 0, 9, time, time, -1, -1, -1, 10
            file.seek(position)
            file.write(struct.pack(">qiibIhiqqqhii", number * 10, *about))
            index.append(struct.pack(">ii", number * 10 + 9, position))
            times.append(struct.pack(">qi", time, number * 10 + 9))
        file.truncate(BATCHES * BATCH)
    path.with_suffix(".index").write_bytes(b"".join(index[1:]))
    path.with_suffix(".timeindex").write_bytes(b"".join(times[1:]))
    return path


def bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_large_log_is_not_read_for_a_few_lookups(tmp_path):
    large_log(tmp_path / "t-0")
    before = bytes_read()
    for at in (100, 5_000, 12_000):
        assert asked(tmp_path, at * SECOND, at * 10 - 500) == (at * 10 + 10, 510, 50 * SECOND, None)
    assert bytes_read() - before < 4 * 1024 * 1024


def test_many_lookups_read_a_large_log_once_and_keep_little_of_it(tmp_path):
    large_log(tmp_path / "t-0")
    log = TopicLog(tmp_path / "t-0")
    before = bytes_read()
    tracemalloc.start()
    for at in range(60, BATCHES, 5):
        found = sample(log, NOW + at * SECOND, at * 10 - 500)
        assert found == (at * 10 + 10, 510, 50 * SECOND, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    log.close()
    assert bytes_read() - before < 1.5 * BATCH * BATCHES
    assert peak < 8 * 1024 * 1024


# -- runs on a folder that goes on -------------------------------------------------------------


def test_runs_on_a_growing_folder_give_what_one_run_gives(tmp_path):
    """Rows of minutes that are over stay, though retention has taken their records since."""
    data, topic, commits = tmp_path / "data", [], []
    for hour in range(5):
        topic += [timed(hour * HOUR + each * MINUTE) for each in range(60)]
        commits += [("g", 0, 60 * hour + each - 3, hour * HOUR + each * MINUTE) for each in (5, 58)]
        topic_segment_of(data / "orders-0", topic)
        commits_of(data, *commits)
        assert analyzed(data, tmp_path / "out") == 0
    assert analyzed(data, tmp_path / "once") == 0
    once = rows(tmp_path / "once")
    assert once["lag"].total() == 10
    same(rows(tmp_path / "out"), once)
    (data / "orders-0" / f"{0:020d}.log").unlink()
    topic_segment_of(data / "orders-0", topic[180:], base=180)
    commits_of(data, *commits, ("g", 0, 300, 5 * HOUR))
    assert analyzed(data, tmp_path / "out") == 0
    assert rows(tmp_path / "out")["lag"].total() == 11
    assert analyzed(data, tmp_path / "later") == 0
    assert rows(tmp_path / "later")["lag"].total() == 5


# -- what is told of it ------------------------------------------------------------------------


def test_without_topics_it_is_said_why_lag_is_not_known(tmp_path, capsys):
    commits_of(tmp_path / "data", ("g", 0, 4, 9_500))
    page = tmp_path / "page.html"
    assert report.analyze([tmp_path / "data"], Request(tmp_path / "out", report=page)) == 0
    line = "Lag is unknown: the folders of the topics' partitions, such as orders-0, are not "
    told = [each for each in capsys.readouterr().out.splitlines() if each.startswith(line)]
    assert len(told) == 1
    assert told[0].replace("'", "&#x27;") in page.read_text().replace("&#39;", "&#x27;")
    assert not read_tables(tmp_path / "out", names=["lag"])["lag"].num_rows


def test_a_group_that_falls_behind_is_a_finding_and_a_curve(tmp_path, capsys):
    data, page = tmp_path / "data", tmp_path / "page.html"
    topic_segment_of(data / "orders-0", [timed(each * MINUTE) for each in range(120)])
    made = [batch([group("billing", 1, "a")])]
    made += [
        batch([commit("billing", "orders", 0, at // 2, time=NOW + at * MINUTE)])
        for at in range(120)
    ]
    write_segment(data / "__consumer_offsets-3", 0, log_of(*made))
    assert report.analyze([data], Request(tmp_path / "out", report=page)) == 0
    assert "Lag is unknown" not in capsys.readouterr().out
    answers = tmp_path / "out" / "answers"
    [lag] = parquet.read_table(answers / "lag_seconds.parquet").to_pylist()
    assert (lag["samples"], lag["now_ms"], lag["now"]) == (120, 60 * MINUTE, 61)
    findings = parquet.read_table(answers / "findings.parquet")
    [found] = [each for each in findings["sentence"].to_pylist() if " behind in " in each]
    assert found.startswith("Group 'billing' is 60 min behind in partition 0 of orders, 30 min")
    assert "lag of the worst partition, time" in page.read_text()


def test_a_group_that_is_down_is_behind_by_what_was_written_since(tmp_path):
    """Its last commit had no lag."""
    data, csv = tmp_path / "data", tmp_path / "csv"
    with Broker(topics={"orders": 2}, data=data) as broker:
        broker.freeze()
        broker.produce_many("orders", [*"abcde"], partition=0)
        broker.commit("billing", {("orders", 0): 5, ("orders", 1): 0})
        broker.advance(600)
        broker.produce_many("orders", [*"fgh"], partition=0)
        broker.advance(3600)
        broker.produce("orders", "i", partition=0)
    assert report.analyze([data], Request(csv=csv, report=tmp_path / "report.html")) == 0
    with (csv / "lag_seconds.csv").open(encoding="utf-8") as file:
        (row,) = (row for row in DictReader(file) if row["topic_partition"] == "0")
    assert (row["now"], row["now_ms"], row["longest_ms"]) == ("4", "3600000", "0")
