"""What a log holds: records and, of `__consumer_offsets`, groups, members and offsets."""

from collections.abc import Callable
from dataclasses import dataclass

from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.repair.logs import is_of_groups
from groupkeeper.storage.log import Log

Progress = Callable[[str, int], None]
"""Called with the name of a log and how many more bytes of it were read."""


@dataclass
class Contents:
    """What a log holds."""

    first: int
    """Its first offset."""
    end: int
    """The offset after its last one."""
    batches: int = 0
    records: int = 0
    """Without control records."""
    groups: int = 0
    members: int = 0
    offsets: int = 0
    """Committed offsets of all groups."""
    next_producer_id: int = 0
    """Larger than the ids of all producers in it."""
    last_epoch: int = 0
    """The newest leader epoch in it."""


def read_contents(log: Log, progress: Progress) -> Contents:
    """Read a log; groups are built from it as a server builds them.

    Raises Corrupt, and CorruptBatch and DecodeError for records that no server can load.
    """
    found = Contents(log.start_offset, log.next_offset)
    replay, groups = Replay(), Groups()
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            found.batches += 1
            found.last_epoch = max(found.last_epoch, header.leader_epoch)
            found.next_producer_id = max(found.next_producer_id, header.producer_id + 1)
            if not header.is_control:
                found.records += header.record_count
        if is_of_groups(log.name):
            replay.take(chunk)
        progress(log.name, len(chunk))
    for _ in replay.restore(groups):
        pass
    found.groups = len(groups)
    found.members = sum(len(group.members) for group in groups.values())
    found.offsets = sum(len(each) for group in groups.values() for each in group.offsets.values())
    return found
