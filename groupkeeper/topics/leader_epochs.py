"""Whether a client's idea of the leader epoch is ours (KIP-320). There is only one."""

from typing import Final

from groupkeeper.topics.partition import LEADER_EPOCH
from protocol.errors import ErrorCode

UNKNOWN_EPOCH: Final = -1
"""What a client sends that does not check epochs."""


def check_leader_epoch(current: int) -> ErrorCode:
    """NONE, or the error that makes the client refresh its metadata."""
    if current in (UNKNOWN_EPOCH, LEADER_EPOCH):
        return ErrorCode.NONE
    if current < LEADER_EPOCH:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH
