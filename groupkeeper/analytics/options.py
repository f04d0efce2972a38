"""The options of the Spark data source, checked."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast, get_args

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.parse import Engine
from groupkeeper.analytics.segments import expand

NAMES: Final = ("path", "paths", "chunk_bytes", "engine", "partition")
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?")
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True, slots=True)
class Options:
    """What to read, in tasks of which size, and how."""

    paths: tuple[Path, ...]
    chunk_bytes: int | None
    engine: Engine
    partition: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Options":
        """Raises AnalyticsError for an unknown option, a wrong value, and without a path."""
        for name in options:
            if name.lower() not in NAMES:
                raise AnalyticsError(f"no such option: {name}{did_you_mean(name.lower(), NAMES)}")
        return cls(
            paths=tuple(expand(_paths(options))),
            chunk_bytes=_size(options["chunk_bytes"]) if "chunk_bytes" in options else None,
            engine=_engine(options.get("engine", "auto")),
            partition=_partition(options["partition"]) if "partition" in options else None,
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to a message: the closest known name, or all of them."""
    known = list(known)
    close = get_close_matches(name, known, 1)
    return f", did you mean {close[0]}?" if close else f" (there are {', '.join(known)})"


def _paths(options: Mapping[str, str]) -> list[str]:
    """Spark has one path as `path`, several as a JSON list in `paths`."""
    paths: list[str] = json.loads(options["paths"]) if options.get("paths") else []
    if options.get("path"):
        paths.append(options["path"])
    if not paths:
        raise AnalyticsError("consumer_offsets needs a path: load(folder)")
    return paths


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    number = int(match[1]) * _UNITS[match[2]] if match else 0
    if number < 1:
        raise AnalyticsError(f"chunk_bytes must be a positive size such as 32m, not {text}")
    return number


def _engine(text: str) -> Engine:
    if text not in get_args(Engine):
        raise AnalyticsError(f"no such engine: {text} ({', '.join(get_args(Engine))})")
    return cast(Engine, text)


def _partition(text: str) -> int:
    if not text.isdecimal():
        raise AnalyticsError(f"partition must be a number from 0 on, not {text}")
    return int(text)
