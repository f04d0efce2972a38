"""From folders of segments to Arrow record batches: planning, parsing and what damage leaves. No
Spark here.

    for split in chunk:
        for batch in parse_split(split): ...

The parser is loaded when it is first used: loading its kernels takes half a second, and compiling
them the first time 20.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groupkeeper.analytics.libraries import TABLES, check_libraries

check_libraries(TABLES)

if TYPE_CHECKING:
    import pyarrow as pa

    from groupkeeper.analytics.reading.plan import Split


def parse_split(split: "Split", names: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    """The rows of one split, read from its file, with the columns `names` of `columns.SCHEMA`, or
    with all. What cannot be read, or is gone, is a row.
    """
    from groupkeeper.analytics.reading import parser

    return parser.parse_split(split, names)


def parse(
    buffer: bytes, split: "Split", names: Sequence[str] | None = None
) -> "Iterator[pa.RecordBatch]":
    """The rows of `buffer`, which holds the bytes of `split` and starts with a batch, with the
    columns `names` of `columns.SCHEMA`, or with all.

    Damaged bytes raise nothing: they become rows with `problem` and `problem_bytes`.
    """
    from groupkeeper.analytics.reading import parser

    return parser.parse(buffer, split, names)
