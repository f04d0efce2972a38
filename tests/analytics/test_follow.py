"""Streams without Spark: what a follower gives of logs that change under it."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import partition_log, walk
from groupkeeper.analytics.reading.follow import EARLIEST, LATEST, Bookmark, Follower
from groupkeeper.analytics.reading.partition_log import find_logs, list_segments
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.stretch import read_stretch
from tests.analytics.growing_log import NAME, GrowingLog
from tests.analytics.logs import write_segment

TOPIC = "__consumer_offsets"
LIMIT = 400
COUNTED = re.compile(r"(\d+)(?: of (\d+))? to (\d+)$")


class Stream:
    """A job: progress, and the rows that it has."""

    def __init__(self, data, *, fail_on_loss=False, starting=EARLIEST):
        self.data = data
        self.fail_on_loss = fail_on_loss
        self.restart()
        self.progress = self.follower.beginning(starting)
        self.offsets = []
        self.problems = []

    def restart(self):
        self.follower = Follower(
            TOPIC, lambda: find_logs([self.data], TOPIC), fail_on_loss=self.fail_on_loss
        )

    def trigger(self, max_bytes=None):
        """Whether the progress is another one."""
        start, self.progress = self.progress, self.follower.next(self.progress, max_bytes)
        rows = self.rows(start, self.progress)
        self.offsets += [row["offset"] for row in rows if row["offset"] is not None]
        assert all(row["offset"] == row["committed_offset"] for row in rows if row["topic"])
        self.problems += [row["problem"] for row in rows if row["problem"]]
        return start != self.progress

    def rows(self, start, end):
        return [
            row
            for stretch in self.follower.stretches(start, end, LIMIT)
            for batch in read_stretch(stretch, fail_on_loss=self.fail_on_loss)
            for row in batch.to_pylist()
        ]

    def drain(self, max_bytes=None):
        for _ in range(1000):
            if not self.trigger(max_bytes):
                return
        raise AssertionError("it never ends")

    @property
    def counted(self):
        """How many offsets were told to have no row."""
        total = 0
        for text in self.problems:
            count, first, last = COUNTED.search(text).groups()
            total += int(count) if first else int(last) - int(count) + 1
        return total


actions = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(1, 4), min_size=1, max_size=9)),
    st.tuples(st.just("tear"), st.integers(1, 90)),
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact"), st.integers(1, 4), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("index_active")),
    st.tuples(st.just("finish_swap")),
    st.tuples(st.just("claim")),
)


def play(log, action):
    name, *values = action
    if name == "append":
        log.append(*values[0])
    elif name == "compact":
        log.compact(values[0], values[1], stop=values[2])
    else:
        getattr(log, name)(*values)


jobs = st.one_of(
    st.tuples(st.just("trigger"), st.none() | st.integers(1, 3000)), st.tuples(st.just("restart"))
)
races = st.lists(actions | st.none(), max_size=6)


class Racing:
    """Lets the log change between a listing of its files and their opening."""

    def __init__(self, log, monkeypatch):
        self.log = log
        self.waiting = []
        monkeypatch.setattr(partition_log, "list_segments", self.list)

    def list(self, log):
        listing = list_segments(log)
        if self.waiting and (action := self.waiting.pop()):
            play(self.log, action)
        return listing


@settings(max_examples=25, deadline=None)
@given(
    archives=st.booleans(),
    is_brokers=st.booleans(),
    steps=st.lists(st.tuples(st.lists(actions, max_size=4), jobs, races), max_size=12),
)
def test_every_offset_is_read_once_or_counted(archives, is_brokers, steps):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        log = GrowingLog(Path(folder), archives=archives, is_brokers=is_brokers)
        racing = Racing(log, patch)
        stream = Stream(Path(folder), fail_on_loss=not is_brokers)
        for before, (job, *values), meanwhile in steps:
            for action in before:
                play(log, action)
            racing.waiting = meanwhile
            getattr(stream, job)(*values)
        racing.waiting = []
        log.restart()
        stream.drain()
        assert len(stream.offsets) == len({*stream.offsets})
        assert stream.offsets == sorted(stream.offsets)
        assert len(stream.offsets) + stream.counted == log.end
        assert {*range(log.end)} - {*stream.offsets} <= log.compacted
        if archives:
            assert stream.offsets == [*range(log.end)]
            assert not stream.problems


@pytest.fixture
def log(tmp_path):
    made = GrowingLog(tmp_path)
    made.append(*[2] * 10)
    return made


def told(stream, problem):
    """What follows the text of a problem, of all rows with a problem."""
    texts = [text.partition(": ") for text in stream.problems]
    assert {text for text, _, _ in texts} == {problem.text}
    return [detail for _, _, detail in texts]


def lost(data, change, problem, detail):
    """A loss stops a stream; one that is to go on tells it once, and returns with the rest."""
    streams = [Stream(data, fail_on_loss=fails) for fails in (True, False)]
    for stream in streams:
        stream.drain(max_bytes=300)
    change()
    with pytest.raises(AnalyticsError, match=f"{problem.text}.*failOnDataLoss to false"):
        streams[0].drain()
    streams[1].drain()
    assert told(streams[1], problem) == [detail]
    return streams[1]


def test_a_deleted_segment_is_told(log, tmp_path):
    def change():
        log.append(3)
        log.roll()
        log.delete_first()
        log.append(1)

    stream = lost(tmp_path, change, Problem.DELETED, "20 to 22")
    assert stream.offsets == [*range(20), 23]


def test_a_log_that_was_cut_is_read_on_where_it_ends(log, tmp_path):
    def change():
        path = log.folder / f"{0:020d}.log"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    stream = lost(tmp_path, change, Problem.CUT, "at 10, and 19 was read")
    assert stream.progress[NAME].offset == 10


def test_a_log_with_another_batch_before_what_is_next_was_rewritten(
    log, tmp_path, tmp_path_factory
):
    def change():
        other = GrowingLog(tmp_path_factory.mktemp("other"))
        other.epoch = 2
        other.append(*[1] * 30)
        (other.folder / f"{0:020d}.log").replace(log.folder / f"{0:020d}.log")

    stream = lost(tmp_path, change, Problem.REWRITTEN, "read up to 19")
    assert stream.offsets == [*range(30)]


def test_a_rewritten_log_is_noticed_by_its_epochs_after_compaction(log, tmp_path, tmp_path_factory):
    def change():
        other = GrowingLog(tmp_path_factory.mktemp("other"))
        other.epoch = 2
        other.append(*[1] * 30)
        other.roll()
        other.compact(7)
        write_segment(log.folder, 0, (other.folder / f"{0:020d}.log").read_bytes())
        write_segment(log.folder, 30, b"")

    stream = Stream(tmp_path, fail_on_loss=True)
    stream.drain()
    change()
    with pytest.raises(AnalyticsError, match="log was rewritten below what was read"):
        stream.drain()


def test_a_log_that_is_gone_may_come_back(log, tmp_path):
    away = tmp_path.parent / f"{tmp_path.name}-away"
    stream = lost(tmp_path, lambda: log.folder.rename(away), Problem.VANISHED, "read up to 19")
    away.rename(log.folder)
    log.append(5)
    stream.drain()
    assert stream.offsets == [*range(25)]


def test_a_log_that_appears_is_read_from_its_beginning(log, tmp_path):
    stream = Stream(tmp_path, starting=LATEST)
    new = tmp_path / "__consumer_offsets-9"
    write_segment(new, 0, (log.folder / f"{0:020d}.log").read_bytes())
    stream.drain()
    assert stream.offsets == [*range(20)]
    assert {*stream.progress} == {NAME, new.name}


def test_what_compaction_took_before_it_was_read_is_counted(log, tmp_path):
    stream = Stream(tmp_path, fail_on_loss=True)
    log.roll()
    log.compact(4)
    stream.drain()
    assert stream.offsets == [0, 4, 8, 12, 16]
    assert told(stream, Problem.COMPACTED_AWAY) == ["15 of 0 to 19"]


@pytest.mark.parametrize(("starting", "first"), [(EARLIEST, 0), (LATEST, 20)])
def test_where_a_stream_starts(log, tmp_path, starting, first):
    stream = Stream(tmp_path, starting=starting)
    log.append(1)
    stream.drain()
    assert stream.offsets == [*range(first, 21)]


def test_a_checkpoint_of_another_topic_is_refused(log, tmp_path):
    stream = Stream(tmp_path)
    with pytest.raises(AnalyticsError, match="another source: it names __group_events-3"):
        stream.follower.next({"__group_events-3": Bookmark(0)})


def test_what_is_read_again_is_the_same(log, tmp_path):
    stream = Stream(tmp_path)
    start = stream.progress
    stream.trigger(max_bytes=500)
    first = stream.rows(start, stream.progress)
    log.append(3, 3)
    log.roll()
    stream.restart()
    again = stream.rows(start, stream.progress)
    assert first == again
    assert first


def test_targets_end_a_stream(log, tmp_path):
    stream = Stream(tmp_path)
    targets = stream.follower.ends()
    log.append(1, 1)
    write_segment(tmp_path / "__consumer_offsets-9", 0, b"")
    end = stream.follower.next(stream.progress, None, targets)
    assert {name: mark.offset for name, mark in end.items()} == {NAME: 20}
    assert stream.follower.next(end, None, targets) == end


def test_a_damaged_offset_does_not_pass_for_the_end(log, tmp_path):
    """No checksum covers it: a huge one would let a stream skip all that follows."""
    stream = Stream(tmp_path, fail_on_loss=True)
    stream.drain()
    path = log.folder / f"{0:020d}.log"
    whole = path.stat().st_size
    log.append(1)
    data = bytearray(path.read_bytes())
    data[whole + 5] ^= 1
    path.write_bytes(data)
    stream.drain()
    assert stream.offsets == [*range(20)]
    log.append(1, 1, 1)
    stream.drain()
    assert stream.offsets == [*range(20), 21, 22, 23]
    assert Problem.BAD_OFFSET.text in stream.problems
    assert f"{Problem.WITHOUT_RECORD.text}: 1 of 20 to 23" in stream.problems


def test_a_damaged_batch_is_a_row_and_counted(log, tmp_path):
    path = log.folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 50] ^= 1
    path.write_bytes(data)
    stream = Stream(tmp_path, fail_on_loss=True)
    stream.drain()
    assert len(stream.offsets) == 18
    assert Problem.BAD_CHECKSUM.text in stream.problems


def test_a_look_costs_what_is_new(log, tmp_path, monkeypatch):
    """Not what the segment has, even while its index has nothing."""
    log.append(*[1] * 1500)
    stream = Stream(tmp_path)
    stream.progress = stream.follower.ends()
    read = []
    walked = walk.headers

    def counting(file, start, size, quiet=0):
        for header in walked(file, start, size, quiet):
            read.append(header.position)
            yield header

    monkeypatch.setattr(walk, "headers", counting)
    log.append(1, 1)
    start = stream.progress
    stream.progress = stream.follower.next(start)
    assert len([*stream.follower.stretches(start, stream.progress, LIMIT)]) == 1
    assert len(read) < 30
