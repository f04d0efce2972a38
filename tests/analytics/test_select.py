"""What is selected: the same rows as of everything, from fewer bytes."""

import struct
from itertools import accumulate, pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.reading import parse_split, topic_log
from groupkeeper.analytics.reading.plan import Selection, plan
from groupkeeper.analytics.reading.topic_log import place_of
from groupkeeper.protocol.placement import partition_of
from tests.analytics.logs import NOW, batch, commit, group, index_of, marker, write_segment

PARTITIONS = 4
GROUPS = [f"group-{number}" for number in range(12)]
BATCHES = 60
DAY = 86_400_000
EVERY = 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Segments of these tests are small."""
    monkeypatch.setattr(topic_log, "BLOCK_BYTES", 128)


def times_of(batches, base, every):
    """A time index with an entry for each `every`-th batch but the first, if times rose."""
    entries, told, latest, place = b"", -1, -1, 0
    for number, data in enumerate(batches):
        if number and number % every == 0 and latest > told:
            entries += struct.pack(">qi", latest, place - base)
            told = latest
        time = struct.unpack_from(">q", data, 35)[0]
        if time > latest:
            latest = time
            place = struct.unpack_from(">q", data)[0] + struct.unpack_from(">i", data, 23)[0]
    return entries


def segment(folder, base, batches, every=EVERY, padding=0):
    path = write_segment(folder, base, b"".join(batches))
    path.with_suffix(".index").write_bytes(index_of(batches, base, every, padding))
    times = times_of(batches, base, every)
    path.with_suffix(".timeindex").write_bytes(times + bytes(padding // 8 * 12))
    return path


def made(partition, base, clock):
    """Batches of the groups that are placed in a partition; `clock` has the times."""
    names = [name for name in GROUPS if partition_of(name, PARTITIONS) == partition] or ["none"]
    found = []
    for number, time in enumerate(clock):
        name = names[number % len(names)]
        records = [commit(name, "t", 0, number), group(name, number, "m")]
        if number % 9 == 8:
            found.append(marker(base, 7, commit=True, base_time=time, max_time=time))
            base += 1
            continue
        found.append(batch(records, base, base_time=time, max_time=time))
        base += 2
    return found, base


def write_log(folder, clocks):
    for partition in range(PARTITIONS):
        base = 0
        for clock in clocks:
            batches, end = made(partition, base, clock)
            segment(folder / f"__consumer_offsets-{partition}", base, batches, padding=64)
            base = end


def rows(work):
    found = [
        row
        for chunk in work.chunks
        for split in chunk
        for each in parse_split(split)
        for row in each.to_pylist()
    ]
    return sorted(found, key=lambda row: (row["partition"], row["offset"] or -1, repr(row)))


RISING = [[NOW + at * DAY + n * DAY // BATCHES for n in range(BATCHES)] for at in range(3)]
WILD = [[NOW + (n * 7919 % 13) * DAY // 6 for n in range(BATCHES)], RISING[1], RISING[0]]


@pytest.fixture(scope="module", params=["rising", "wild"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    write_log(path, RISING if request.param == "rising" else WILD)
    return path


@pytest.fixture(scope="module")
def everything(folder):
    found = rows(plan([folder]))
    assert not any(row["problem"] for row in found)
    return found


TIMES = st.none() | st.integers(NOW - DAY, NOW + 4 * DAY)
SELECTIONS = st.builds(Selection, st.none() | st.sampled_from([*GROUPS, "unknown"]), TIMES, TIMES)


def is_wanted(row, wanted):
    """What docs/analytics.md says of the options."""
    time = row["timestamp_ms"]
    return (
        (wanted.group is None or row["group"] in (None, wanted.group))
        and (wanted.since is None or time >= wanted.since)
        and (wanted.until is None or time < wanted.until)
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SELECTIONS, st.sampled_from([None, 600]))
def test_a_selection_gives_the_rows_that_are_wanted_and_reads_no_more(
    folder, everything, wanted, chunk
):
    work = plan([folder], chunk, selection=wanted)
    assert rows(work) == [row for row in everything if is_wanted(row, wanted)]
    assert work.size <= plan([folder]).size


def test_segments_are_read_from_a_time_on(tmp_path):
    write_log(tmp_path, RISING)
    sizes = [
        plan([tmp_path], selection=Selection(since=NOW + at * DAY // 2)).size for at in range(7)
    ]
    assert all(one >= other for one, other in pairwise(sizes))
    # What is left: of each segment some batches behind its last index entry.
    assert sizes[0] == plan([tmp_path]).size
    assert sizes[6] < sizes[0] / 5


def wrong_indexes(right, entry, batches):
    """Ways in which an index may be damaged."""
    for bit in range(0, 8 * len(right), 3):
        changed = bytearray(right)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)
    entries = [right[at : at + entry] for at in range(0, len(right), entry)]
    yield b"".join(reversed(entries))
    yield from (right[:kept] for kept in range(len(right)))
    if entry == 8:  # positions of later batches
        places = list(accumulate(map(len, batches), initial=0))
        ahead = [places[min(at + 9, len(batches) - 1)] for at in range(len(entries))]
        yield b"".join(
            each[:4] + struct.pack(">i", at) for each, at in zip(entries, ahead, strict=True)
        )


@pytest.mark.parametrize(("suffix", "entry"), [(".index", 8), (".timeindex", 12)])
def test_a_wrong_index_loses_nothing(tmp_path, suffix, entry):
    batches, _ = made(0, 0, RISING[0])
    log = segment(tmp_path, 0, batches, padding=64)
    path, size = log.with_suffix(suffix), log.stat().st_size
    since = NOW + DAY // 2
    first = next(at for at, time in enumerate(RISING[0]) if time >= since)
    latest = sum(map(len, batches[:first]))
    assert 0 < place_of(log, 0, size, since)[0] <= latest
    for wrong in wrong_indexes(path.read_bytes(), entry, batches):
        path.write_bytes(wrong)
        assert place_of(log, 0, size, since)[0] <= latest, wrong


def test_another_batch_of_the_same_time_is_not_taken_for_the_one_that_is_told(tmp_path):
    batches, _ = made(0, 0, [NOW, NOW + 9, NOW, NOW + 9])
    log = write_segment(tmp_path, 0, b"".join(batches))
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", NOW, 1))
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 1, len(batches[0]) + len(batches[1])))
    assert place_of(log, 0, log.stat().st_size, NOW + 5) == (0, 0)


def test_without_a_time_index_the_whole_segment_is_read(tmp_path):
    write_log(tmp_path, RISING[:1])
    wanted, size = Selection(since=NOW + DAY // 2), plan([tmp_path]).size
    for path in tmp_path.glob("*/*.index"):
        path.unlink()
    assert plan([tmp_path], selection=wanted).size < size, "batches are found by a walk"
    for path in tmp_path.glob("*/*.timeindex"):
        path.unlink()
    assert plan([tmp_path], selection=wanted).size == size


def test_an_index_of_another_segment_is_not_believed(tmp_path):
    write_log(tmp_path, RISING[:1])
    folder = tmp_path / "__consumer_offsets-0"
    other, _ = made(1, 0, [time - DAY for time in RISING[0]])
    next(folder.glob("*.timeindex")).write_bytes(times_of(other, 0, EVERY))
    wanted = Selection(since=NOW + DAY // 2)
    assert plan([folder], selection=wanted).size == next(folder.glob("*.log")).stat().st_size


def test_damage_belongs_to_every_selection(tmp_path):
    path = write_segment(tmp_path / "__consumer_offsets-0", 0, b"".join(made(0, 0, RISING[0])[0]))
    path.write_bytes(path.read_bytes() + b"torn")
    wanted = Selection("x", since=NOW + 9 * DAY)
    assert [row["problem"] for row in rows(plan([tmp_path], selection=wanted))] == [
        "unfinished batch at the end of the log"
    ]


def test_rows_without_a_value_are_wanted():
    kinds = {"group": pa.string(), "timestamp_ms": pa.int64()}
    rows = [("a", 5), ("b", 5), (None, 5), ("a", None), ("a", 4), ("a", 9)]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(kinds, row, strict=True)) for row in rows], pa.schema(kinds)
    )
    wanted = Selection("a", since=5, until=9)
    assert wanted.mask(batch).to_pylist() == [True, False, True, True, False, False]
