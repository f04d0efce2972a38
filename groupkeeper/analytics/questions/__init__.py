"""What a person asks about groups: functions from the tables of an analysis to tables of answers.

A question is written once and takes Arrow tables or Spark's DataFrames. `registry.QUESTIONS` has
all of them, docs/analytics-questions.md says what they mean.
"""

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)
