"""Spark's data sources over the logs of a coordinator. The parser that they use is in `reading`."""

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)
