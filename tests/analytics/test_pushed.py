"""What Spark's filters become: never fewer rows than they ask for."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import datasource as ds

from groupkeeper.analytics.reading.plan import EVERYTHING, Selection
from groupkeeper.analytics.sources.pushed import selection_of

MOMENT = datetime(2026, 11, 22, 8, 30, 0, 1500, tzinfo=UTC)
MS = 1_795_336_200_001


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (ds.EqualTo(("group",), "g"), Selection(groups=frozenset({"g"}))),
        (ds.EqualNullSafe(("group",), "g"), Selection(groups=frozenset({"g"}))),
        (ds.EqualNullSafe(("group",), None), EVERYTHING),
        (ds.In(("group",), ("g", None, "h")), Selection(groups=frozenset({"g", "h"}))),
        (ds.EqualTo(("partition",), 3), Selection(partitions=frozenset({3}))),
        (ds.In(("key_type",), (0, 1)), Selection(key_types=frozenset({0, 1}))),
        (ds.GreaterThan(("timestamp_ms",), 5), Selection(since=5)),
        (ds.GreaterThanOrEqual(("timestamp_ms",), 5), Selection(since=5)),
        (ds.LessThan(("timestamp_ms",), 5), Selection(until=6)),
        (ds.LessThanOrEqual(("timestamp_ms",), 5), Selection(until=6)),
        (ds.EqualTo(("timestamp_ms",), 5), Selection(since=5, until=6)),
        (ds.GreaterThanOrEqual(("time",), MOMENT), Selection(since=MS)),
        (ds.LessThan(("time",), MOMENT), Selection(until=MS + 1)),
        (
            ds.LessThan(("time",), datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)),
            Selection(until=0),
        ),
        (ds.GreaterThan(("timestamp_ms",), 2**63 - 1), EVERYTHING),
        (ds.Not(ds.EqualTo(("group",), "g")), EVERYTHING),
        (ds.IsNotNull(("group",)), EVERYTHING),
        (ds.StringStartsWith(("group",), "g"), EVERYTHING),
        (ds.GreaterThan(("offset",), 3), Selection(first=3)),
        (ds.GreaterThanOrEqual(("offset",), 3), Selection(first=3)),
        (ds.LessThan(("offset",), 3), Selection(end=4)),
        (ds.LessThanOrEqual(("offset",), 3), Selection(end=4)),
        (ds.EqualTo(("offset",), 3), Selection(first=3, end=4)),
        (ds.EqualNullSafe(("offset",), None), EVERYTHING),
        (ds.In(("offset",), (9, None, 3)), Selection(first=3, end=10)),
        (ds.In(("offset",), (None,)), EVERYTHING),
        (ds.LessThan(("offset",), 2**63 - 1), EVERYTHING),
        (ds.Not(ds.EqualTo(("offset",), 3)), EVERYTHING),
        (ds.EqualTo(("group", "x"), "g"), EVERYTHING),
        (ds.Not(ds.EqualTo(("timestamp_ms",), 5)), EVERYTHING),
        (ds.EqualTo(("time",), None), EVERYTHING),
    ],
)
def test_a_filter_becomes_a_selection(given, wanted):
    assert selection_of([given]) == wanted


def test_all_filters_count():
    both = [ds.EqualTo(("group",), "g"), ds.GreaterThan(("time",), MOMENT + timedelta(hours=1))]
    assert selection_of(both) == Selection(groups=frozenset({"g"}), since=MS + 3_600_000)
    assert selection_of([]) == EVERYTHING
