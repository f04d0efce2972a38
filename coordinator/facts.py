"""What happened to the groups, as small values that readers turn into metrics, logs and events.

The core notes facts and never looks at them again; adding a metric or a log line never touches a
decision. A fact carries no time: its envelope, :class:`NotedFact`, has that of its step.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.causes import Cause, Who


@dataclass(slots=True)
class Fact:
    """Something that happened to one group."""

    group: str
    generation: int
    """Generation after the fact."""
    state: str
    """State after the fact, in DescribeGroups' words."""


@dataclass(slots=True)
class NotedFact:
    """A fact in its envelope. Whoever hands it on knows the partition and its leader epoch."""

    order: int
    """Rises by one per fact of a partition's life, from 0. With the epoch it orders all facts of a
    partition; of those of one epoch that anybody is told of, none is missing before the last."""
    now: int
    """Monotonic milliseconds of the step: for durations within a partition's life."""
    wall: int
    """Unix milliseconds of the step."""
    with_records: bool
    """The step wrote records, and the fact was handed out together with them."""
    fact: Fact


@dataclass(slots=True)
class GroupCreated(Fact):
    """A group id was seen for the first time."""


@dataclass(slots=True)
class RebalanceStarted(Fact):
    """A join phase began."""

    cause: Cause
    from_state: str
    members: int
    deadline_ms: int
    """How long the join phase may take."""


@dataclass(slots=True)
class RebalanceCauseAdded(Fact):
    """A further trigger while the join phase was already under way."""

    cause: Cause


@dataclass(slots=True)
class RebalanceJoined(Fact):
    """The join phase is over: there is a new generation, and its leader was asked for a plan."""

    leader: str
    protocol: str
    members: int
    missing: int
    """Static members that did not rejoin and were kept."""
    duration_ms: int


@dataclass(slots=True)
class RebalanceCompleted(Fact):
    """The leader's assignment was accepted; the group is Stable once it is durable."""

    members: int
    duration_ms: int
    """From the start of the join phase."""


@dataclass(slots=True)
class GroupEmptied(Fact):
    """The last member is gone."""

    cause: Cause


@dataclass(slots=True)
class GroupDeleted(Fact):
    """The group and its offsets are gone: DeleteGroups, or expiry (``expired``)."""

    expired: bool


@dataclass(slots=True)
class GroupDropped(Fact):
    """The group never had an assignment or an offset, and nobody is there who might want one."""


@dataclass(slots=True)
class MemberJoined(Fact):
    """A member was added."""

    who: Who
    cause: Cause


@dataclass(slots=True)
class MemberReplaced(Fact):
    """A static member came back under a new member id (KIP-345)."""

    who: Who
    old_member: str
    quick: bool
    """Answered at the current generation, without a rebalance."""


@dataclass(slots=True)
class MemberFenced(Fact):
    """A request in the name of an instance id that somebody else holds now: FENCED_INSTANCE_ID."""

    who: Who
    api: str
    current_member: str


@dataclass(slots=True)
class MemberRemoved(Fact):
    """A member is no longer part of the group."""

    who: Who
    cause: Cause


@dataclass(slots=True)
class PendingMemberDropped(Fact):
    """A member id that was handed out (KIP-394) and never used is not waited for any longer."""

    member: str
    expired: bool
    """Its time was over; otherwise there were too many."""


@dataclass(slots=True)
class LimitReached(Fact):
    """Something was refused, or given up, because there would have been too much of it."""

    limit: str
    """Its name in ``coordinator.config``."""
    most: int
    who: Who


@dataclass(slots=True)
class OffsetsCommitted(Fact):
    """Offsets were accepted; they are acknowledged once durable."""

    offsets: int


@dataclass(slots=True)
class OffsetsRemoved(Fact):
    """Offsets were deleted: OffsetDelete, DeleteGroups, a deleted topic, or expiry."""

    offsets: int
    expired: bool


@dataclass(slots=True)
class GroupsLoaded(Fact):
    """A partition was replayed; ``group`` is empty, the figures are for the whole partition."""

    records: int
    groups: int
    members: int
    offsets: int
