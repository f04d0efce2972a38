"""Recovery points: opening a log begins to scan its last segment there, not at its first byte.

Theory of operation. A scan yields three things: that the bytes are sound, the indexes, and the
leader epochs. A recovery point says up to some byte what they were: the checksum of the bytes, and
one of what the index files and the epoch file had. It comes with every mark. If both files are as
they were then, and the bytes as well, nothing is left to scan before it; if not, the segment is
scanned as a whole, which tells what is damaged. Comparing a checksum costs a hundredth of a scan.

The files grow by whole entries, and older points stay true: so neither is synced, and a crash may
leave files that are newer than the point. Nothing depends on a recovery point but the time that a
start takes.

Source: Kafka's recovery-point-offset-checkpoint and LogLoader.recoverLog.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import parent_of
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.segment import Segment, Stand
from groupkeeper.storage.recovery.marks import RecoveryPoint


def make_point(stand: Stand, epochs: EpochFile) -> None:
    """Make a recovery point of the end of a segment, on any thread. Does nothing if that fails, or
    if a scan would find fault with the segment.
    """
    crc = stand.segment.save_index(stand) if stand.size and not epochs.descends else None
    if crc is not None:
        check = epochs.checksum(stand.end, crc)
        point = RecoveryPoint(stand.size, stand.end, stand.crc, stand.indexes, check)
        stand.segment.point = point


def resume(
    segment: Segment, epochs: EpochFile, points: Iterable[RecoveryPoint], read_most: int
) -> RecoveryPoint | None:
    """Take over the indexes, epochs and checksum as of the first of some points that is right.

    None, and nothing has changed, if none is. What is before the point is compared if it is at most
    `read_most` bytes; if it is more, it is `unread`, and `compare` is still due.
    """
    for point in points:
        if point.size > segment.size:
            continue
        epochs.load(point.end)
        if not segment.resume_index(point, partial(epochs.checksum, point.end)):
            continue
        if point.size > read_most:
            segment.unread = point
        elif not segment.is_as_written(point.size, point.crc):
            segment.index.clear()
            break  # a scan tells what is damaged
        segment.point = point
        segment.crc = point.crc
        return point
    return None


def compare(segment: Segment) -> Iterator[None]:
    """Read what opening left unread of a segment, blocking. Yields after each piece.

    Raises Corrupt if it is damaged, and OSError. Then set the log to `failed` and close it: the
    next opening scans the segment, if it is still the last one, and tells what is damaged.
    """
    point = segment.unread
    if point is None:
        return
    found = 0
    for crc in segment.checksums(point.size):
        found = crc
        yield
    if found != point.crc:
        if segment.finished is None:
            segment.remove_index()
        raise Corrupt(
            f"{segment.path}: what is before byte {point.size} is damaged: "
            f"{remedy(parent_of(segment.path))}"
        )
    segment.unread = None
