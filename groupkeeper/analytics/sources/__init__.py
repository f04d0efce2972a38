"""Spark data sources over the logs of a coordinator. They use the parser in `reading`."""

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)
