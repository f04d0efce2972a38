"""Records and events with a good checksum and numbers that no server writes: a whole analysis goes
on, and tells no time that nobody knows.
"""

import pytest
from pyarrow import parquet

from groupkeeper.analytics import report
from groupkeeper.analytics.request import Request
from groupkeeper.protocol.group_events import Event, encode
from tests.analytics.logs import NOW, batch, commit, log, write_segment

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
    return parquet.read_table(out / name).to_pylist()


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
