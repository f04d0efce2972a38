"""Questions about groups, answered from the tables of an analysis as further tables.

A question is written once and runs on Arrow tables or Spark DataFrames. `registry.QUESTIONS` lists
them all; docs/analytics-questions.md explains them.
"""

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)
