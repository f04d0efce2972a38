"""What a plain log tells: group records one by one, and what is inferred from neighbours."""

import pytest

from groupkeeper.analytics.pipeline.feed import spans, spans_of
from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.history.coverage import known_of
from groupkeeper.history.rows import KnownOffsets
from groupkeeper.protocol.records.consumer_offsets import (
    GroupConfigEntry,
    GroupConfigsKey,
    GroupConfigsValue,
    encode_key,
    encode_value,
)
from tests.analytics.conftest import FIXTURE
from tests.analytics.folded import fed, parsed, read, rows_of
from tests.analytics.logs import NOW, STORY, batch, commit, group, log, no_group
from tests.analytics.newer_logs import epoch


def told(*batches, known=None):
    """The rows of a log with these batches of records."""
    table = parsed(log(*(batch(records) for records in batches)))
    return rows_of(fed(table), known or known_of(spans(spans_of(table))))


def seen(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize(
    ("records", "kinds"),
    [
        (([no_group("g"), epoch("g", 1)],), ["converted", "epoch"]),
        (([epoch("g", 1)], [(epoch("g", 1)[0], None)]), ["epoch", "deleted"]),
        (([(epoch("g", 1)[0], None), group("g", 9, "m")],), ["converted", "converted"]),
        (([no_group("g"), epoch("other", 1)],), ["deleted", "epoch"]),
        (([no_group("g")], [epoch("g", 1)]), ["deleted", "epoch"]),
    ],
)
def test_a_batch_with_both_protocols_converts_a_group(records, kinds):
    assert seen(told(*records)["snapshots"], "kind") == [(kind,) for kind in kinds]


def test_rows_have_the_columns_of_their_tables():
    for name, rows in told([record for _, record in STORY]).items():
        assert table_of(name, rows).num_rows == len(rows), name


def test_tables_may_be_left_out():
    few, seen_rows = {"assignments", "snapshots"}, set()
    for table in read(FIXTURE).values():
        whole, part = rows_of(fed(table)), rows_of(fed(table), left_out=few)
        seen_rows |= {name for name in few if whole.pop(name, None)}
        assert not any(part.pop(name, None) for name in few)
        assert whole == part
    assert seen_rows == few


def test_a_group_without_a_record_before_may_have_had_one_that_was_compacted():
    holes = log(batch([commit("g", "t", 0, 1)]), batch([group("g", 7, "a")]))
    table = parsed(holes)
    whole = rows_of(fed(table))["rounds"][-1]
    assert (whole["cause"], whole["joined"]) == ("unknown", 1)
    for known in (KnownOffsets(5), KnownOffsets(1), KnownOffsets(0, (1,))):
        [cut] = rows_of(fed(table), known)["rounds"]
        assert (cut["cause"], cut["joined"], cut["from_state"]) == ("unknown", None, None)


def test_a_group_of_the_first_generation_is_new_whatever_was_compacted_before():
    table = parsed(log(batch([commit("g", "t", 0, 1)]), batch([group("g", 1, "a")])))
    for known in (KnownOffsets(5), KnownOffsets(1), KnownOffsets(0, (1,))):
        [first] = rows_of(fed(table), known)["rounds"]
        assert (first["cause"], first["joined"]) == ("member_joined", 1)


def test_records_are_not_compared_across_lost_ones():
    records = [group("g", 1, "a")], [group("g", 2, "a", "b")]
    [_, joined] = told(*records)["rounds"]
    assert (joined["cause"], joined["joined"]) == ("member_joined", 1)
    [_, lost] = told(*records, known=KnownOffsets(0, (1,)))["rounds"]
    assert (lost["cause"], lost["joined"]) == ("unknown", None)


def test_known_from_is_behind_the_last_hole():
    pieces = [batch([commit("g", "t", 0, 1)], at) for at in (3, 4, 6, 7)]
    assert known_of(spans(spans_of(parsed(b"".join(pieces))))) == KnownOffsets(6)
    [coverage] = rows_of(fed(parsed(b"".join(pieces))))["coverage"]
    wanted = {"first_offset": 3, "last_offset": 7, "known_from_offset": 6, "records": 4}
    assert coverage | wanted == coverage
    assert coverage["known_from"] == NOW


def configured(name, **configs):
    """A record with configs of a group; none: its tombstone."""
    entries = [GroupConfigEntry(name=key, value=value) for key, value in configs.items()]
    value = encode_value(GroupConfigsValue(configs=entries), 0) if entries else None
    return encode_key(GroupConfigsKey(group=name)), value


def test_configs_of_groups_are_rows_of_their_own():
    broken = configured("g")[0], b"\0\0\xff"
    records = [configured("g", a="1", b="2"), broken], [group("g", 0)], [configured("g")]
    rows = told(*records)
    assert seen(rows["configs"], "group", "offset", "time", "configs") == [
        ("g", 0, NOW, '{"a": "1", "b": "2"}'),
        ("g", 1, NOW, None),
        ("g", 3, NOW, None),
    ]
    assert seen(rows["snapshots"], "kind") == [("created",)]
