"""The memory that members of groups take, over all partitions that share a total.

An estimate: data whose size clients choose is counted in bytes, everything else as a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol

MAX_MEMBER_BYTES: Final = 256 * 1024 * 1024
"""Limit for the members of all groups of a process. A JoinGroup beyond it is refused with
COORDINATOR_NOT_AVAILABLE, upon which clients retry; existing members stay."""

MAX_PLANNED_BYTES: Final = 384 * 1024 * 1024
"""Limit that includes the assignments sent by leaders. It is larger, so that members that could
join also get an assignment."""

MEMBER_BYTES: Final = 2_000
"""Bytes of a member without its names and data: the object, its timers, its place in the group."""
PROTOCOL_BYTES: Final = 200
"""Bytes of a protocol without its name and metadata."""
COPIES: Final = 2
"""An assignment is kept in the member and in `Group.member_records`."""


@dataclass(slots=True)
class Total:
    """The count of all partitions of a process."""

    most: int = MAX_MEMBER_BYTES
    most_planned: int = MAX_PLANNED_BYTES
    used: int = 0


@dataclass(slots=True)
class MemberBytes:
    """The count of one partition."""

    total: Total = field(default_factory=Total)
    used: int = 0
    counts: bool = False
    """Whether this count is part of the total: only after the partition is active, as threads load
    it."""

    def add(self, size: int) -> None:
        """Add to the count, or subtract from it."""
        self.used += size
        if self.counts:
            self.total.used += size

    def count(self) -> None:
        """Add the count to the total: the partition becomes active."""
        self.counts = True
        self.total.used += self.used

    def may_join(self, more: int) -> bool:
        """Return whether so many more bytes fit; 0 and less always do."""
        return more <= 0 or self.total.used + more <= self.total.most

    def may_assign(self, more: int) -> bool:
        """Return whether so many more bytes of assignments fit; 0 and less always do."""
        return more <= 0 or self.total.used + more <= self.total.most_planned

    def give_back(self) -> None:
        """Remove the count from the total: the partition closes."""
        self.add(-self.used)
        self.counts = False


def bytes_of(protocols: Sequence[JoinGroupRequestProtocol]) -> tuple[int, int]:
    """Return the bytes of the metadata that a member offers, and of all its protocols."""
    names = metadata = 0
    for each in protocols:
        names += len(each.name)
        metadata += len(each.metadata)
    return metadata, PROTOCOL_BYTES * len(protocols) + names + metadata
