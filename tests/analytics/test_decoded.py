"""Typed columns of group records, of every protocol."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from groupkeeper.analytics.reading import parse
from groupkeeper.analytics.reading.columns import SCHEMA as RAW
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.sources.decoded import SCHEMA, decode
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.readers import OffsetsReader
from tests.analytics import test_modern as modern
from tests.analytics.logs import NOW, batch, commit, group, log, no_group, varied

KAFKA = Path(__file__).parent.parent / "fixtures" / "kafka-group-protocols"


def rows(*records, names=SCHEMA.names):
    data = log(*(batch([record]) for record in records))
    found = parse(data, Split("", 0, 0, len(data), last=True))
    return [row for each in decode(found, names) for row in each.to_pylist()]


def milliseconds(time):
    return round(time.timestamp() * 1000)


def test_a_classic_group_has_its_members():
    (row,) = rows(group("g", 3, "m", ("n", "i"), leader="m"))
    assert milliseconds(row["time"]) == NOW
    classic = row["classic"]
    assert milliseconds(classic["state_time"]) == NOW
    assert (classic["generation"], classic["protocol"], classic["leader"]) == (3, "range", "m")
    assert [(each["member_id"], each["group_instance_id"]) for each in classic["members"]] == [
        ("m", None),
        ("n", "i"),
    ]


def test_commits_have_times():
    first, without = rows(commit("g", "t", 0, 1, time=NOW + 5), commit("g", "t", 0, 1, time=-1))
    assert (milliseconds(first["commit_time"]), without["commit_time"]) == (NOW + 5, None)
    assert (first["classic"], first["member"], first["assignment"]) == (None, None, None)


def test_epochs_and_members_of_newer_groups_are_columns():
    found = rows(
        modern.epoch("c", 7),
        modern.target("c", 6),
        modern.member("c", "m-1", "i"),
        modern.share_member("s", "m-2"),
        modern.streams_member("t", "m-3"),
    )
    assert [(row["epoch"], row["member_id"]) for row in found] == [
        (7, None),
        (6, None),
        (None, "m-1"),
        (None, "m-2"),
        (None, "m-3"),
    ]
    consumer, share, streams = (row["member"] for row in found[2:])
    assert (consumer["instance_id"], consumer["rebalance_timeout_ms"]) == ("i", 1000)
    assert (share["subscribed_topics"], share["instance_id"]) == (["orders"], None)
    assert (streams["process_id"], streams["subscribed_topics"]) == ("process", None)


def test_tombstones_and_unknown_types_are_kept_raw():
    found = rows(no_group("g"), (modern.key(3, "c"), None), (modern.key(16, "c", "x"), b"raw"))
    assert [(row["group"], row["tombstone"], row["problem"]) for row in found] == [
        ("g", True, None),
        ("c", True, None),
        ("c", False, None),
    ]
    assert found[2]["value"] == b"raw"
    assert all(row["classic"] is row["epoch"] is row["member"] is None for row in found)


def test_a_value_that_cannot_be_decoded_is_told():
    found = rows((modern.key(3, "c"), b"\0\0"), (group("g", 1)[0], b"\0"))
    assert all(row["problem"].startswith("unreadable value: ") for row in found)
    assert [row["value"] for row in found] == [b"\0\0", b"\0"]


def test_nothing_else_is_changed():
    data = b"".join(varied())
    found = list(parse(data, Split("", 3, 0, len(data), last=True)))
    before = pa.Table.from_batches(found).to_pylist()
    after = pa.Table.from_batches(decode(found, RAW.names)).to_pylist()
    known = [row for row in before if row["problem"]]
    assert [row for row in after if row["problem"]][: len(known)] != []
    assert [row | {"problem": None} for row in after] == [row | {"problem": None} for row in before]


def test_what_a_broker_wrote_names_the_members_that_its_tools_named():
    said = json.loads((KAFKA / "expected.json").read_text())
    made = OffsetsReader(
        Options.of({"path": str(KAFKA), "decode": "true", "group": "modern"}),
        ["group", "member_id", "member", "problem"],
    )
    found = pa.Table.from_batches(
        [each for part in made.partitions() for each in made.read(part)]
    ).to_pylist()
    assert {row["problem"] for row in found} == {None}
    written = {row["member_id"] for row in found if row["member"]}
    assert {member for group, member, _ in said["members"] if group == "modern"} <= written


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_has_the_typed_columns(spark):
    read = spark.read.format("consumer_offsets").option("decode", "true").load(str(KAFKA))
    assert read.schema.names == SCHEMA.names
    asked = read.where("`group` = 'modern' and member.client_host is not null")
    assert {row["host"] for row in asked.selectExpr("member.client_host as host").collect()} == {
        "/127.0.0.1"
    }


@pytest.mark.parametrize("said", ["yes", "1", ""])
def test_the_option_is_true_or_false(said):
    with pytest.raises(Exception, match="decode must be true or false"):
        Options.of({"path": "/", "decode": said})
