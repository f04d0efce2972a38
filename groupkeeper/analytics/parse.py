"""Parses bytes of segments into Arrow record batches, with numba if it is installed.

for split in chunk:
    for batch in parse_split(split): ...
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pyarrow as pa

from groupkeeper.analytics.columns import Problem, problem_rows
from groupkeeper.analytics.plan import Split

Engine = Literal["auto", "numba", "reference"]


def parse(buffer: bytes, split: Split, engine: Engine = "auto") -> Iterator[pa.RecordBatch]:
    """The rows of `buffer`, which holds the bytes of `split` and starts with a batch. Columns:
    `groupkeeper.analytics.columns`.

    Damaged bytes raise nothing: they become rows with `problem` and `problem_bytes`.
    """
    if engine == "reference" or (engine == "auto" and find_spec("numba") is None):
        from groupkeeper.analytics import reference

        return reference.read(buffer, split)
    from groupkeeper.analytics import numba_engine

    return numba_engine.read(buffer, split)


def parse_split(split: Split, engine: Engine = "auto") -> Iterator[pa.RecordBatch]:
    """The rows of one split. A file that compaction has deleted meanwhile is one row with the
    problem GONE.
    """
    try:
        with Path(split.path).open("rb") as file:
            file.seek(split.start)
            buffer = file.read(split.size)
    except FileNotFoundError:
        yield problem_rows(split, [(0, Problem.GONE, split.size)])
        return
    yield from parse(buffer, split, engine)
