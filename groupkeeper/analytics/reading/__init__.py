"""Reads folders of log segments into Arrow record batches; damage becomes rows. Does not use Spark.

    for split in chunk:
        for batch in parse_split(split): ...

The parser is imported on first use: loading its kernels takes half a second, and compiling them the
first time takes 20.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)

if TYPE_CHECKING:
    import pyarrow as pa

    from groupkeeper.analytics.reading.plan import Split


def parse_split(split: "Split", names: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    """Parse one split from its file into the columns `names` of `columns.SCHEMA` (default: all).
    Unreadable or missing bytes become rows.
    """
    from groupkeeper.analytics.reading import parser

    return parser.parse_split(split, names)


def parse(
    buffer: bytes, split: "Split", names: Sequence[str] | None = None
) -> "Iterator[pa.RecordBatch]":
    """Parse `buffer`, the bytes of `split` from the start of a batch, into the columns `names` of
    `columns.SCHEMA` (default: all).

    Damage does not raise: it becomes rows with `problem` and `problem_bytes`.
    """
    from groupkeeper.analytics.reading import parser

    return parser.parse(buffer, split, names)
