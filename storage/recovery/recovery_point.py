"""Recovery points: where the scan of a log's last segment may begin, instead of at its first byte.

Theory of operation. A scan verifies the bytes, and yields the indexes and the leader epochs. A
recovery point holds their state as of some byte: the checksum of the bytes, and one of the contents
of the index files and the epoch file. It is part of every mark. If both files and the bytes still
match, nothing before the point is left to scan; if not, the whole segment is scanned to locate the
damage. Comparing a checksum costs a hundredth of a scan.

The files grow by whole entries, and older points stay true: so neither is synced, and a crash may
leave files that are newer than the point. A recovery point only affects how long a start takes.

Source: Kafka's recovery-point-offset-checkpoint and LogLoader.recoverLog.
"""

from collections.abc import Iterable
from functools import partial

from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.segment import Segment, Stand
from groupkeeper.storage.recovery.marks import RecoveryPoint


def make_point(stand: Stand, epochs: EpochFile) -> None:
    """Make a recovery point of the end of a segment. Thread-safe. Does nothing if that fails, or if
    a scan would find fault with the segment.
    """
    crc = stand.segment.save_index(stand) if stand.size and not epochs.descends else None
    if crc is not None:
        check = epochs.checksum(stand.end, crc)
        point = RecoveryPoint(stand.size, stand.end, stand.crc, stand.indexes, check)
        stand.segment.point = point


def resume(
    segment: Segment, epochs: EpochFile, points: Iterable[RecoveryPoint], read_most: int
) -> RecoveryPoint | None:
    """Restore indexes, epochs and checksum from the first matching recovery point, or return None.

    Bytes before the point are compared if they are at most `read_most`; otherwise they become
    `unread`.
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
            break  # a scan locates the damage
        segment.point = point
        segment.crc = point.crc
        return point
    return None
