"""One step of the state machine: the inputs besides the request, and all outputs.

Handlers receive the step as an out-parameter, so that they compose by being called. A step has no
effect by itself: the driver of the partition writes its records, sends its replies and hands its
facts to readers (`coordinator.partition`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Deadlines, Timer
from groupkeeper.coordinator.facts import Fact, NotedFact
from groupkeeper.coordinator.stalls import Stalls
from groupkeeper.protocol.errors import ErrorCode
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


@dataclass(slots=True)
class GroupConfigs:
    """The configs that are set for a group."""

    error_code: ErrorCode = ErrorCode.NONE
    configs: Mapping[str, str] = field(default_factory=dict)


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
    | GroupConfigs
)
"""The responses to group requests."""

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a log record; None as value is a tombstone."""

RECORD_OVERHEAD = 20
"""Upper bound of the bytes that a record batch adds per small record."""

BATCH_OVERHEAD = 61
"""The bytes of a record batch without records."""

PREFIX_BYTES = 255
"""The most bytes of a client or instance id, in UTF-8, that a member id begins with."""


def size_of(records: Sequence[KeyValue]) -> int:
    """Upper bound of the bytes that records take as a batch."""
    size = BATCH_OVERHEAD + RECORD_OVERHEAD * len(records)
    for key, value in records:
        size += len(key) + len(value or b"")
    return size


@dataclass(slots=True)
class Step:
    """The inputs of a decision, and its outputs: `replies`, `records` and `facts`."""

    now: int
    """Monotonic milliseconds: for deadlines."""
    wall: int
    """Unix milliseconds: for what is written."""
    config: GroupConfig
    deadlines: Deadlines
    make_member_id: Callable[[str], str]
    """Makes `<prefix>-<uuid>`."""
    pending: dict[Timer, None]
    """The partition's pending ids, by their timers, in the order they were handed out."""
    stalls: Stalls
    """The times in which the partition could not answer."""
    partition_counts: Mapping[str, int]
    """Number of partitions by topic."""
    replies: list[tuple[ReplyTo, GroupResponse]] = field(default_factory=list)
    """While the handler runs, the answers to this request and to others that waited in members. In
    a step that `Partition` returned, only the answers that the driver may send now, in this order;
    the rest is returned by `Partition.written`."""
    records: list[KeyValue] = field(default_factory=list)
    """Records to append to the partition's log, in this order. `Partition` moves them to its queue,
    for `Partition.take`, so that a returned step has none."""
    facts: list[Fact] = field(default_factory=list)
    """Facts in order of occurrence. Not for readers: see `told`."""
    told: Sequence[NotedFact] = ()
    """The facts that readers may see now: all facts of the step, or none while records before them
    are not durable; then `Partition.written` returns them."""
    size: int = BATCH_OVERHEAD
    """Upper bound of the bytes that the records take as a batch."""
    cuts: tuple[int, ...] = ()
    """Indexes of the records at which a new batch begins, as one batch would be too large."""
    size_before: int = 0
    """The part of `size` that belongs to batches before the last."""

    def new_member_id(self, prefix: str) -> str:
        """Make a member id that begins with the prefix, cut to PREFIX_BYTES."""
        if len(prefix) > PREFIX_BYTES // 4:  # only then can it be too long
            prefix = prefix.encode()[:PREFIX_BYTES].decode(errors="ignore")
        return self.make_member_id(prefix)

    def reply(self, reply_to: ReplyTo, response: GroupResponse) -> None:
        """Answer a request. The reply leaves when the records written before it are durable."""
        self.replies.append((reply_to, response))

    def append(self, key: bytes, value: bytes | None) -> None:
        """Write a record. Of a step too large for one batch, a crash may lose the last ones."""
        size = RECORD_OVERHEAD + len(key) + len(value or b"")
        if self.records and self.size - self.size_before + size > self.config.message_max_bytes:
            self.cuts += (len(self.records),)
            self.size_before = self.size - BATCH_OVERHEAD
        self.records.append((key, value))
        self.size += size

    def batches(self) -> list[tuple[list[KeyValue], int]]:
        """Return the records of each batch, with their `size_of`."""
        bounds = pairwise([0, *self.cuts, len(self.records)])
        batches = [self.records[begin:end] for begin, end in bounds]
        return [(records, size_of(records)) for records in batches]

    def write(self, records: list[KeyValue], size: int) -> None:
        """Write records that have to stay in one batch, of which `size_of` is `size`."""
        self.records += records
        self.size += size - BATCH_OVERHEAD

    def note(self, fact: Fact) -> None:
        """Note a fact. Readers see it when the records written before it are durable."""
        self.facts.append(fact)
