"""`progress.json`: which run of a folder was the last, and how far it has read each log.

It is replaced at the end of a run, which counts from then on.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.store.durable import sync

FORMAT: Final = 1
"""Of all files of a folder, the states of folds included: another one is never read."""
NAME: Final = "progress.json"
Row = dict[str, Any]  # of a problem


class Mark(NamedTuple):
    """The last batch that was read: by it a log is known again. `segment` is the first offset of
    its file.
    """

    segment: int
    position: int
    base: int
    size: int
    epoch: int
    crc: int
    records: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far a partition was read: its next log offset. `unsolved`: the problems behind that."""

    next: int
    mark: Mark | None = None
    unsolved: tuple[Row, ...] = ()


Places = dict[str, dict[int, Place]]
"""Topic -> partition -> place."""


@dataclass(slots=True)
class Progress:
    """`staging` is the folder from which the files of the last run are moved to their places.
    `since` is the first run whose files count, and `runs` has for each partition the last run
    that wrote its state. `groups`: those that are read (none: all). `counts`: records by key type
    and whether they are tombstones. `merged`: files whose rows another one has since the last run.
    """

    run: int = 0
    staging: str = ""
    since: int = 1
    groups: list[str] = field(default_factory=list)
    runs: dict[int, int] = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    counts: list[tuple[int | None, bool, int]] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Replace what the folder has, durably."""
        attempt = folder / f".{NAME}"
        with attempt.open("w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **asdict(self)}, file, indent=1)
        sync([attempt])
        os.replace(attempt, folder / NAME)
        sync([folder])

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None if there is none. Raises AnalyticsError."""
        try:
            data = json.loads((folder / NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, UnicodeDecodeError) as error:
            raise _strange(folder) from error
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise AnalyticsError(
                f"{folder} was written by another version of groupkeeper: name a new folder, or "
                "remove that one"
            )
        try:
            places = {
                topic: {int(number): _place(each) for number, each in of.items()}
                for topic, of in data.pop("places").items()
            }
            runs = {int(number): run for number, run in data.pop("runs").items()}
            counts = [tuple(each) for each in data.pop("counts")]
            return cls(places=places, runs=runs, counts=counts, **data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _strange(folder) from error


def _place(each: Mapping[str, Any]) -> Place:
    mark = Mark(*each["mark"]) if each["mark"] else None
    return Place(each["next"], mark, tuple(each["unsolved"]))


def _strange(folder: Path) -> AnalyticsError:
    return AnalyticsError(f"{folder / NAME} cannot be read: name a new folder, or remove that one")
