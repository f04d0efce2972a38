"""The options of the Spark data sources, checked. docs/analytics.md explains each."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.reading.follow import EARLIEST, LATEST
from groupkeeper.analytics.reading.plan import Selection
from groupkeeper.analytics.reading.segments import expand

NAMES: Final = (*("path", "paths", "chunk_bytes", "group", "since", "until"),)
OF_STREAMS: Final = ("startingOffsets", "maxBytesPerTrigger", "failOnDataLoss")
"""Named as in Spark's source for Kafka; case is ignored."""
FOR_BOTH: Final = ("path", "paths", "chunk_bytes")
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?")
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_AGE: Final = re.compile(r"(\d+)\s*([smhd])")
_AGES: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS: Final = re.compile(r"-?\d{1,18}")
_HOW: Final = (
    "load(folder), or create temporary view ... using {0} options (path '...'); for a table made "
    "with create table, Spark passes no options to a Python source"
)


@dataclass(frozen=True, slots=True)
class Options:
    """The data to read, and the size of tasks."""

    paths: tuple[AnyPath, ...]
    chunk_bytes: int | None
    selection: Selection

    @classmethod
    def of(cls, options: Mapping[str, str], format_name: str = "consumer_offsets") -> "Options":
        """Check the options. Raises AnalyticsError for an unknown one, a wrong value, no path."""
        if "provider" in options:
            raise AnalyticsError(f"{format_name} is not for tables: {_HOW.format(format_name)}")
        for name in options:
            if name.lower() not in NAMES and not has_of_streams([name]):
                raise AnalyticsError(f"no such option: {name}{did_you_mean(name.lower(), NAMES)}")
        return cls(
            paths=tuple(expand(_paths(options, format_name))),
            chunk_bytes=_size("chunk_bytes", options.get("chunk_bytes")),
            selection=_selection(options),
        )


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The start of a stream, its size per batch, and whether lost records are an error."""

    starting: str
    max_bytes: int | None
    fail_on_loss: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Check the options. Raises AnalyticsError for one without meaning here or a
        wrong value.
        """
        given = {name.lower(): text for name, text in options.items()}
        for name in options:
            if name.lower() not in FOR_BOTH and not has_of_streams([name]):
                raise AnalyticsError(
                    f"readStream has no option {name}: filter with where() instead"
                )
        fails = given.get("failondataloss", "true").lower()
        return cls(
            starting=_word(
                "startingOffsets", given.get("startingoffsets", EARLIEST), (EARLIEST, LATEST)
            ),
            max_bytes=_size("maxBytesPerTrigger", given.get("maxbytespertrigger")),
            fail_on_loss=_word("failOnDataLoss", fails, ("true", "false")) == "true",
        )


def has_of_streams(options: Iterable[str]) -> bool:
    """Return whether an option only for streams is given."""
    return any(name.lower() in map(str.lower, OF_STREAMS) for name in options)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suffix for a message: the closest known name, or all of them."""
    known = list(known)
    close = get_close_matches(name, known, 1)
    return f", did you mean {close[0]}?" if close else f" (known: {', '.join(known)})"


def _paths(options: Mapping[str, str], format_name: str) -> list[str]:
    """Return the paths. Spark passes one path as `path`, several as a JSON list in `paths`."""
    paths: list[str] = json.loads(options["paths"]) if options.get("paths") else []
    if options.get("path"):
        paths.append(options["path"])
    if not paths:
        raise AnalyticsError(f"{format_name} needs a path: {_HOW.format(format_name)}")
    return paths


def _selection(options: Mapping[str, str]) -> Selection:
    return Selection(
        options.get("group"),
        _time("since", options.get("since")),
        _time("until", options.get("until")),
    )


def _time(name: str, text: str | None) -> int | None:
    """Epoch milliseconds, from such, from ISO 8601 (UTC without a zone), or from an age."""
    if text is None:
        return None
    if age := _AGE.fullmatch(text.strip()):
        return int(time.time() * 1000) - int(age[1]) * _AGES[age[2]]
    if _DIGITS.fullmatch(text.strip()):
        return int(text)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise AnalyticsError(
            f"{name} must be a time such as 2026-11-22T08:30:00Z, epoch milliseconds, or how long "
            f"ago (3h, 2d), not {text}"
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _size(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip().lower())
    number = int(match[1]) * _UNITS[match[2]] if match else 0
    if number < 1:
        raise AnalyticsError(f"{name} must be a positive size such as 32m, not {text}")
    return number


def _word(name: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise AnalyticsError(f"no such {name}: {text} ({', '.join(known)})")
    return text
