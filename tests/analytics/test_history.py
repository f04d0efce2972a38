"""The tables that `--out` writes of a log and its events, against the folds fed at once."""

from collections import Counter

import pytest

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.rows import BY_BOTH, Told
from tests.analytics.churn import churn, told
from tests.analytics.folded import fed, parsed, rows_of
from tests.analytics.logs import analysis, batch, write_segment
from tests.analytics.stored import read_tables


def written(out):
    names = [folder.name for folder in out.iterdir() if folder.name not in ("records", "state")]
    return {name: rows.to_pylist() for name, rows in read_tables(out, names=names).items()}


def as_written(rows):
    return {name: table_of(name, each).to_pylist() for name, each in rows.items() if each}


def same(found, expected):
    """Rows are the same in any order."""
    assert Counter(map(repr, found)) == Counter(map(repr, expected))


def event_log(events):
    return [batch([told(each)], base) for base, each in enumerate(events)]


@pytest.fixture(scope="module")
def story():
    return churn()


def test_a_log_without_events_gives_what_the_fold_gives(story, tmp_path):
    data, _ = story
    write_segment(tmp_path / "__consumer_offsets-0", 0, data)
    analysis(tmp_path, out=tmp_path / "out", chunk_bytes=len(data) // 9)
    found, expected = written(tmp_path / "out"), as_written(rows_of(fed(parsed(data))))
    assert found.keys() - {"commits", "commit_minutes"} == expected.keys()
    for name, rows in expected.items():
        same(found[name], rows)


def test_where_events_begin_they_are_believed(story, tmp_path):
    data, events = story
    begin = len(events) // 3
    later = events[begin:]
    write_segment(tmp_path / "__consumer_offsets-0", 0, data)
    write_segment(tmp_path / "__group_events-0", 0, b"".join(event_log(later)))
    analysis(tmp_path, out=tmp_path / "out")
    fold = PartitionHistory(0)
    for offset, event in enumerate(later):
        fold.add(Told(offset, event))
    finished, under_way = fold.take(), fold.open()
    found = written(tmp_path / "out")
    same(found["events"], as_written(finished)["events"])
    first, planned = {}, {}
    for event in later:
        first.setdefault(event.group, event.at_ms)
        if event.type in ("rebalance_completed", "group_emptied"):
            planned.setdefault(event.group, event.at_ms)
    assert len(planned) > 4
    stored, inferred = {}, {}
    expected = as_written({name: finished[name] + under_way[name] for name in BY_BOTH})
    for name in BY_BOTH:
        stored[name] = [row for row in found[name] if row["source"] == "events"]
        inferred[name] = [row for row in found[name] if row["source"] == "log"]
        assert inferred[name]
    for name in "rounds", "ownership":
        same(stored[name], expected[name])
    for row in inferred["rounds"]:
        assert ms(row["ended"]) < first[row["group"]]
    for row in inferred["ownership"]:
        if row["group"] in planned:
            assert row["until"] is not None
            assert ms(row["until"]) <= planned[row["group"]]
    # Sessions that were under way at the first event begin as records tell, and end as events do.
    begun = [row for row in expected["sessions"] if row["from"] is not None]
    same([row for row in stored["sessions"] if row["from"] is not None], begun)
    assert all(ms(row["from"]) < first[row["group"]] for row in inferred["sessions"])
    ends = {(row["member"], row["until"], row["ended_by"]) for row in found["sessions"]}
    assert {(row["member"], row["until"], row["ended_by"]) for row in expected["sessions"]} <= ends


def ms(time):
    return time.timestamp() * 1000


def test_what_is_no_event_is_a_problem(tmp_path):
    events = batch([(b"g", b"{}"), (b"g", None)])
    write_segment(tmp_path / "__group_events-0", 0, events + b"torn")
    found = analysis(tmp_path, out=tmp_path / "out").tables["problems"].to_pylist()
    unreadable, empty, torn = found
    assert [each["offset"] for each in found] == [0, 1, None]
    assert "value" in empty["problem"]
    assert unreadable["problem"].startswith("unreadable value: a group event of version None; ")
    assert unreadable["problem"].endswith(", in __group_events")
    assert torn["problem"] == "unfinished batch at the end of the log: in __group_events"


def test_events_of_other_groups_are_left_out(story, tmp_path):
    data, events = story
    write_segment(tmp_path / "__consumer_offsets-0", 0, data)
    write_segment(tmp_path / "__group_events-0", 0, b"".join(event_log(events)))
    analysis(tmp_path, out=tmp_path / "out", groups=frozenset({"team-000"}))
    found = written(tmp_path / "out")
    for name in ("events", "rounds", "ownership", "commits", "commit_minutes", "snapshots"):
        assert {row["group"] for row in found[name]} - {None} == {"team-000"}
