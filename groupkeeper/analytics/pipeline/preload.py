"""Imports what the workers of the local engine need, and loads the compiled parser."""

from importlib.util import find_spec

from groupkeeper.analytics.pipeline import chunks, folds, partitions
from groupkeeper.analytics.reading import parse

if find_spec("numba") is not None:
    from groupkeeper.analytics.reading import numba_engine

__all__ = ["chunks", "folds", "numba_engine", "parse", "partitions"]
