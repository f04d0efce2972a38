"""Soft state of a group: data about phases, answers and plans in progress, lost at a failover."""

from collections.abc import Container
from dataclasses import dataclass, field
from enum import Enum, auto

from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.subscription import SubscribedTopics
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.sync_group import SyncGroupRequestAssignment


@dataclass(slots=True)
class Late:
    """Removal, in several steps, of the members that sent no request before the end of a phase."""

    code: CauseCode
    """Cause of the removal."""
    began_ms: int
    """Start of the phase, monotonic."""
    rebalance_timeout_ms: int
    """The longest rebalance timeout of the members at the end of the phase."""
    removed: list[str] = field(default_factory=list)
    """Ids of the members that were removed."""


@dataclass(slots=True)
class Expelled:
    """Members yet to be removed because they did not sync in time in the previous phase."""

    phase: Late
    left: list[str]
    """Ids of these members, the next one last. Some may leave or be replaced before."""


class AnswerKind(Enum):
    """Kinds of answers to members that waited together."""

    JOINED = auto()
    """To JoinGroup: the new generation."""
    ASSIGNED = auto()
    """To SyncGroup: the assignment."""
    WITHDRAWN = auto()
    """To SyncGroup: an error, because another rebalance begins. Assignments are cleared."""


@dataclass(slots=True)
class PendingAnswers:
    """Members whose requests are decided, and whose answers take several steps."""

    kind: AnswerKind
    left: list[Member]
    """Members to answer, the next one last; some may be removed meanwhile."""
    error: ErrorCode = ErrorCode.NONE
    """Error of the kind WITHDRAWN."""
    decided: Container[str] = ()
    """For WITHDRAWN: ids of members of the generation that have not synced."""
    topics: SubscribedTopics | None = None
    """For JOINED: the topics of the members answered so far."""
    leader_first: bool = False
    """For JOINED in a large group: the next step answers the leader and no other member."""


@dataclass(slots=True)
class Plan:
    """The assignments of a leader while the records of the members are made, in several steps."""

    caller: Caller
    """Sender of the leader's SyncGroup."""
    unread: list[SyncGroupRequestAssignment]
    """Assignments that are not in `shares` yet, the next one last."""
    left: list[Member]
    """Members without a record, the next one last."""
    shares: dict[str, bytes] = field(default_factory=dict)
    """Member id to assignment, as the leader sent them."""
    given: list[bytes] = field(default_factory=list)
    """Assignments of the members that have a record, in the order of the members. The order stays:
    a member that joins or leaves starts another rebalance, and this plan is dropped."""
    records: dict[str, bytes] = field(default_factory=dict)
    """Member id to its part of the group's record."""
    pieces: list[bytes] = field(default_factory=list)
    """The values of `records`, joined per step: joining 10,000 at once takes a millisecond."""
    size: int = 0
    """Bytes of the records."""
    growth: int = 0
    """Bytes of memory that the assignments take in addition to the previous ones."""
    assignments: list[tuple[str, str | None, bytes]] = field(default_factory=list)
    """As in `RebalanceCompleted`."""
    previous: dict[str, bytes] = field(default_factory=dict)
    """As in `RebalanceCompleted`."""


@dataclass(slots=True)
class Rebalance:
    """The rebalance under way, or the last one."""

    cause: Cause
    started_ms: int
    initial_delay: bool = False
    """The group was Empty, and waits for more members (KIP-134)."""
    delay_ms: int = 0
    """The length of the current part of the initial delay."""
    delay_left_ms: int = 0
    """How much longer the delay may last, by the first member's rebalance timeout."""
    newcomers: bool = False
    """A member joined during the current part of the delay."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """Time of each member's first JoinGroup, in ms since the start, until the plan is stored."""
    joined_ms: int = 0
    """End of the join phase, monotonic."""
    late: Late | None = None
    """Set when the time for joining is up."""
    held: tuple[int, int] | None = None
    """Begin of the last stall of the coordinator in this phase, and how much of the time for
    joining, or for the leader's assignments, was left then."""
    expelled: "Expelled | None" = None
    """Members to be removed before the join phase can end."""
    plan: Plan | None = None
    """Set while a leader's assignments take several steps."""


@dataclass(slots=True)
class Returning:
    """Members of a loaded group that have sent no request since the load."""

    unheard: dict[str, None]
    lost: list[Who] = field(default_factory=list)
    """Members that were removed without having sent one."""


@dataclass(slots=True)
class Outsider:
    """The client that committed last for an Empty group, without being a member of it."""

    peer: Peer
    committed_ms: int
