"""One turn of the state machine: what goes in besides the request, and everything that comes out.

Handlers receive a step as an out-parameter, so that they compose by being called. A step performs
nothing: replies are sent, records are written and facts are read by whoever drives the partition.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Deadlines, Timer
from groupkeeper.coordinator.facts import Fact, NotedFact
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsResponse
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsResponse
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupResponse
from groupkeeper.protocol.messages.list_groups import ListGroupsResponse
from groupkeeper.protocol.messages.offset_commit import OffsetCommitResponse
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteResponse
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchResponse
from groupkeeper.protocol.messages.sync_group import SyncGroupResponse

GroupResponse: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)
"""What a group request is answered with."""

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a log record; None as value is a tombstone."""

RECORD_OVERHEAD = 20
"""Upper bound of the bytes that a record batch adds per small record."""

BATCH_OVERHEAD = 61
"""The bytes of a record batch without records."""

PREFIX_BYTES = 255
"""So much of a client or instance id, in UTF-8, a member id begins with: it is kept for long."""


def size_of(records: Sequence[KeyValue]) -> int:
    """Upper bound of the bytes that records take as a batch."""
    size = BATCH_OVERHEAD + RECORD_OVERHEAD * len(records)
    for key, value in records:
        size += len(key) + len(value or b"")
    return size


@dataclass(slots=True)
class Step:
    """The time it is, what may be consulted, and what came of it."""

    now: int
    """Monotonic milliseconds: for deadlines."""
    wall: int
    """Unix milliseconds: for what is written."""
    config: GroupConfig
    deadlines: Deadlines
    make_member_id: Callable[[str], str]
    """Makes `<prefix>-<uuid>`."""
    pending: dict[Timer, None]
    """The partition's pending ids, by their timers and in the order they were handed out."""
    replies: list[tuple[ReplyTo, GroupResponse]] = field(default_factory=list)
    records: list[KeyValue] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    told: Sequence[NotedFact] = ()
    """Those of the facts that readers may be told now; the gate says so, at the step's end."""
    size: int = BATCH_OVERHEAD
    """Upper bound of the bytes that the records take as a batch."""
    cuts: tuple[int, ...] = ()
    """Places among the records where a batch ends: together they would be too large for one."""
    size_before: int = 0
    """What of the size is that of batches before the last."""

    def new_member_id(self, prefix: str) -> str:
        """An id nobody has, beginning with at least the first characters of the prefix."""
        if len(prefix) > PREFIX_BYTES // 4:  # only then can it be too long
            prefix = prefix.encode()[:PREFIX_BYTES].decode(errors="ignore")
        return self.make_member_id(prefix)

    def reply(self, reply_to: ReplyTo, response: GroupResponse) -> None:
        """Answer a request. It leaves when the records written before it are durable."""
        self.replies.append((reply_to, response))

    def append(self, key: bytes, value: bytes | None) -> None:
        """Write a record that does not need the others of the step: a crash may leave some of them
        out, the last first.
        """
        size = RECORD_OVERHEAD + len(key) + len(value or b"")
        if self.records and self.size - self.size_before + size > self.config.message_max_bytes:
            self.cuts += (len(self.records),)
            self.size_before = self.size - BATCH_OVERHEAD
        self.records.append((key, value))
        self.size += size

    def batches(self) -> list[tuple[list[KeyValue], int]]:
        """The records as they may be torn, with their `size_of`."""
        bounds = pairwise([0, *self.cuts, len(self.records)])
        batches = [self.records[begin:end] for begin, end in bounds]
        return [(records, size_of(records)) for records in batches]

    def write(self, records: list[KeyValue], size: int) -> None:
        """Write several records that belong together, of which `size_of` is known."""
        self.records += records
        self.size += size - BATCH_OVERHEAD

    def note(self, fact: Fact) -> None:
        """Note what happened. Readers are told when the records written before it are durable."""
        self.facts.append(fact)
