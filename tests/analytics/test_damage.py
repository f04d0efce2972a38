"""Damage to whole logs: what is not damaged is read, what is damaged is not, and both are said."""

import random
import struct
from itertools import accumulate

import pyarrow as pa
import pytest

from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.plan import Split, plan
from groupkeeper.analytics.reading.problems import Problem, is_damage
from tests.analytics.logs import batch, commit, group, index_of, write_segment
from tests.analytics.reference import parse

ENGINES = ("numba", "reference")
BATCHES = [batch([commit("g", "t", n, n), group("g", n, "m")], base=2 * n) for n in range(40)]
STARTS = [0, *accumulate(map(len, BATCHES))]
LOG = b"".join(BATCHES)
NAMES = {problem.text: problem for problem in Problem}


def read(data, *, last=True, until=2**31, elsewhere=()):
    """The rows, once both parsers have said the same."""
    split = Split("a.log", 3, 0, len(data), last, until=until, elsewhere=elsewhere)
    one, other = (
        pa.Table.from_batches(parse(data, split, engine), SCHEMA).to_pylist() for engine in ENGINES
    )
    assert sorted(one, key=repr) == sorted(other, key=repr)
    return one


def offsets(rows):
    return sorted(row["offset"] for row in rows if row["offset"] is not None)


def problems(rows):
    return [
        (NAMES[row["problem"].partition(":")[0]], row["problem_bytes"])
        for row in rows
        if row["problem"]
    ]


def without(*numbers):
    """The offsets of all batches but these."""
    return [n for n in range(80) if n // 2 not in numbers]


def changed(number, at, mask, data=LOG):
    out = bytearray(data)
    out[STARTS[number] + at] ^= mask
    return bytes(out)


# ---------------------------------------------------------------- lengths


@pytest.mark.parametrize("byte", [8, 9, 10, 11])
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("number", [0, 7, 38])
def test_a_damaged_length_costs_its_batch_only(number, byte, bit):
    rows = read(changed(number, byte, 1 << bit))
    assert offsets(rows) == without(number)
    assert sum(size for _, size in problems(rows)) == len(BATCHES[number])
    assert all(is_damage(row["problem"]) for row in rows if row["problem"])


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_length_of_the_last_batch_is_no_unfinished_batch(bit):
    rows = read(changed(39, 9, 1 << bit))
    assert problems(rows) == [(Problem.BAD_HEADER, len(BATCHES[39]))]


def test_random_bytes_at_the_end_are_no_unfinished_batch():
    rubbish = random.Random(1).randbytes(5000)
    assert problems(read(LOG + rubbish)) == [(Problem.BAD_HEADER, 5000)]


def test_a_torn_batch_is_unfinished_wherever_it_is_cut():
    for kept in range(1, len(BATCHES[39])):
        rows = read(LOG[: STARTS[39] + kept])
        assert problems(rows) == [(Problem.TORN_TAIL, kept)]


def test_neighbours_that_are_damaged_are_told_one_by_one():
    data = changed(8, 70, 1, changed(7, 70, 1))
    assert problems(read(data)) == [(Problem.BAD_CHECKSUM, len(BATCHES[n])) for n in (7, 8)]


# ---------------------------------------------------------------- what no checksum covers


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("number", [1, 20, 39])
def test_a_damaged_base_offset_costs_its_batch_only(number, byte, bit):
    rows = read(changed(number, byte, 1 << bit), until=80)
    assert offsets(rows) == without(number)
    assert [size for _, size in problems(rows)] == [len(BATCHES[number])]


@pytest.mark.parametrize("byte", range(12, 16))
@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_leader_epoch_is_told_and_read_as_null(byte, bit):
    rows = read(changed(20, byte, 1 << bit))
    assert offsets(rows) == without()
    assert problems(rows) == [(Problem.BAD_EPOCH, 0)]
    assert {row["leader_epoch"] for row in rows if row["offset"] in (40, 41)} == {None}


def test_holes_of_compaction_are_no_damage():
    assert problems(read(b"".join(BATCHES[::3]))) == []


def test_records_that_another_segment_holds_are_counted_once_per_run():
    rows = read(LOG, elsewhere=((10, 20), (30, 32)))
    assert offsets(rows) == without(5, 6, 7, 8, 9, 15)
    sizes = STARTS[10] - STARTS[5], len(BATCHES[15])
    assert problems(rows) == [(Problem.DUPLICATE, size) for size in sizes]


# ---------------------------------------------------------------- whole logs


def flipped(seed, most, until):
    """The log with some flipped bits, and the numbers of damaged batches. Never in the base offset
    and epoch, whose damage is not always seen.
    """
    dice = random.Random(seed)
    data = bytearray(LOG)
    for _ in range(dice.randint(1, most)):
        at = dice.choice([*range(8, 12), *range(16, until)])
        data[STARTS[dice.randrange(40)] + at] ^= 1 << dice.randrange(8)
    return bytes(data), {n for n in range(40) if data[STARTS[n] : STARTS[n + 1]] != BATCHES[n]}


@pytest.mark.parametrize("seed", range(60))
def test_random_flips_lose_damaged_batches_only(seed):
    data, damaged = flipped(seed, 6, min(map(len, BATCHES)))
    rows = read(data)
    assert offsets(rows) == without(*damaged)
    assert sum(size for _, size in problems(rows)) == sum(len(BATCHES[n]) for n in damaged)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("indexed", [False, True])
def test_random_flips_are_seen_alike_in_splits(tmp_path, seed, indexed):
    data, damaged = flipped(seed, 3, 16)
    folder = tmp_path / "__consumer_offsets-0"
    path = write_segment(folder, 0, data)
    if indexed:
        path.with_suffix(".index").write_bytes(index_of(BATCHES, every=3))
    rows = planned(folder, chunk_bytes=700)
    assert offsets(rows) == without(*damaged)


def planned(*paths, read_now=True, **options):
    work = plan(paths, **options)
    return rows_of(work) if read_now else work


def rows_of(work):
    splits = [split for chunk in work.chunks for split in chunk]
    return [row for split in splits for b in parse_split(split) for row in b.to_pylist()]


# ---------------------------------------------------------------- files that change


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "__consumer_offsets-3"
    write_segment(made, 0, LOG)
    return made


@pytest.mark.parametrize("kept", [0, 11, 20, 33])
def test_a_truncation_after_planning_is_told_to_the_byte(folder, kept):
    work = planned(folder, read_now=False, chunk_bytes=1000)
    (folder / f"{0:020d}.log").write_bytes(LOG[: STARTS[kept]])
    rows = rows_of(work)
    assert offsets(rows) == list(range(2 * kept))
    assert {problem for problem, _ in problems(rows)} == {Problem.SHORTER}
    assert sum(size for _, size in problems(rows)) == len(LOG) - STARTS[kept]


def replaced(folder, base, data):
    """As compaction does it: the new file is there before the old one is gone."""
    swap = folder / "swap"
    swap.write_bytes(data)
    swap.rename(folder / f"{base:020d}.log")


@pytest.mark.parametrize("chunk_bytes", [500, 10**6])
def test_a_compaction_after_planning_loses_nothing(folder, chunk_bytes):
    write_segment(folder, 80, renumbered(BATCHES[:2], 80))
    work = planned(folder, read_now=False, chunk_bytes=chunk_bytes)
    replaced(folder, 0, b"".join(BATCHES[n] for n in range(40) if n % 3))
    rows = rows_of(work)
    wanted = [n for n in range(80) if n // 2 % 3]
    assert offsets(rows) == [*wanted, *range(80, 84)]
    assert not any(is_damage(row["problem"]) for row in rows if row["problem"])


def test_a_compaction_between_two_splits_reads_each_offset_once(folder):
    work = planned(folder, read_now=False, chunk_bytes=len(LOG) // 2)
    first, second = (split for chunk in work.chunks for split in chunk)
    rows = [row for b in parse_split(first) for row in b.to_pylist()]
    replaced(folder, 0, b"".join(BATCHES[10:]))
    rows += [row for b in parse_split(second) for row in b.to_pylist()]
    assert offsets(rows) == list(range(80))
    assert problems(rows) == []


def test_segments_that_were_merged_after_planning_are_read_from_the_new_one(folder):
    work = planned(folder, read_now=False)
    (old,) = (split for chunk in work.chunks for split in chunk)
    moved = Split(str(folder / f"{40:020d}.log"), 3, 0, 999, False, 40, 80, (1, 1))
    assert offsets(row for b in parse_split(moved) for row in b.to_pylist()) == list(range(40, 80))
    assert old.first == 0


def test_a_file_that_cannot_be_read_costs_no_other(folder):
    (folder / f"{80:020d}.log").mkdir()
    (folder / f"{90:020d}.log").symlink_to(folder / "nowhere")
    rows = planned(folder)
    assert offsets(rows) == list(range(80))
    texts = [row["problem"] for row in rows if row["problem"]]
    assert texts == ["file cannot be read: Is a directory", "segment went away before it was read"]


# ---------------------------------------------------------------- gaps and overlaps


def notes(folder):
    return [row["problem"] for row in planned(folder) if row["problem"]]


def test_a_log_whose_first_segment_is_missing_says_where_it_begins(tmp_path):
    write_segment(tmp_path / "__consumer_offsets-0", 80, renumbered(BATCHES, 80))
    assert notes(tmp_path) == ["log does not begin at offset 0: 0 to 79 are missing"]


def renumbered(batches, by):
    return b"".join(struct.pack(">q", int.from_bytes(b[:8], "big") + by) + b[8:] for b in batches)


def test_a_missing_segment_is_told_with_its_offsets(folder):
    write_segment(folder, 100, renumbered(BATCHES, 100))
    assert notes(folder) == ["offsets missing between segments: 80 to 99 are missing"]
    assert is_damage(notes(folder)[0])


@pytest.mark.parametrize("holes", ["before", "behind"])
def test_a_gap_in_a_compacted_range_is_told_as_such(folder, holes):
    if holes == "before":
        write_segment(folder, 0, b"".join(BATCHES[::2]))
    after = BATCHES if holes == "before" else BATCHES[::2]
    write_segment(folder, 100, renumbered(after, 100))
    (note,) = notes(folder)
    assert note.startswith("offsets removed by compaction between segments: ")
    assert not is_damage(note)


@pytest.mark.parametrize("left", [(20,), (60,), (20, 60)])
def test_overlapping_segments_give_each_record_once(tmp_path, left):
    """Compaction merged 0 to 79 into one segment, and some of the old ones are still there."""
    folder = tmp_path / "__consumer_offsets-0"
    write_segment(folder, 0, b"".join(BATCHES[n] for n in range(40) if n % 2))
    for base in left:
        write_segment(folder, base, b"".join(BATCHES[base // 2 : base // 2 + 10]))
    write_segment(folder, 80, renumbered(BATCHES, 80))
    rows = planned(folder)
    kept = {n for n in range(80) if n // 2 % 2}
    for base in left:
        kept |= set(range(base, base + 20))
    assert offsets(rows) == sorted([*kept, *range(80, 160)])
    assert {problem for problem, _ in problems(rows)} == {Problem.DUPLICATE}


def test_an_absurd_last_offset_does_not_pass_for_an_overlap(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    write_segment(folder, 0, changed(39, 4, 1))
    write_segment(folder, 80, renumbered(BATCHES, 80))
    rows = planned(folder)
    assert offsets(rows) == [*without(39), *range(80, 160)]
    assert (Problem.BAD_OFFSET, len(BATCHES[39])) in problems(rows)
