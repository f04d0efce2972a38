"""From folders of segments to Arrow record batches: planning, parsing and what damage leaves. No
Spark here.
"""

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)
