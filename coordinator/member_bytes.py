"""The memory that members of groups take, over all partitions that share a total.

An estimate: data whose size clients choose is counted in bytes, everything else as a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol

MAX_MEMBER_BYTES: Final = 256 * 1024 * 1024
"""For the members of all groups of a process. A JoinGroup beyond it is refused with
COORDINATOR_NOT_AVAILABLE, upon which clients retry; existing members stay."""

MAX_PLANNED_BYTES: Final = 384 * 1024 * 1024
"""The same, including the assignments that a leader hands in. It is larger, so that members that
could join also get an assignment."""

MEMBER_BYTES: Final = 2_000
"""A member without its names and data: the object, its timers, its place in the group."""
PROTOCOL_BYTES: Final = 200
"""A protocol without its name and metadata."""
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
    """Whether it is part of the total: not before the partition is active, which threads load."""

    def add(self, size: int) -> None:
        """Count so many more bytes, or fewer."""
        self.used += size
        if self.counts:
            self.total.used += size

    def count(self) -> None:
        """The partition becomes active."""
        self.counts = True
        self.total.used += self.used

    def may_join(self, more: int) -> bool:
        """Whether so many more bytes fit; 0 and less always do."""
        return more <= 0 or self.total.used + more <= self.total.most

    def may_assign(self, more: int) -> bool:
        """The same for assignments."""
        return more <= 0 or self.total.used + more <= self.total.most_planned

    def give_back(self) -> None:
        """The partition closes, and with it its members go."""
        self.add(-self.used)
        self.counts = False


def bytes_of(protocols: Sequence[JoinGroupRequestProtocol]) -> int:
    """What the protocols take that a member offers."""
    size = PROTOCOL_BYTES * len(protocols)
    for each in protocols:
        size += len(each.name) + len(each.metadata)
    return size
