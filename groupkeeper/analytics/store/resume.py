"""Finds what is new in a log since the last run, and checks that it is the same log.

`_groupkeeper/state.zip` holds the name of the last run of a folder, how far it read each log, and
the state to continue from. Replacing it at the end of a run commits the run.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.pipeline.output import Ends
from groupkeeper.analytics.reading import files, walk
from groupkeeper.analytics.reading.files import AnyPath as File
from groupkeeper.analytics.reading.plan import NO_END, Chunk, Plan, Split
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.store.durable import PRIVATE, DurableFiles
from groupkeeper.protocol.record_batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header

FORMAT: Final = 6
"""Version of all files of a folder, including states of folds. Other versions are not read."""
NAME: Final = f"{PRIVATE}/state.zip"
_PROGRESS: Final = "progress.json"
_Row = dict[str, Any]  # of a problem


class _Place(NamedTuple):
    """How far a partition was read: the next log offset, and the last batch, which identifies the
    log: base offset of its segment, position, and header in hexadecimal, "" if unknown. `unsolved`:
    problems after that batch.
    """

    next: int
    segment: int = 0
    position: int = 0
    header: str = ""
    unsolved: Sequence[_Row] = ()


@dataclass(slots=True)
class ResumePoint:
    """`run` names the last run, "" before the first. `replaced`: files that this run replaced.
    `groups`: the groups read (empty: all). `counts`: records by key type and whether they are
    tombstones. `places`: topic -> partition -> place.
    """

    run: str = ""
    replaced: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    counts: list[tuple[int | None, bool, int]] = field(default_factory=list)
    places: dict[str, dict[int, _Place]] = field(default_factory=dict)

    @property
    def staged(self) -> str:
        """Folder of the files of the last run before they are moved to their places."""
        return f"{PRIVATE}/staged-{self.run}"

    def packed(self, made: Path, paths: Iterable[Path]) -> bytes:
        """Return the zip file with this point and the given files under `made`."""
        data = BytesIO()
        with ZipFile(data, "w", ZIP_DEFLATED, compresslevel=1) as packed:
            packed.writestr(_PROGRESS, json.dumps({"format": FORMAT, **asdict(self)}))
            for path in paths:
                packed.write(path, path.relative_to(made))
        return data.getvalue()


def read(files: DurableFiles) -> tuple[ResumePoint, ZipFile] | None:
    """Return the point and its zip file; None if there is none. Raises AnalyticsError."""
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
            topic: {int(number): _Place(*each) for number, each in of.items()}
            for topic, of in data.pop("places").items()
        }
        counts = [tuple(each) for each in data.pop("counts")]
        return ResumePoint(places=places, counts=counts, **data), packed
    except (AttributeError, BadZipFile, KeyError, TypeError, ValueError) as error:
        raise AnalyticsError(
            f"{files.place / NAME} cannot be read, it is cut off or damaged: analyze the log anew "
            "with --rebuild, or into another folder"
        ) from error


_ALL: Final = (0, NO_END)
_ADVICE: Final = "analyze it anew with --rebuild, or into another folder"


def news(plan: Plan, places: Mapping[int, _Place]) -> Plan:
    """Return the plan without what was already read."""
    seen: set[int] = set()

    def left(chunk: Chunk) -> Iterator[Split]:
        for split in chunk:
            place = places.get(split.partition)
            found = _behind(split, place) if place else split
            if found is not None:
                is_first = split.partition not in seen
                seen.add(split.partition)
                yield _told_gap(found, place) if place and is_first else found

    chunks = tuple(filter(None, (tuple(left(chunk)) for chunk in plan.chunks)))
    size = sum(split.size for chunk in chunks for split in chunk)
    return replace(plan, chunks=chunks, size=size)


def _behind(split: Split, place: _Place) -> Split | None:
    """Return the part of the split from the place on; None if there is none."""
    if split.first >= place.next:
        return split
    if split.until <= place.next:
        return None
    path = files.place(split.path)
    if _has(path, place):
        start = place.position + _header(place).size
    else:
        start = walk.size_before(path, split.end, place.next)
    start = max(split.start, start)
    if start >= split.end:
        return None
    only = max(split.only[0], place.next), split.only[1]
    part = replace(split, start=start, first=place.next, only=only, notes=())
    found = _read(path, start)
    if found is not None and found.base_offset == place.next:
        return part
    # The parser would check that the bytes begin at `first`, which does not hold here.
    return replace(part, identity=(0, 0))


def _told_gap(split: Split, place: _Place) -> Split:
    """Note offsets that retention may have removed before they were read."""
    notes = [note for note in split.notes if note[0] != Problem.BEGINS]
    if len(notes) < len(split.notes) and split.first > place.next:
        notes.append((Problem.REMOVED, place.next, split.first))
    return replace(split, notes=tuple(notes))


# -- the same log ------------------------------------------------------------------------------


def check(plan: Plan, places: Mapping[int, _Place], newest: Mapping[int, int], topic: str) -> None:
    """Raise AnalyticsError unless the logs are those that were read up to the places. `newest`:
    base offset of the last segment of each partition, which may be empty.
    """
    splits = defaultdict(list)
    for chunk in plan.chunks:
        for split in chunk:
            splits[split.partition].append(split)
    for partition, place in places.items():
        name = f"{topic}-{partition}"
        if partition not in newest:
            raise AnalyticsError(
                f"{name} was read into this folder and is now missing: name all paths of its log, "
                "or another folder"
            )
        if place.header:
            _check(name, splits[partition], place, newest[partition])


def _check(name: str, splits: Sequence[Split], place: _Place, newest: int) -> None:
    if any(_has(files.place(split.path), place) for split in splits):
        return
    # Compaction moves batches, and removes records and whole batches.
    was = _header(place)
    later = _headers_from(splits, was.base_offset)
    found = min(later, key=lambda header: header.base_offset, default=None)
    if found is None:
        if newest >= place.next:
            return
        raise AnalyticsError(
            f"{name} ends before offset {place.next}, up to which it was read: it was cut off or "
            f"restored; {_ADVICE}"
        )
    if found.base_offset >= place.next:
        is_same = found.leader_epoch >= was.leader_epoch
    else:
        is_same = (found.base_offset, found.leader_epoch) == (was.base_offset, was.leader_epoch)
        is_same &= found.crc == was.crc or found.record_count < was.record_count
    if not is_same:
        raise AnalyticsError(
            f"{name} has another batch at offset {found.base_offset} (leader epoch "
            f"{found.leader_epoch}, was {was.leader_epoch}): it was cut off or restored, or is of "
            f"another cluster; {_ADVICE}"
        )


def _headers_from(splits: Sequence[Split], offset: int) -> Iterator[BatchHeader]:
    """Yield the batches at or after an offset."""
    for split in splits:
        path = files.place(split.path)
        if split.until > offset:
            with suppress(OSError), path.open("rb") as file:
                for each in walk.headers(file, split.start, split.end):
                    found = _read(path, each.position) if each.until > offset else None
                    if found is not None:
                        yield found


def _has(path: File, place: _Place) -> bool:
    """Return whether the last batch that was read is still in its place."""
    is_there = place.header and int(path.stem) == place.segment
    return bool(is_there) and _bytes(path, place.position).hex() == place.header


def _header(place: _Place) -> BatchHeader:
    return read_header(bytes.fromhex(place.header))


def _read(path: File, position: int) -> BatchHeader | None:
    data = _bytes(path, position)
    return read_header(data) if data else None


def _bytes(path: File, position: int) -> bytes:
    """Return the header bytes of the batch there; empty if there is no batch."""
    with suppress(OSError, CorruptBatch), path.open("rb") as file:
        file.seek(position)
        data = file.read(HEADER_SIZE)
        read_header(data)
        return data
    return b""


# -- the end of a run --------------------------------------------------------------------------


def places(plan: Plan, before: Mapping[int, _Place], ends: Ends) -> dict[int, _Place]:
    """Return the places to continue from; `plan` is what was read, and `ends` where that ended."""
    found = dict(before)
    last = {split.partition: split for chunk in plan.chunks for split in chunk}
    for partition, split in last.items():
        place = before.get(partition, _Place(0))
        end = ends.ends.get(partition)
        if end is not None and end.offset >= place.next:
            path = files.place(end.path)
            data = _bytes(path, end.position)
            batch = read_header(data) if data else None
            place = _Place(end.offset + 1)
            if batch and batch.base_offset <= end.offset <= batch.last_offset:
                place = _Place(batch.next_offset, int(path.stem), end.position, data.hex())
        # Offsets before the last split are final.
        reached = max(place.next, split.first) if split.only == _ALL else place.next
        unsolved = ends.problems.get(partition, ())
        found[partition] = place._replace(next=reached, unsolved=unsolved)
    return found
