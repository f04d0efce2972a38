"""The parsers over `__group_events`: keys are groups, whatever they look like, and damage is told
as it is of offsets.
"""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS
from groupkeeper.analytics.reading.plan import Split, plan, plan_topics
from groupkeeper.analytics.reading.segments import EVENTS, NO_PARTITION, OFFSETS
from groupkeeper.protocol.group_events import Event, encode
from tests.analytics.logs import GZIP, NOW, batch, commit, log, write_segment
from tests.analytics.reference import parse


def event(group, seq=0, kind="group_created", **fields):
    told = Event(seq, 5, 1, NOW + seq, 7, group, kind, fields=fields)
    return (group or "").encode("utf-8", "backslashreplace"), encode(told)


MADE = [
    batch([event("g"), event("é" * 40, 1)]),
    batch([event(None, 2, "coordinator_closed", why="stopped"), event("g", 3)], attributes=GZIP),
    batch([(b"g", None)]),
    batch([commit("g", "t", 0, 1), (b"\0\x02\0\x01g", b"{}")]),
    batch([(None, b"{}"), (b"\xff", b"{}"), (b"\xed\xa0\x80", b"")]),
]
LOG = log(*MADE)
UNCHECKED = 16
"""Bytes at the start of a batch that its checksum does not cover."""


def rows(data, engine, names=EVENT_COLUMNS):
    split = Split("", 3, 0, len(data), last=True, topic=EVENTS)
    return [row for each in parse(data, split, engine, names) for row in each.to_pylist()]


def agreed(data):
    one, other = (
        sorted(rows(data, engine), key=lambda row: (row["batch_position"], repr(row)))
        for engine in ("numba", "reference")
    )
    assert one == other
    return one


def test_keys_are_groups_and_values_are_kept():
    found = agreed(LOG)
    assert [
        (row["offset"], row["group"], row["problem"]) for row in found if row["offset"] < 5
    ] == [(0, "g", None), (1, "é" * 40, None), (2, None, None), (3, "g", None), (4, "g", None)]
    assert found[0]["value"] == event("g")[1]
    assert found[0]["leader_epoch"] == 5
    assert found[4]["value"] is None


def test_a_key_that_looks_like_one_of_an_offset_is_a_group():
    key = commit("g", "t", 0, 1)[0]
    assert [row["group"] for row in agreed(LOG) if row["offset"] in (5, 6)] == [
        key.decode(),
        "\0\x02\0\x01g",
    ]


def test_a_key_that_is_no_text_is_told():
    bad = [row for row in agreed(LOG) if row["problem"]]
    assert [(row["offset"], row["problem"], row["group"]) for row in bad] == [
        (offset, "unreadable key", None) for offset in (7, 8, 9)
    ]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, len(LOG) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_seen_alike_and_costs_its_batch_only(at, mask):
    data = bytearray(LOG)
    data[at] ^= mask
    found = agreed(bytes(data))
    starts = list(accumulate(map(len, MADE), initial=0))
    hit = max(start for start in starts if start <= at)
    if at - hit >= UNCHECKED:
        kept = [row["offset"] for row in rows(LOG, "reference") if row["batch_position"] != hit]
        assert [row["offset"] for row in found if row["offset"] is not None] == kept
        assert any(row["problem_bytes"] for row in found if row["batch_position"] == hit)


@pytest.fixture
def folder(tmp_path):
    write_segment(tmp_path / f"{EVENTS}-3", 0, LOG)
    write_segment(tmp_path / f"{EVENTS}-3", 10, b"")
    write_segment(tmp_path / f"{OFFSETS}-3", 0, batch([commit("g", "t", 0, 1)]))
    return tmp_path


def splits(work):
    return [split for chunk in work.chunks for split in chunk]


def test_each_topic_is_read_from_its_own_folders(folder):
    (events,) = splits(plan([folder], topic=EVENTS))
    (offsets,) = splits(plan([folder]))
    assert (events.topic, events.partition, events.size) == (EVENTS, 3, len(LOG))
    assert (offsets.topic, offsets.path) == (OFFSETS, str(folder / f"{OFFSETS}-3" / f"{0:020}.log"))
    found = [row for each in parse_split(events, EVENT_COLUMNS) for row in each.to_pylist()]
    assert found == rows(LOG, "numba")


def test_both_topics_of_a_data_folder_are_planned_at_once(folder, tmp_path):
    found = plan_topics([folder])
    assert {topic: work.segments for topic, work in found.items()} == {OFFSETS: 1, EVENTS: 1}
    apart = plan_topics([folder / f"{OFFSETS}-3", folder / f"{EVENTS}-3"])
    assert apart == found
    assert plan_topics([folder / f"{EVENTS}-3"])[OFFSETS].chunks == ()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    with pytest.raises(AnalyticsError, match="no __consumer_offsets-<n> or __group_events-<n> f"):
        plan_topics([folder, nothing])


@pytest.mark.parametrize("place", [f"{OFFSETS}-3", f"{OFFSETS}-3/{0:020}.log"])
def test_a_folder_of_the_other_topic_holds_nothing_to_read(folder, place):
    with pytest.raises(
        AnalyticsError, match=r"nothing to read in .*: no __group_events-<n> folder"
    ):
        plan([folder / place], topic=EVENTS)


def test_a_segment_in_no_partition_folder_is_of_the_topic_that_is_asked_for(folder, tmp_path):
    alone = write_segment(tmp_path / "alone", 0, LOG)
    (split,) = splits(plan([alone], topic=EVENTS))
    assert (split.partition, split.topic) == (NO_PARTITION, EVENTS)


def test_events_are_cut_and_read_again_after_a_replacement(folder):
    work = plan([folder], chunk_bytes=100, topic=EVENTS)
    assert len(work.chunks) > 2
    path = folder / f"{EVENTS}-3" / f"{0:020}.log"
    path.rename(path.with_suffix(".old"))
    write_segment(path.parent, 0, LOG)
    found = [
        row for split in splits(work) for each in parse_split(split) for row in each.to_pylist()
    ]
    assert sorted(row["offset"] for row in found) == list(range(10))
    assert [row["group"] for row in found if row["offset"] == 5] == [
        commit("g", "t", 0, 1)[0].decode()
    ]
