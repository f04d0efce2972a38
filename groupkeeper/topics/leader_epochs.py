"""Leader epochs (KIP-101, KIP-320): checks a client's epoch, and finds where earlier epochs ended.

A partition of an ordinary topic stays in the epoch of the catalog; a partition of the group topic
gets a new epoch with every start of the server that writes to it.
Source: Kafka's `Partition.checkCurrentLeaderEpoch` and `LeaderEpochFileCache.endOffsetFor`.
"""

from bisect import bisect_right
from typing import Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics.partition import TopicPartition

UNKNOWN_EPOCH: Final = -1
"""Sent by clients that do not check epochs, and returned where no epoch is known."""

UNKNOWN_END: Final = (UNKNOWN_EPOCH, -1)


def check_leader_epoch(partition: TopicPartition, current: int) -> ErrorCode:
    """Return NONE, or the error that makes the client refresh its metadata."""
    if current in (UNKNOWN_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    if current < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def epoch_at(partition: TopicPartition, offset: int) -> int:
    """Return the epoch of the record at an offset; at the end of the log, the newest epoch."""
    starts = _starts(partition)
    older = bisect_right(starts, offset, key=lambda entry: entry[1])
    return starts[max(older - 1, 0)][0]


def end_of_epoch(partition: TopicPartition, epoch: int) -> tuple[int, int]:
    """Return the newest epoch that is not newer than the given one, and its end offset (exclusive).

    `UNKNOWN_END` for an epoch newer than all; an epoch older than all is returned itself, and ends
    where the log begins.
    """
    starts = _starts(partition)
    newer = bisect_right(starts, epoch, key=lambda entry: entry[0])
    if epoch == UNKNOWN_EPOCH:
        return UNKNOWN_END
    if newer < len(starts):
        known = starts[newer - 1][0] if newer else epoch
        return known, starts[newer][1]
    if starts[-1][0] == epoch:
        return epoch, 0 if partition.log is None else partition.log.next_offset
    return UNKNOWN_END


def _starts(partition: TopicPartition) -> list[tuple[int, int]]:
    """Return the epochs with their first offsets, including the current one; at least one."""
    log, current = partition.log, partition.leader_epoch
    if log is None:
        return [(current, 0)]
    starts = [(epoch, max(start, log.start_offset)) for epoch, start in log.epochs]
    if starts and starts[-1][0] < current:
        starts.append((current, log.next_offset))
    return starts or [(current, log.start_offset)]
