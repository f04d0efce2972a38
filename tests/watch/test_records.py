"""What Fetch returns is decoded into what the analysis reads from the same bytes."""

import struct
from random import Random
from typing import Any

import pytest

from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, Span, known_of
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import KnownOffsets
from groupkeeper.history.state import saved
from groupkeeper.protocol.record_batch import CorruptBatch, iter_batches
from groupkeeper.watch import records as watch_records
from groupkeeper.watch.records import LogReader
from tests.analytics.churn import churn
from tests.analytics.folded import fed, parsed, rows_of
from tests.analytics.logs import (
    GZIP,
    LZ4,
    NOW,
    SNAPPY,
    STORY,
    TRANSACTIONAL,
    ZSTD,
    batch,
    commit,
    forgotten,
    group,
    log,
    marker,
    no_group,
    record,
    varied,
)
from tests.support.told_events import NOON
from tests.support.written_log import WrittenLog, member, rounds_of, told_of

UNREADABLE_VALUES = "unreadable value"


def read(data: bytes, **how: Any) -> list[Fed]:
    """All items of a log in one response."""
    reader = LogReader(0, **how)
    following, items = reader.feed(data, 0)
    assert following == [*iter_batches(data)][-1].next_offset
    return items


def comparable(items: list[Fed]) -> list[Fed]:
    """The items, with numbers of batches that are equal for both readers, and without records that
    the fold passes over.
    """
    batches: dict[int, int] = {}
    found: list[Fed] = []
    for each in items:
        if isinstance(each, GroupRecord):
            if each.key_type not in (2, 3, 1000):
                continue
            number = batches.setdefault(each.batch, len(batches))
            found.append(each._replace(batch=number))
        else:
            found.append(each)
    return found


def written(seed: int) -> bytes:
    """Commits, tombstones and group records of a few groups, in batches of several records with
    holes between them, by two leaders and in all codecs.
    """
    random = Random(seed)
    base, pieces = 0, []
    for number in range(120):
        made = []
        for _ in range(random.randrange(1, 6)):
            place = random.choice("gh"), random.choice("tu"), random.randrange(3)
            choices = [commit(*place, 1)] * 6 + [forgotten(*place), group(place[0], 1, "m")]
            made.append(random.choice(choices))
        at = NOW + number * 1000 + random.randrange(-3000, 3000)
        data = batch(made, base, random.choice((0, GZIP, SNAPPY, LZ4, ZSTD)), base_time=at)
        epoch = 4 + (number > 60)
        pieces.append(data[:12] + struct.pack(">i", epoch) + data[16:])
        base += len(made) + random.choice((0, 0, 0, 2))
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(5))
def test_items_are_those_of_the_analysis(seed: int) -> None:
    data = written(seed)
    assert comparable(read(data)) == comparable(fed(parsed(data)))


def test_records_of_every_kind_are_those_of_the_analysis() -> None:
    data = log(*varied())
    table = parsed(data)
    problems = [each or "" for each in table["problem"].to_pylist()]
    bad = {o for o, each in zip(table["offset"].to_pylist(), problems, strict=True) if each}

    def without(items: list[Fed]) -> list[Fed]:
        runs = [each for each in items if isinstance(each, CommitRun)]
        assert runs
        return [each for each in comparable(items) if not isinstance(each, CommitRun)]

    reader = LogReader(3)
    following, items = reader.feed(data, 0)
    assert without(items) == without(fed(table))
    assert following == [*iter_batches(data)][-1].next_offset
    assert reader.records == len(table)
    assert sum(reader.unknown.values()) == 4  # two keys of two types, each plain and compressed
    assert reader.unreadable == sum(each.startswith("unreadable key") for each in problems)
    assert reader.first_error.startswith("partition 3: offset ")
    assert len(bad) > reader.unreadable  # values of commits are not decoded


def test_a_log_of_groups_gives_the_rows_of_the_analysis() -> None:
    data, _ = churn()
    one, other = rows_of(read(data)), rows_of(fed(parsed(data)))
    assert one == other
    assert len(one["rounds"]) > 50


def pieces(data: bytes, sizes: Random) -> list[tuple[int, list[Fed]]]:
    """The items of responses that begin at any offset and end in the middle of a batch."""
    ends = [(each.position, each.next_offset, each.end) for each in iter_batches(data)]
    reader, start, found = LogReader(0), 0, []
    while start < ends[-1][1]:
        position = next(at for at, until, _ in ends if until > start)
        size = sizes.randrange(1, 3000)
        following, items = reader.feed(memoryview(data)[position : position + size], start)
        found.append((start, items))
        if following == start:  # no batch is whole
            following, items = reader.feed(data[position : position + 10_000], start)
            found.append((start, items))
        start = following
    return found


@pytest.mark.parametrize("seed", range(3))
def test_any_slicing_into_responses_gives_the_same_rows(seed: int) -> None:
    data = written(seed)
    sliced = [each for _, items in pieces(data, Random(seed)) for each in items]
    assert rows_of(sliced) == rows_of(read(data))


def test_records_before_the_start_are_left_out() -> None:
    data = log(batch([group("g", 1, "m"), commit("g", "t", 0, 1), commit("g", "t", 0, 2)]))
    following, items = LogReader(0).feed(data, 2)
    assert following == 3
    assert [type(each) for each in items] == [CommitRun, Span]
    assert [each[:2] for each in items] == [(2, 2), (2, 2)]


def test_an_empty_response_stays_where_it_is() -> None:
    assert LogReader(0).feed(b"", 7) == (7, [])
    assert LogReader(0).feed(batch([commit("g", "t", 0, 1)], 7)[:-1], 7) == (7, [])


def test_an_empty_batch_moves_on() -> None:
    assert LogReader(0).feed(batch([], 7, count=0, last_delta=4), 7) == (12, [])


def test_a_story_keeps_its_batches_apart() -> None:
    found = read(log(*(batch([each]) for _, each in STORY)))
    records = [each for each in found if isinstance(each, GroupRecord)]
    assert [each.offset for each in records] == [*range(len(STORY))]
    assert len({each.batch for each in records}) == len(STORY)
    assert {each.key for each in records} == {None}
    assert [each.value is None for each in records].count(True) == 1


def test_commits_of_transactions_count_and_markers_do_not() -> None:
    data = log(
        batch([commit("g", "t", 0, 1)], attributes=TRANSACTIONAL, producer=7),
        marker(0, 7, commit=False),
        batch([commit("g", "t", 0, 2)], attributes=TRANSACTIONAL, producer=7),
        marker(0, 7, commit=True),
    )
    run, span = read(data)
    assert isinstance(run, CommitRun)
    assert (run.first_offset, run.last_offset, run.commits) == (0, 2, 2)
    assert isinstance(span, Span)
    assert (span.first_offset, span.last_offset, span.records) == (0, 3, 4)


def test_an_aborted_transaction_is_a_sign_of_life() -> None:
    """A member that sent the offsets of a transaction lived, even if that was aborted."""
    made = WrittenLog()
    made.group(0, 1, member("a", 0), member("b", 1))
    for at in range(2, 41, 2):
        sent = [commit("g", "orders", each, at) for each in (0, 1)]
        base, made.end = made.end, made.end + len(sent) + 1
        when = NOON + at * 1000
        data = batch(sent, base, attributes=TRANSACTIONAL, producer=7, base_time=when)
        aborted = marker(made.end - 1, 7, commit=False)
        made.placed.append((base, when, made.end, data + aborted))
    made.group(41, 2, member("a", 0, 1))  # within a session of 10 s
    last = rounds_of(told_of(made.data))[-1]
    assert last.cause is not None
    assert last.cause["code"] == "member_left"
    assert last.removed[0]["cause"]["evidence"]["silent_ms"] < 2_000


def test_only_the_group_that_was_asked_for() -> None:
    data = log(
        batch([group("g", 1, "m"), group("h", 1, "m"), commit("h", "t", 0, 1)]),
        batch([commit("g", "t", 0, 1), no_group("h"), commit("g", "t", 0, 1)]),
    )
    found = read(data, group="g")
    assert [getattr(each, "group", "") for each in found] == ["g", "", "g"]
    assert isinstance(found[1], Span)
    assert found[1].records == 6


def test_how_far_a_partition_is_known() -> None:
    reader = LogReader(0)
    assert reader.known == KnownOffsets()
    reader.feed(batch([commit("g", "t", 0, 1)] * 2), 0)
    assert reader.known == KnownOffsets()
    reader.feed(batch([commit("g", "t", 0, 1)] * 2, 5), 2)
    assert reader.known == KnownOffsets(5)
    reader.feed(batch([None], 7, payload=batch([commit("g", "t", 0, 1)])[61:], last_delta=3), 7)
    assert reader.known == KnownOffsets(5)
    reader.feed(batch([commit("g", "t", 0, 1)], 11), 11)
    assert reader.known == KnownOffsets(11)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_at_the_end_is_what_the_spans_say(seed: int) -> None:
    data, reader = written(seed), LogReader(0)
    _, items = reader.feed(data, 0)
    spans = [each for each in items if isinstance(each, Span)]
    assert reader.known == known_of(spans)
    whole = Coverage(OFFSETS_LOG, 0)
    for each in spans:
        whole.read(each)
    assert saved(whole)["row"]["records"] == reader.records


# -- damage ----------------------------------------------------------------------------------------


def good(base: int) -> bytes:
    return batch([commit("g", "t", 0, 1)], base)


def spoiled() -> bytes:
    return good(1)[:-1] + b"\x01"


def altered() -> bytes:
    """Another offset is committed: only the checksum shows it."""
    data = good(1)
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def untold() -> bytes:
    return batch([None], 1, payload=b"\x0e\0\0\0\0\0\0\0\0")


def old() -> bytes:
    return struct.pack(">qi", 1, 22) + struct.pack(">IbbqII", 0, 1, 0, NOW, 0, 0)[:22]


def changed(at: int, change: bytes, base: int = 1) -> bytes:
    """A batch with some other bytes in its header."""
    data = good(base)
    return data[:at] + change + data[at + len(change) :]


MAGIC_AT, DELTA_AT, COUNT_AT = 16, 23, 57
NEGATIVE = b"\xff\xff\xff\xff"
DAMAGED = "the batch at offset 1 has a damaged header, or is of a later format"


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda: changed(MAGIC_AT, b"\3"), DAMAGED),
        (lambda: changed(DELTA_AT, NEGATIVE), DAMAGED),
        (lambda: changed(COUNT_AT, NEGATIVE), DAMAGED),
        (spoiled, "the batch at offset 1 has a wrong checksum"),
        (altered, "the batch at offset 1 has a wrong checksum"),
        (untold, "offset 1: "),
        (old, "the batch at offset 1 is of an old format (magic 1)"),
    ],
)
def test_a_batch_that_cannot_be_read_is_a_loss(made: Any, error: str) -> None:
    reader = LogReader(9)
    following, items = reader.feed(good(0) + made() + good(2), 0)
    assert following == 3
    assert [each[:2] for each in items if isinstance(each, CommitRun)] == [(0, 2)]
    assert reader.known == KnownOffsets(2, (2,))
    assert reader.unreadable == 1
    assert reader.first_error.startswith(f"partition 9: {error}")


@pytest.mark.parametrize("base", [1 << 40, -1, 0])
def test_the_offset_of_a_damaged_batch_is_not_relied_on(base: int) -> None:
    data = struct.pack(">q", base) + spoiled()[8:]
    assert LogReader(9).feed(good(0) + data + good(2), 0, 3)[0] == 3
    assert LogReader(9).feed(good(0) + data, 0, 3)[0] == 2
    assert LogReader(9).feed(data, 1, 3)[0] == 2


def test_the_offset_of_a_damaged_batch_behind_a_gap_is_passed() -> None:
    assert LogReader(9).feed(changed(MAGIC_AT, b"\3", 700), 1, 900)[0] == 701


@pytest.mark.parametrize("length", [0, -5, 20])
def test_behind_a_damaged_length_nothing_is_read(length: int) -> None:
    data = changed(8, struct.pack(">i", length))
    following, items = LogReader(9).feed(good(0) + data + good(2), 0)
    assert following == 1
    assert [each[:2] for each in items if isinstance(each, CommitRun)] == [(0, 0)]
    with pytest.raises(CorruptBatch, match="the batch at offset 1 is said to have"):
        LogReader(9).feed(data + good(2), 1)


def test_the_first_error_stays() -> None:
    reader = LogReader(9)
    reader.feed(spoiled() + batch([(b"\0\x01\0\x09g", b"v")], 2), 0)
    assert reader.unreadable == 2
    assert reader.first_error == "partition 9: the batch at offset 1 has a wrong checksum"


def test_bytes_that_are_no_batch_are_refused() -> None:
    with pytest.raises(CorruptBatch):
        LogReader(0).feed(bytes(100), 0)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_records, "MOST_KEYS", 3)
    data = log(*(batch([commit("g", "t", n % 7, 1), commit("g", "t", 0, 1)]) for n in range(40)))
    reader = LogReader(0)
    _, items = reader.feed(data, 0)
    assert [*items] == fed(parsed(data))
    assert len(reader._places) <= 3


@pytest.mark.parametrize("size", [1, 10, 40, 200, 9_000])
@pytest.mark.parametrize("time_delta", [0, 5, -5, 1_000])
def test_a_record_has_its_own_time_whatever_its_size(size: int, time_delta: int) -> None:
    made = record(0, *commit("g", "t" * size, 0, 1), time_delta=time_delta)
    run, _ = read(batch([None], payload=made))
    assert isinstance(run, CommitRun)
    assert (run.first_ms, run.topic) == (NOW + time_delta, "t" * size)
