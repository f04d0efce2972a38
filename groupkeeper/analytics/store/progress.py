"""`_groupkeeper/state.zip`: which run of a folder was the last, how far it has read each log, and
what the next one goes on from. It is replaced at the end of a run, which counts from then on.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.store.durable import PRIVATE, Files

FORMAT: Final = 2
"""Of all files of a folder, the states of folds included: another one is never read."""
NAME: Final = f"{PRIVATE}/state.zip"
_PROGRESS: Final = "progress.json"
Row = dict[str, Any]  # of a problem


class Place(NamedTuple):
    """How far a partition was read: its next log offset, and the last batch that was read, by which
    a log is known again: first offset of its file, position, and what is before its records in
    hexadecimal; "" if it is not known. `unsolved`: the problems behind that.
    """

    next: int
    segment: int = 0
    position: int = 0
    header: str = ""
    unsolved: Sequence[Row] = ()


@dataclass(slots=True)
class Progress:
    """`run` names the last run, "" before the first one. `replaced`: files whose rows others have
    since that run. `groups`: those that are read (none: all). `counts`: records by key type and
    whether they are tombstones. `places`: topic -> partition -> place.
    """

    run: str = ""
    replaced: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    counts: list[tuple[int | None, bool, int]] = field(default_factory=list)
    places: dict[str, dict[int, Place]] = field(default_factory=dict)

    @property
    def staged(self) -> str:
        """The folder from which the files of the last run are moved to their places."""
        return f"{PRIVATE}/staged-{self.run}"

    def packed(self, made: Path, paths: Iterable[Path]) -> bytes:
        """The file with this and some files under `made`."""
        data = BytesIO()
        with ZipFile(data, "w", ZIP_DEFLATED, compresslevel=1) as packed:
            packed.writestr(_PROGRESS, json.dumps({"format": FORMAT, **asdict(self)}))
            for path in paths:
                packed.write(path, path.relative_to(made))
        return data.getvalue()


def read(files: Files) -> tuple[Progress, ZipFile] | None:
    """With the files. None if there is none. Raises AnalyticsError."""
    found = files.read(NAME)
    if found is None:
        return None
    try:
        packed = ZipFile(BytesIO(found))
        broken = packed.testzip()
        if broken:
            raise BadZipFile(broken)
        data = json.loads(packed.read(_PROGRESS))
        if data.pop("format") != FORMAT:
            raise AnalyticsError(
                f"{files.place} was written by another version of groupkeeper: name a new folder, "
                "or remove that one"
            )
        places = {
            topic: {int(number): Place(*each) for number, each in of.items()}
            for topic, of in data.pop("places").items()
        }
        counts = [tuple(each) for each in data.pop("counts")]
        return Progress(places=places, counts=counts, **data), packed
    except (AttributeError, BadZipFile, KeyError, TypeError, ValueError) as error:
        raise AnalyticsError(
            f"{files.place / NAME} cannot be read, it is cut off or damaged: analyze the log anew "
            "with --rebuild, or into another folder"
        ) from error
