"""The data source `group_events`: events as typed columns, what is no event, and the choice of
rows. Only the last test needs Spark.
"""

import json

import pyarrow as pa
import pytest

from groupkeeper.analytics.reading.segments import EVENTS
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.sources.events import SCHEMA
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.readers import TopicLogReader
from groupkeeper.protocol.group_events import Event, encode
from tests.analytics.logs import NOW, batch, log, write_segment

WHO = {
    "member": "m-1",
    "instance": None,
    "client_id": "c",
    "host": "/10.0.0.7",
    "software": {"name": "lib", "version": "2.1"},
    "api_version": 9,
    "principal": None,
}
CAUSE = {"code": "session_expired", "who": WHO, "likely": "crash_or_network", "evidence": {}}


def pair(group, kind, seq=0, **fields):
    event = Event(seq, 5, 1, NOW, 70, group, kind, 3, "Stable", 2, fields)
    return (group or "").encode("utf-8", "backslashreplace"), encode(event)


RECORDS = [
    pair("g", "member_removed", who=WHO, cause=CAUSE),
    pair("h", "rebalance_started", 1, cause=CAUSE, members=2),
    pair(None, "coordinator_closed", 2, why="stopped"),
    pair("\ud800", "group_created", 3, who=WHO | {"host": None, "member": "", "software": None}),
    pair("g", "member_replaced", 4, who=WHO, likely="duel"),
]
BAD = {
    "no JSON": b"{",
    "not a group event": None,
    "no JSON object": b"[]",
    "of version 2": pair("g", "x")[1].replace(b'"v":1', b'"v":2'),
    "seq is out of range": pair("g", "x", 2**63)[1],
    "epoch is out of range": pair("g", "x")[1].replace(b'"epoch":5', b'"epoch":2147483648'),
    "under the key": pair("h", "x")[1],
    "fields are not valid JSON": pair("g", "x")[1].replace(b'"round":2', b'"round":2,"a":NaN'),
}


@pytest.fixture
def folder(tmp_path):
    data = log(*(batch([record]) for record in RECORDS))
    write_segment(tmp_path / "__group_events-3", 0, data + b"torn")
    return tmp_path


def rows(folder, names=SCHEMA.names, **options):
    made = TopicLogReader(
        EVENTS, Options.of({"path": str(folder)} | options, "group_events"), names
    )
    found = [row for part in made.partitions() for row in made.read(part)]
    assert all(each.schema.names == list(names) for each in found)
    return pa.Table.from_batches(found, found[0].schema).to_pylist() if found else []


def test_an_event_fills_the_columns_of_its_table(folder):
    removed = rows(folder)[0]
    assert json.loads(removed.pop("fields")) == {"who": WHO, "cause": CAUSE}
    assert removed.pop("time").timestamp() * 1000 == NOW
    assert removed == {
        "group": "g",
        "partition": 3,
        "offset": 0,
        "epoch": 5,
        "seq": 0,
        "node": 1,
        "mono_ms": 70,
        "type": "member_removed",
        "generation": 3,
        "state": "Stable",
        "round": 2,
        "cause": "session_expired",
        "likely": "crash_or_network",
        "member": "m-1",
        "instance": None,
        "client_id": "c",
        "host": "10.0.0.7",
        "software": "lib 2.1",
        "value": None,
        "batch_position": 0,
        "problem": None,
        "problem_bytes": None,
    }
    assert set(TABLES["events"].schema.names) < set(SCHEMA.names)


def test_who_and_likely_are_found_where_the_type_has_them(folder):
    found = {row["seq"]: row for row in rows(folder) if row["seq"] is not None}
    assert [found[seq]["member"] for seq in (0, 1, 2, 3, 4)] == ["m-1", "m-1", None, None, "m-1"]
    assert [found[seq]["likely"] for seq in (1, 2, 4)] == ["crash_or_network", None, "duel"]
    assert (found[2]["group"], found[3]["group"]) == (None, "\\ud800")


def test_what_is_at_the_end_of_a_log_is_told(folder):
    (torn,) = (row for row in rows(folder) if row["problem"])
    assert torn["problem"] == "unfinished batch at the end of the log"
    assert (torn["problem_bytes"], torn["offset"], torn["partition"]) == (4, None, 3)


@pytest.mark.parametrize("said", BAD)
def test_a_value_that_is_no_event_is_kept_as_it_is(tmp_path, said):
    write_segment(tmp_path / "__group_events-0", 0, batch([(b"g", BAD[said])]))
    (row,) = rows(tmp_path)
    assert row["problem"].startswith("unreadable value: ")
    assert said in row["problem"]
    assert (row["value"], row["group"], row["type"], row["offset"]) == (BAD[said], "g", None, 0)


def test_fewer_columns_have_the_same_rows(folder):
    few = ["type", "problem"]
    assert rows(folder, names=few) == [{name: row[name] for name in few} for row in rows(folder)]


def test_options_choose_rows(folder):
    assert [row["offset"] for row in rows(folder, group="g")] == [0, 2, 4, None]
    assert [row["offset"] for row in rows(folder, since=str(NOW + 1))] == [None]
    assert len(rows(folder, since="2023-11-14T22:13:20Z", until=str(NOW + 1))) == 6


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_has_the_same_rows(spark, folder):
    source = spark.read.format("group_events").load(str(folder))
    assert source.schema["time"].dataType.simpleString() == "timestamp"
    chosen = source.where("group = 'h' and time >= timestamp'2023-11-14 22:13:20Z'")
    told = [(row["type"], row["host"], row["time"].timestamp()) for row in chosen.collect()]
    assert told == [("rebalance_started", "10.0.0.7", NOW / 1000)]
    spark.sql(f"create temporary view told using group_events options (path '{folder}')")
    count = "select count(*), count(distinct offset), count(problem) from told"
    assert tuple(spark.sql(count).head()) == (6, 5, 1)
