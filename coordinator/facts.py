"""Facts: small values that say what happened to groups, for metrics, logs and events.

The core notes facts and never reads them, so a new metric or log line touches no decision. A fact
carries no time: its envelope, `NotedFact`, has the time of its step. A fact that is noted often
refers to objects of the core, and readers extract from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.stalls import StallKind


@dataclass(slots=True)
class Fact:
    """Something that happened to one group."""

    is_event: ClassVar[bool] = True
    """Stored as an event of its own. Other facts are only summed up or counted."""

    group: str
    generation: int
    """The generation after the fact."""
    state: str
    """The state after the fact, as DescribeGroups names it."""
    round: int
    """Number of the rebalance within the group, from 1; 0 outside of a rebalance."""


@dataclass(slots=True)
class NotedFact:
    """A fact with its order and time. The driver adds the partition and its leader epoch."""

    order: int
    """Counts the facts of a partition's life from 0. With the leader epoch it orders all facts of a
    partition; the facts of one epoch reach readers without a gap before the last."""
    now: int
    """Monotonic milliseconds of the step, for durations within a partition's life."""
    wall: int
    """Unix milliseconds of the step."""
    with_records: bool
    """The step wrote records: the fact is stored with them, or not at all."""
    fact: Fact


# -- rebalances ----------------------------------------------------------------------------------


@dataclass(slots=True)
class RebalanceStarted(Fact):
    """A join phase began."""

    cause: Cause
    from_state: str
    members: int
    expected: Sequence[str]
    """Ids of the members that still have to rejoin."""
    deadline_ms: int
    """Longest duration of the join phase."""


@dataclass(slots=True)
class RebalanceCauseAdded(Fact):
    """Another cause while the join phase was under way."""

    cause: Cause


@dataclass(slots=True)
class RebalanceJoined(Fact):
    """The join phase ended with a new generation; its leader was asked for the assignments."""

    leader: str
    protocol_type: str
    protocol: str
    members: int
    duration_ms: int
    joined: Sequence[tuple[str, str | None, int]]
    """Member id, instance id and milliseconds since the start, in the order of arrival."""
    missing: Sequence[tuple[str, str | None, bool]]
    """Members that did not rejoin: member id, instance id, and whether the member was removed."""
    ended_by: str
    """`all_joined` or `timeout`."""


@dataclass(slots=True)
class RebalanceCompleted(Fact):
    """The leader's assignment was accepted; the group is Stable once it is durable."""

    members: int
    duration_ms: int
    """From the start of the join phase."""
    leader_ms: int
    """From the end of the join phase."""
    protocol_type: str
    protocol: str
    assignments: Sequence[tuple[str, str | None, bytes]]
    """Member id, instance id and assignment as it is stored."""
    previous: Mapping[str, bytes]
    """The assignments of the generation before, by member id; includes members that are gone."""
    arrivals: Mapping[str, int]
    """Time of each member's JoinGroup, in milliseconds since the start."""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    """Metadata for this protocol of a few members that had an assignment before and rejoined."""


@dataclass(slots=True)
class RebalanceAbandoned(Fact):
    """The rebalance ended without assignments."""

    why: str
    """`emptied` or `superseded`."""


# -- members -------------------------------------------------------------------------------------


@dataclass(slots=True)
class MemberJoined(Fact):
    """A member was added."""

    who: Who
    cause: Cause
    timeouts: tuple[int, int] | None = None
    """Session and rebalance timeout of the member, in ms."""


@dataclass(slots=True)
class MemberRejoined(Fact):
    """A member sent JoinGroup again; not noted in a join phase if nothing has changed."""

    who: Who
    changed: Sequence[str]
    """Names of what changed: `metadata`, `protocols`, `timeouts`."""
    timeouts: tuple[int, int] | None = None
    """As in `MemberJoined`."""


@dataclass(slots=True)
class MemberReplaced(Fact):
    """A static member came back under a new member id (KIP-345), or a client took the seat of a
    lost member, whose partitions were reserved.
    """

    who: Who
    old_member: str
    quick: bool
    """Answered at the current generation, without a rebalance."""
    away_ms: int
    """Milliseconds since the last request under the old id, or since the load."""
    likely: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    timeouts: tuple[int, int] | None = None
    """As in `MemberJoined`."""
    rhythm: tuple[int, int] | None = None
    """As in `MemberRemoved`, of the old id."""


@dataclass(slots=True)
class MemberFenced(Fact):
    """A request was refused because another member holds its instance id: FENCED_INSTANCE_ID."""

    who: Who
    api: str
    current_member: str
    current_host: str
    likely: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class MemberRemoved(Fact):
    """A member left or was removed. Pending ids were never members: `PendingMemberDropped`."""

    who: Who
    cause: Cause
    """Its `who` is the client that removed the member."""
    rhythm: tuple[int, int] | None = None
    """Number of heartbeats since the member joined or was loaded, and the longest gap between two,
    in ms."""


@dataclass(slots=True)
class SeatReserved(Fact):
    """A member was lost, or left, and its seat is kept, with its partitions."""

    who: Who
    cause: Cause
    """Why the member would have been removed."""
    assignment: bytes
    until_ms: int
    """How long the seats of the group last, in ms from now."""
    rhythm: tuple[int, int] | None = None
    """As in `MemberRemoved`."""


@dataclass(slots=True)
class RebalanceDeferred(Fact):
    """A newcomer was let in without partitions and without a rebalance."""

    who: Who
    cause: Cause
    """Of the rebalance that would have started."""
    policy: str
    """Name of the config that says so."""
    for_ms: int | None
    """Until the rebalance starts unless more newcomers come; None if it stands by."""


@dataclass(slots=True)
class AssignmentChanged(Fact):
    """The server gave partitions to members of a Stable group, or took some: no rebalance."""

    assignments: Sequence[tuple[str, str | None, bytes]]
    """As in `RebalanceCompleted`, of the members whose assignment has changed."""


@dataclass(slots=True)
class PolicyRefused(Fact):
    """Policies of the group do nothing, as its assignor keeps data of its own in assignments, or
    the group is none of consumers.
    """

    policies: Sequence[str]
    """Names of the configs."""
    protocol: str | None


@dataclass(slots=True)
class StandbyActivated(Fact):
    """A standby got the partitions of a member that was removed, without a rebalance."""

    who: Who
    old_member: str
    cause: Cause
    """Of the removal."""
    assignment: bytes
    silent_ms: int
    """How long nothing had come from the removed member."""


@dataclass(slots=True)
class PendingMemberDropped(Fact):
    """A member id was handed out (KIP-394), not used in time, and dropped."""

    who: Who
    cause: Cause
    expired: bool
    """True: timed out. False: the partition had too many pending ids."""
    of_used: bool = True
    """The group has had a member or a record. Nothing is stored of other groups."""


@dataclass(slots=True)
class MembersNotBack(Fact):
    """After a load, each member has sent a request or was removed; lists the removed ones."""

    absent: Sequence[Who]


@dataclass(slots=True)
class RequestRefused(Fact):
    """A stale request, or a JoinGroup for which the group has no room, was refused, with another
    error than FENCED_INSTANCE_ID.
    """

    who: Who
    api: str
    error: str


LimitName = Literal[
    "max_groups",
    "max_member_bytes",
    "max_metadata_bytes",
    "max_pending_members",
    "max_planned_bytes",
    "max_protocols",
    "max_unused_bytes",
    "message_max_bytes",
]
"""Limits of groups; each has a series of the counter `limits_reached` from the start."""


@dataclass(slots=True)
class LimitReached(Fact):
    """A request was refused, or something was dropped, because of a limit."""

    is_event: ClassVar[bool] = False

    limit: LimitName
    """The limit's name in the code or the settings."""
    most: int
    who: Who


# -- groups and offsets --------------------------------------------------------------------------


@dataclass(slots=True)
class GroupCreated(Fact):
    """A group gets its first member or record. Not noted for a group that is only looked up."""

    who: Who


@dataclass(slots=True)
class GroupEmptied(Fact):
    """The last member left or was removed."""

    cause: Cause


@dataclass(slots=True)
class GroupDeleted(Fact):
    """An Empty group was deleted, which may have records."""

    why: str
    """`request` (DeleteGroups), `expired` (its last offset), or `unused` (it had no offsets)."""
    who: Who | None
    """The sender of DeleteGroups."""


@dataclass(slots=True)
class ConfigsChanged(Fact):
    """Configs of a group that exists were changed."""

    who: Who
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(slots=True)
class OffsetsCommitted(Fact):
    """Offsets were accepted; they are acknowledged once durable."""

    is_event: ClassVar[bool] = False

    offsets: int
    member: str
    instance: str | None
    partitions: Sequence[tuple[str, Mapping[int, bytes]]] = field(repr=False)
    """The accepted offsets by topic: partitions with their OffsetCommitValue. Not the request,
    which may be large and name partitions that do not exist."""
    caller: Caller = field(repr=False)
    rhythm: tuple[int, int] | None = None
    """As in `MemberRemoved`, but the longest gap since the last commit; None if the sender is no
    member."""


@dataclass(slots=True)
class OffsetsReset(Fact):
    """A client that is no member committed offsets of one topic for an Empty group."""

    who: Who
    topic: str
    offsets: Sequence[tuple[int, bytes | None, bytes]]
    """Partition, and its OffsetCommitValue before and after; only the first ones if there are very
    many."""
    count: int
    """Number of partitions in the commit."""


@dataclass(slots=True)
class OffsetsRemoved(Fact):
    """Offsets were removed."""

    offsets: int
    why: str
    """`expired`, `request` (OffsetDelete), `group_deleted` or `topic_deleted`."""
    partitions: Mapping[str, Sequence[int]]
    who: Who | None
    """The sender of the request."""


@dataclass(slots=True)
class CoordinatorStalled(Fact):
    """The coordinator could not answer, or its wall clock was moved; `group` is empty."""

    what: StallKind
    duration_ms: int
    jump_ms: int | None = None
    """How far the wall clock was moved."""


@dataclass(slots=True)
class GroupsLoaded(Fact):
    """A partition was loaded; `group` is empty, and the figures are for the whole partition."""

    records: int
    groups: int
    members: int
    offsets: int
