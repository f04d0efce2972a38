"""Records and events with a good checksum and numbers that no server writes: a whole analysis goes
on, and tells no time that nobody knows.
"""

import pytest
from pyarrow import parquet

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from groupkeeper.protocol.group_events import Event, encode
from tests.analytics.logs import NOW, batch, commit, group, log, write_segment
from tests.analytics.stored import read_tables

WHO = {"member": "m", "client_id": "c", "host": "/1.1.1.1"}
EXPIRED = {"silent_ms": 45_000, "session_timeout_ms": 45_000}


def event(seq, name, **fields):
    at_ms = NOW + seq * 1_000
    return b"g", encode(Event(seq, 5, 1, at_ms, seq, "g", name, fields=fields))


def history(refused=None, evidence=EXPIRED, **joined):
    """A member joins, is removed, and is refused."""
    times = {"first_ms": NOW + 2_500, "last_ms": NOW + 4_000}
    told = {"who": WHO, "api": "OffsetCommit", "error": "UNKNOWN_MEMBER_ID", "count": 20} | times
    cause = {"code": "session_expired", "who": WHO, "evidence": evidence}
    return [
        event(0, "group_created", who=WHO),
        event(1, "member_joined", who=WHO, kind="dynamic", **joined),
        event(2, "member_removed", who=WHO, cause=cause),
        event(4, "requests_refused", **told | (refused or {})),
    ]


def analyzed(folder, offsets, events=()):
    """The folder of tables."""
    write_segment(folder / "__consumer_offsets-0", 0, log(*offsets))
    if events:
        write_segment(folder / "__group_events-0", 0, log(batch(list(events))))
    request = Request(report=folder / "r.html", out=folder / "out", csv=folder / "csv")
    assert report.analyze([folder], request) == 0
    return folder / "out"


def table(out, name):
    return read_tables(out, names=[name])[name].to_pylist()


def sentences(out):
    found = parquet.read_table(out / "answers" / "findings.parquet")
    return [row["sentence"] for row in found.to_pylist()]


@pytest.mark.parametrize("name", ["last_ms", "first_ms"])
@pytest.mark.parametrize("odd", [10**15, 2**70, -1, -(2**70)])
def test_a_refusal_without_a_usable_time_has_that_of_its_event(tmp_path, name, odd):
    events = history({name: odd})
    out = analyzed(tmp_path, [batch([commit("g", "t", 0, 1)])], events)
    [row] = table(out, "refusals")
    times = {key: round(row[key].timestamp() * 1000) for key in ("first", "time")}
    usual = {"first": NOW + 2_500, "time": NOW + 4_000}
    assert times == usual | {"time" if name == "last_ms" else "first": NOW + 4_000}
    assert "20 commits" in sentences(out)[0]


@pytest.mark.parametrize("odd", [2**70, 2**62, 0, -5])
def test_a_refusal_without_a_usable_count_is_one(tmp_path, odd):
    out = analyzed(tmp_path, [batch([commit("g", "t", 0, 1)])], history({"count": odd}))
    assert [row["count"] for row in table(out, "refusals")] == [1]


@pytest.mark.parametrize("odd", [2**31, 10**15, 2**62, 2**70, -(2**62), -(2**70)])
def test_odd_numbers_in_evidence_do_not_end_an_analysis(tmp_path, odd):
    evidence = {"silent_ms": odd, "session_timeout_ms": odd, "rebalance_timeout_ms": odd}
    timeouts = {"session_timeout_ms": odd, "rebalance_timeout_ms": odd}
    events = history(evidence=evidence, **timeouts)
    [row] = table(analyzed(tmp_path, [batch([commit("g", "t", 0, 1)])], events), "sessions")
    assert (row["session_timeout_ms"], row["rebalance_timeout_ms"]) == (None, None)
    assert row["silent_ms"] == (odd if odd == 2**31 else None)


def churn(start):
    """Group records with one member more or less each 20 seconds, from this time on."""
    for number in range(12):
        members = ["a", "b"] if number % 2 else ["a"]
        at = start + number * 20_000
        record = group("g", number + 1, *members, leader="a")
        yield batch([record], base_time=at, max_time=at)


@pytest.mark.parametrize("start", [10**15, -5 * 10**14])
def test_what_happened_at_no_known_time_is_in_no_finding(tmp_path, start):
    out = analyzed(tmp_path, [*churn(start)])
    assert sentences(out) == []
    assert len(table(out, "rounds")) == 12
    assert {(row["from"], row["until"]) for row in table(out, "sessions")} == {(None, None)}


@pytest.mark.parametrize("odd", [10**15, -1])
def test_a_record_without_a_time_leaves_the_others_theirs(tmp_path, odd):
    sound = [*churn(NOW)]
    lost = batch([group("g", 13, "a", leader="a")], base_time=odd, max_time=odd)
    out = analyzed(tmp_path, [*sound, lost, *churn(NOW + 600_000)])
    rows = table(out, "rounds")
    assert [row["offset"] for row in rows if row["ended"] is None] == [12]
    known = [time for row in table(out, "sessions") for time in (row["from"], row["until"])]
    assert {time.year for time in known if time is not None} == {2023}
    ended = [row for row in table(out, "sessions") if row["offset"] == 12]
    assert {(row["until"], row["ended_by"]) for row in ended} == {(None, "unknown")}
