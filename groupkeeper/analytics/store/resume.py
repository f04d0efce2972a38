"""What is new in a log since it was read up to a place, and whether it is the same log."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.pipeline.ends import Ends
from groupkeeper.analytics.reading import files, walk
from groupkeeper.analytics.reading.files import Place as File
from groupkeeper.analytics.reading.plan import NO_END, Chunk, Plan, Split
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.store.progress import Mark, Place
from groupkeeper.protocol.record_batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header

_ALL: Final = (0, NO_END)
_ADVICE: Final = "analyze it anew with --rebuild, or into another folder"


def news(plan: Plan, places: Mapping[int, Place]) -> Plan:
    """The plan without what was read."""
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


def _behind(split: Split, place: Place) -> Split | None:
    """What of the split is from the place on; None if nothing is."""
    if split.first >= place.next:
        return split
    if split.until <= place.next:
        return None
    start = _start(split, place)
    if start >= split.end:
        return None
    only = max(split.only[0], place.next), split.only[1]
    part = replace(split, start=start, first=place.next, only=only, notes=())
    header = _header(files.place(split.path), start)
    if header is not None and header.base_offset == place.next:
        return part
    # By the first offset the parser knows that a file is still what was planned.
    return replace(part, identity=(0, 0))


def _start(split: Split, place: Place) -> int:
    """Where the first batch from the place on starts."""
    path, mark = files.place(split.path), place.mark
    if mark and int(path.stem) == mark.segment and _is_there(path, mark):
        end = mark.position + mark.size
        return max(split.start, end)
    return max(split.start, walk.size_before(path, split.end, place.next))


def _told_gap(split: Split, place: Place) -> Split:
    """Retention may have removed records that nobody has read."""
    notes = [note for note in split.notes if note[0] != Problem.BEGINS]
    if len(notes) < len(split.notes) and split.first > place.next:
        notes.append((Problem.REMOVED, place.next, split.first))
    return replace(split, notes=tuple(notes))


# -- is it the same log? -----------------------------------------------------------------------


def check(plan: Plan, places: Mapping[int, Place], newest: Mapping[int, int], topic: str) -> None:
    """Raises AnalyticsError unless the logs are those that were read up to the places. `newest`:
    the first offset of the last segment of each partition, which may be empty.
    """
    splits = defaultdict(list)
    for chunk in plan.chunks:
        for split in chunk:
            splits[split.partition].append(split)
    for partition, place in places.items():
        name = f"{topic}-{partition}"
        if partition not in newest:
            raise AnalyticsError(
                f"{name} was read into this folder and is not there: name all paths of its log, "
                "or another folder"
            )
        _check_one(name, splits[partition], place, newest[partition])


def _check_one(name: str, splits: Sequence[Split], place: Place, newest: int) -> None:
    mark = place.mark
    segments = {files.place(split.path): split.end for split in splits}
    if mark is None or any(
        int(path.stem) == mark.segment and _is_there(path, mark) for path in segments
    ):
        return
    before = max((int(path.stem) for path in segments if int(path.stem) <= mark.base), default=0)
    segments = {path: size for path, size in segments.items() if int(path.stem) >= before}
    # Compaction moves batches, and takes records and whole batches out.
    later: BatchHeader | None = None
    for path, size in segments.items():
        for header in _headers_from(path, size, mark.base):
            if header.base_offset < place.next:
                if not _is_rewritten(header, mark):
                    raise _other(name, header, mark)
                return
            later = later or header
    if later is None and newest < place.next:
        raise AnalyticsError(
            f"{name} ends before offset {place.next}, up to which it was read: it was cut off or "
            f"restored; {_ADVICE}"
        )
    if later is not None and later.leader_epoch < mark.epoch:
        raise _other(name, later, mark)


def _other(name: str, header: BatchHeader, mark: Mark) -> AnalyticsError:
    return AnalyticsError(
        f"{name} has another batch at offset {header.base_offset} (leader epoch "
        f"{header.leader_epoch}, was {mark.epoch}): it was cut off or restored, or is of another "
        f"cluster; {_ADVICE}"
    )


def _is_rewritten(header: BatchHeader, mark: Mark) -> bool:
    """Whether it is the batch, or what compaction has left of it."""
    same = header.base_offset == mark.base and header.leader_epoch == mark.epoch
    return same and (header.crc == mark.crc or header.record_count < mark.records)


def _headers_from(path: File, size: int, offset: int) -> Iterator[BatchHeader]:
    """Batches with that offset or later ones."""
    with suppress(OSError), path.open("rb") as file:
        for each in walk.headers(file, 0, size):
            if each.until > offset:
                found = _header(path, each.position)
                if found is not None:
                    yield found


def _is_there(path: File, mark: Mark) -> bool:
    header = _header(path, mark.position)
    return header is not None and (header.base_offset, header.leader_epoch, header.crc) == (
        *(mark.base, mark.epoch, mark.crc),
    )


def _header(path: File, position: int) -> BatchHeader | None:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return read_header(file.read(HEADER_SIZE))
    except (OSError, CorruptBatch):
        return None


# -- where it ended ----------------------------------------------------------------------------


def places(plan: Plan, before: Mapping[int, Place], ends: Ends) -> dict[int, Place]:
    """Where the next run goes on; `plan` is what was read, and `ends` where that ended."""
    found = dict(before)
    last = {split.partition: split for chunk in plan.chunks for split in chunk}
    for partition, split in last.items():
        known = before.get(partition, Place(0))
        mark, reached = known.mark, known.next
        end = ends.ends.get(partition)
        if end is not None and end.offset >= reached:
            header = _header(files.place(end.path), end.position)
            reached = end.offset + 1
            mark = _mark(files.place(end.path), end.position, header) if header else None
            if mark and header and header.base_offset <= end.offset <= header.last_offset:
                reached = header.last_offset + 1
            else:
                mark = None
        if split.only == _ALL:
            # What is before the last split does not change.
            reached = max(reached, split.first)
        found[partition] = Place(reached, mark, tuple(ends.problems.get(partition, ())))
    return found


def _mark(path: File, position: int, header: BatchHeader) -> Mark:
    about = header.base_offset, header.size, header.leader_epoch, header.crc, header.record_count
    return Mark(int(path.stem), position, *about)
