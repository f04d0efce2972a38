"""Rounds of a random log: what is cleaned in each, and whether ours and Kafka's keep the same.

What differs on purpose:

- we keep the last batch of every new segment, even without records, Kafka that of the last one;
- a marker whose record is gone, and which is kept for the epoch of its producer, stays until that
  expires. So it does on a broker, but not on one that was started since, as here;
- Kafka cleans whole segments, so no transaction is open at the end of them here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from groupkeeper.protocol.record_batch import BatchHeader, decode_records
from groupkeeper.storage.log.limits import Limits
from tests.support.compacting import DAY, HOUR, Folder
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.random_log import RandomLog
from tests.support.raw_batches import TIME, headers_of

ROUNDS = 6


class DifferenceError(Exception):
    """Kafka keeps something else; the text says what."""


@dataclass(slots=True, frozen=True)
class Job:
    """Closed segments, by base offset, up to offset `end`, and how to clean them."""

    segments: dict[int, bytes]
    end: int
    first_dirty: int
    now_ms: int
    retention_ms: int
    expiration_ms: int
    segment_bytes: int

    def folder(self) -> Folder:
        """In memory."""
        limits = Limits(segment_bytes=self.segment_bytes)
        folder = Folder(FakeFiles(FakeDisk()), limits=limits)
        bases = [*self.segments, self.end]
        for number, (base, data) in enumerate(self.segments.items()):
            folder.add(data, base=base, end=bases[number + 1])
        folder.first_dirty = self.first_dirty
        folder.retention_ms, folder.expiration_ms = self.retention_ms, self.expiration_ms
        return folder


def jobs(seed: int) -> Iterator[Job]:
    """The rounds of one log; each begins with what ours left of the round before."""
    random = Random(seed)
    log = RandomLog(random)
    segments: dict[int, bytes] = {}
    first_dirty = 0
    now_ms = TIME + HOUR
    expiration_ms, segment_bytes = random.choice((HOUR, 20 * DAY)), random.choice((3_000, 1 << 20))
    for _ in range(ROUNDS):
        for _ in range(random.randrange(1, 4)):
            _add(segments, log.batches(random.randrange(1, 20)))
        _add(segments, [*log.batches(random.randrange(5)), *log.end_transactions()])
        end = log.next_offset
        first_dirty = max(first_dirty, min(segments))  # never before the start of a log
        job = Job(segments, end, first_dirty, now_ms, 2 * HOUR, expiration_ms, segment_bytes)
        yield job
        folder = job.folder()
        folder.compact(now_ms)
        segments, first_dirty = _segments(folder), folder.first_dirty
        now_ms += random.choice((0, HOUR, 3 * HOUR))


def _add(segments: dict[int, bytes], batches: list[bytes]) -> None:
    if batches:
        segments[headers_of(batches[0])[0].base_offset] = b"".join(batches)


def _segments(folder: Folder) -> dict[int, bytes]:
    return {each.base: folder.read(each.base) for each in folder.segments}


def compare(job: Job, theirs: dict[int, bytes], next_dirty: int) -> int:
    """Compact, and compare with what Kafka left; returns how many batches that are.

    Raises DifferenceError.
    """
    folder = job.folder()
    folder.compact(job.now_ms)
    if folder.first_dirty != next_dirty:
        raise DifferenceError(f"first dirty offset {folder.first_dirty}, Kafka's {next_dirty}")
    ours = _segments(folder)
    if ours.keys() != theirs.keys():
        raise DifferenceError(f"segments {ours.keys()}, Kafka's {theirs.keys()}")
    their_batches = list(_batches(b"".join(theirs.values())))
    _compare(list(_comparable(folder, their_batches)), their_batches)
    return len(their_batches)


Batch = tuple[BatchHeader, bytes]


def _batches(data: bytes) -> Iterator[Batch]:
    for header in headers_of(data):
        yield header, data[header.position : header.end]


def _comparable(ours: Folder, theirs: list[Batch]) -> Iterator[Batch]:
    """Our batches, but those that only we keep on purpose."""
    kept = {header.base_offset for header, _ in theirs}
    for segment in ours.segments:
        batches = list(_batches(ours.read(segment.base)))
        for header, data in batches:
            is_last = header is batches[-1][0]
            on_purpose = not header.record_count and (header.is_control or is_last)
            if header.base_offset in kept or not on_purpose:
                yield header, data


def _compare(ours: list[Batch], theirs: list[Batch]) -> None:
    for (header, mine), (their_header, their) in zip(ours, theirs, strict=False):
        if mine == their:
            continue
        told, their_told = _told(header, mine), _told(their_header, their)
        if told != their_told:
            raise DifferenceError(f"ours  {told}\nKafka {their_told}")
        if not header.codec:
            raise DifferenceError(f"ours  {mine.hex()}\nKafka {their.hex()}")
    if len(ours) != len(theirs):
        more = [_told(*each) for each in (ours + theirs)[min(len(ours), len(theirs)) :]]
        raise DifferenceError(f"{len(ours)} batches, Kafka has {len(theirs)}: {more}")


def _told(header: BatchHeader, data: bytes) -> dict[str, object]:
    """A batch without what a compressor decides."""
    [whole] = headers_of(data)
    fields: dict[str, object] = {
        name: getattr(header, name)
        for name in BatchHeader.__slots__
        if name not in {"position", "size", "crc"}
    }
    return {**fields, "records": list(decode_records(data, whole))}
