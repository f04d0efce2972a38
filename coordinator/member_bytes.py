"""What the members of groups take of the memory, over all partitions that share a total.

More or less: what clients choose the size of is counted in bytes, all else as a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol

MAX_MEMBER_BYTES: Final = 256 * 1024 * 1024
"""Of the members of all groups of a process. A JoinGroup beyond is refused with
COORDINATOR_NOT_AVAILABLE, upon which clients try again; whoever is there already stays."""

MAX_PLANNED_BYTES: Final = 384 * 1024 * 1024
"""The same with a plan that a leader hands in. More, so that who could join gets an assignment."""

MEMBER_BYTES: Final = 2_000
"""Of a member without its names and data: it, its timers, its place in the group."""
PROTOCOL_BYTES: Final = 200
"""Of a protocol without its name and metadata."""
COPIES: Final = 2
"""An assignment is in the member and in the record of the group."""


@dataclass(slots=True)
class Total:
    """What all partitions of a process count together."""

    most: int = MAX_MEMBER_BYTES
    most_planned: int = MAX_PLANNED_BYTES
    used: int = 0


@dataclass(slots=True)
class MemberBytes:
    """What the members of one partition take."""

    total: Total = field(default_factory=Total)
    used: int = 0
    counts: bool = False
    """In the total: from when the partition is active, as it may be loaded in another thread."""

    def add(self, size: int) -> None:
        """So many more, or fewer."""
        self.used += size
        if self.counts:
            self.total.used += size

    def count(self) -> None:
        """The partition becomes active."""
        self.counts = True
        self.total.used += self.used

    def may_join(self, more: int) -> bool:
        """Is there room for so many more? Who needs no more than before has it in any case."""
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
    return sum(PROTOCOL_BYTES + len(each.name) + len(each.metadata) for each in protocols)
