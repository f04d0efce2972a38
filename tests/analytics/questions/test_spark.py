"""All questions on Spark give what they give on Arrow tables."""

import math

import pytest

from groupkeeper.analytics.answering import SCHEMA, answers
from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.questions.registry import QUESTIONS, ask
from tests.analytics.questions.week import week

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def tables():
    return week()


@pytest.fixture(scope="module")
def frames(spark, tables):
    """There are few rows, and many joins: compiling them takes longer than reading the rows."""
    fast = {"spark.sql.shuffle.partitions": 1, "spark.sql.codegen.wholeStage": "false",
            "spark.sql.adaptive.enabled": "false"}  # fmt: skip
    usual = {name: spark.conf.get(name) for name in fast}
    for name, value in fast.items():
        spark.conf.set(name, value)
    yield {name: spark.createDataFrame(table).cache() for name, table in tables.items()}
    for name, value in usual.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def expected(tables):
    return answers(tables)


@pytest.fixture(scope="module")
def answered(frames):
    return answers(frames)


def close(one, other):
    """Sums of numbers are added up in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


@pytest.mark.parametrize("name", QUESTIONS)
def test_spark_answers_as_duckdb_does(name, answered, expected):
    rows, others = answered[name].toArrow().cast(QUESTIONS[name].schema), expected[name]
    for row, other in zip(rows.to_pylist(), others.to_pylist(), strict=True):
        assert all(close(row[column], other[column]) for column in other), (row, other)


def test_findings_are_the_same(answered, expected):
    assert answered["findings"].toArrow().cast(SCHEMA) == expected["findings"]


def test_parameters_and_mistakes_are_the_same(frames, tables):
    assert ask("storms", frames, least=11).isEmpty()
    assert ask("storms", tables, least=11).num_rows == 0
    for given in (frames, tables):
        with pytest.raises(AnalyticsError, match="storms has no parameter many"):
            ask("storms", given, many=3)
        with pytest.raises(AnalyticsError, match="needs the column topic of the table commit_min"):
            ask("commit_rhythm", {"commit_minutes": given["rounds"]})
