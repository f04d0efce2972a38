"""Members of consumer and share groups over time, on a broker's log and on records by hand."""

import json
from collections import Counter
from itertools import chain
from pathlib import Path

from groupkeeper.history.newer_topics import id_text
from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.rows import ALL, KnownOffsets
from tests.analytics.folded import extend, fed, parsed, read, rows_of
from tests.analytics.logs import NOW, batch, group, log, no_group
from tests.analytics.newer_logs import ORDERS, current, epoch, gone, key, member, share_member

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-group-protocols"


def test_members_are_those_that_kafkas_tool_described():
    said = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))
    rows = [rows_of(fed(table)) for table in read(FIXTURE).values()]
    owned = Counter(
        (row["group"], row["member"])
        for row in chain.from_iterable(each.get("ownership", ()) for each in rows)
        if row["until"] is None
    )
    described = {(group, member): int(count) for group, member, count in said["members"]}
    shared = {key: count for key, count in owned.items() if key[0] == "shared"}
    assert owned == described | shared
    assert list(shared.values()) == [6]


def told(*batches, known=ALL, names=None, times=None):
    when = times or [NOW] * len(batches)
    made = (batch(few, base_time=at) for few, at in zip(batches, when, strict=True))
    table = parsed(log(*made))
    fold, rows = PartitionHistory(0, known, names or {ORDERS: "orders"}), {}
    for each in fed(table):
        fold.add(each)
    extend(rows, fold.take())
    extend(rows, PartitionHistory.restore(json.loads(json.dumps(fold.state()))).open())
    return rows


LIFE = (
    [epoch("g", 1), member("g", "m", instance="i"), current("g", "m", 1, 0, 1)],
    [epoch("g", 2), member("g", "n"), current("g", "m", 2, 0)],
    [current("g", "n", 2, 1)],
    [gone(current("g", "m", 2)), gone(member("g", "m")), epoch("g", 3)],
)


def test_a_partition_has_one_owner_after_the_other():
    rows = told(*LIFE, times=range(NOW, NOW + 4))
    owners = [(row["topic_partition"], row["member"], row["offset"]) for row in rows["ownership"]]
    assert owners == [
        *((1, "m", 5), (1, None, 6), (0, "m", 7)),  # ended, by these records
        *((0, None, 7), (1, "n", 6)),
    ]
    assert {row["topic"] for row in rows["ownership"]} == {"orders"}
    assert rows["ownership"][0]["instance"] == "i"


def test_owners_and_members_at_no_known_time():
    rows = told(*LIFE, times=[NOW, -9, 10**15, NOW + 9])
    spans = [(row["topic_partition"], row["from"], row["until"]) for row in rows["ownership"]]
    assert spans == [
        *((1, None, None), (0, NOW, NOW + 9)),  # ended
        *((0, NOW + 9, None), (1, None, None)),
    ]
    assert [row["from"] for row in rows["sessions"]] == [NOW, None]


def test_sessions_are_from_the_first_record_of_a_member_to_its_tombstone():
    keys = ("member", "began_as", "ended_by", "session_timeout_ms", "rebalance_timeout_ms")
    rows = told(*LIFE)["sessions"]
    assert [tuple(row[name] for name in keys) for row in rows] == [
        ("m", "static", "unknown", None, 1000),
        ("n", "dynamic", None, None, 1000),
    ]
    [old] = told(LIFE[0], known=KnownOffsets(100))["sessions"]
    assert (old["from"], old["began_as"]) == (None, "unknown")


def test_a_fold_goes_on_from_its_state_at_any_batch():
    converted = [(epoch("g", 3)[0], None), group("g", 9, "m")]
    batches = [*LIFE[:3], converted, [no_group("g"), *LIFE[0]], LIFE[3]]
    table = parsed(log(*(batch(few, base_time=NOW + at) for at, few in enumerate(batches))))

    def cut(fold):
        return PartitionHistory.restore(json.loads(json.dumps(fold.state())))

    whole = rows_of(fed(table))
    assert rows_of(fed(table), cut=cut) == whole
    assert [row["until"] for row in whole["sessions"]].count(None) == 0


def test_the_rebalance_behind_a_conversion_has_no_cause_that_the_log_shows():
    first, *later = ([group("g", each, "m", "n", leader="m")] for each in (9, 10, 11))
    converted = [(epoch("g", 3)[0], None), *first]
    rows = told(LIFE[0], converted, *later, times=range(NOW, NOW + 4))["rounds"]
    assert [(row["generation"], row["cause"], row["confidence"]) for row in rows] == [
        (10, "unknown", 0.99),
        (11, "leader_rejoined", 0.9),
    ]


def test_what_changes_with_the_rebalance_behind_a_conversion_may_not_be_its_cause():
    converted = [(epoch("g", 3)[0], None), group("g", 9, "m")]
    rows = told(LIFE[0], converted, [group("g", 10, "m", "n")], times=range(NOW, NOW + 3))
    [row] = rows["rounds"]
    assert (row["cause"], row["more_causes"]) == ("unknown", ["member_joined"])


def test_each_assignment_is_a_row_of_its_member():
    rows = told(*LIFE)
    keys = ("offset", "generation", "member", "topics", "assigned_partitions")
    assert [tuple(row[name] for name in keys) for row in rows["members"]] == [
        (2, 1, "m", ["orders"], 2),
        (5, 2, "m", ["orders"], 1),
        (6, 2, "n", ["orders"], 1),
    ]
    assert len(rows["assignments"]) == 4


def test_a_deleted_group_owns_nothing():
    rows = told(*LIFE, [gone(epoch("g", 3))])
    assert all(row["until"] for row in (*rows["ownership"], *rows["sessions"]))


def test_topics_without_a_name_have_their_id():
    [row] = told([current("g", "m", 1, 0)], names={b"other": "x"})["assignments"]
    assert row["topic"] == id_text(ORDERS)


def test_a_value_that_cannot_be_read_is_told():
    bad = key(5, "g", "m"), b"\0\0\7"
    [row] = told([bad])["snapshots"]
    assert (row["kind"], row["group"]) == ("unreadable", "g")


def test_members_of_share_groups_have_no_timeouts():
    [row] = told([epoch("s", 1, kind=11), share_member("s", "m")])["sessions"]
    assert (row["member"], row["instance"], row["rebalance_timeout_ms"]) == ("m", None, None)
