"""All questions on Spark give what they give on Arrow tables."""

import pytest

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.questions.registry import QUESTIONS, answers
from tests.analytics.questions.week import week

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables():
    return week()


@pytest.fixture(scope="module")
def frames(spark, tables):
    return {name: spark.createDataFrame(table).cache() for name, table in tables.items()}


@pytest.fixture(scope="module")
def expected(tables):
    return answers(tables)


@pytest.mark.parametrize("name", QUESTIONS)
def test_spark_answers_as_arrow_does(name, frames, expected):
    asked = QUESTIONS[name]
    answered = asked(frames).toArrow().cast(asked.schema)
    assert answered.num_rows > 0
    order = sorted(answered.to_pylist(), key=str)
    assert order == sorted(expected[name].to_pylist(), key=str)


def test_parameters_and_mistakes_are_the_same(frames, tables):
    assert QUESTIONS["storms"](frames, least=11).isEmpty()
    assert QUESTIONS["storms"](tables, least=11).num_rows == 0
    for given in (frames, tables):
        with pytest.raises(AnalyticsError, match="storms has no parameter many"):
            QUESTIONS["storms"](given, many=3)
        with pytest.raises(AnalyticsError, match="needs the column topic of the table commit_min"):
            QUESTIONS["commit_rhythm"]({"commit_minutes": given["rounds"]})
