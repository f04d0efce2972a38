"""What happened to the groups, as small values that readers turn into metrics, logs and events.

The core notes facts and never reads them, so a new metric or log line touches no decision. A fact
carries no time: its envelope, `NotedFact`, has the time of its step.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.causes import Cause, Who


@dataclass(slots=True)
class Fact:
    """Something that happened to one group."""

    group: str
    generation: int
    """The generation after the fact."""
    state: str
    """The state after the fact, as DescribeGroups names it."""


@dataclass(slots=True)
class NotedFact:
    """A fact with its order and time. The driver adds the partition and its leader epoch."""

    order: int
    """Counts the facts of a partition's life from 0. With the leader epoch it orders all facts of a
    partition; the facts of one epoch reach readers without a gap before the last."""
    now: int
    """Monotonic milliseconds of the step: for durations within a partition's life."""
    wall: int
    """Unix milliseconds of the step."""
    with_records: bool
    """The step wrote records: the fact is stored with them, or not at all."""
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
    """Another cause while the join phase was under way."""

    cause: Cause


@dataclass(slots=True)
class RebalanceJoined(Fact):
    """The join phase ended with a new generation; its leader was asked for the assignments."""

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
    """The last member left or was removed."""

    cause: Cause


@dataclass(slots=True)
class GroupDeleted(Fact):
    """The group was deleted: by DeleteGroups, or with its last expired offset (`expired`)."""

    expired: bool


@dataclass(slots=True)
class GroupDropped(Fact):
    """A group without members was dropped that never had an assignment or an offset."""


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
    """A request was refused because another member holds its instance id: FENCED_INSTANCE_ID."""

    who: Who
    api: str
    current_member: str


@dataclass(slots=True)
class MemberRemoved(Fact):
    """A member left or was removed. Pending ids were never members: `PendingMemberDropped`."""

    who: Who
    cause: Cause


@dataclass(slots=True)
class PendingMemberDropped(Fact):
    """A member id was handed out (KIP-394), not used in time, and dropped."""

    member: str
    expired: bool
    """It timed out; otherwise the partition had too many of them."""


@dataclass(slots=True)
class LimitReached(Fact):
    """A request was refused, or something was dropped, because of a limit."""

    limit: str
    """The limit's name in the code or the settings."""
    most: int
    who: Who


@dataclass(slots=True)
class OffsetsCommitted(Fact):
    """Offsets were accepted; they are acknowledged once durable."""

    offsets: int


@dataclass(slots=True)
class OffsetsRemoved(Fact):
    """Offsets were removed: by OffsetDelete, DeleteGroups, with their topic, or by expiry."""

    offsets: int
    expired: bool


@dataclass(slots=True)
class GroupsLoaded(Fact):
    """A partition was loaded; `group` is empty, the figures are for the whole partition."""

    records: int
    groups: int
    members: int
    offsets: int
