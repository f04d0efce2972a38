"""What a group remembers while something is under way, and loses at a failover."""

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
    """The time of a phase is up: who did not send a request is removed, in several steps."""

    code: CauseCode
    """Why they are removed."""
    began_ms: int
    """When the phase began."""
    rebalance_timeout_ms: int
    """The longest of all members when the time was up."""
    removed: list[str] = field(default_factory=list)
    """The ids of those that were removed."""


@dataclass(slots=True)
class Expelled:
    """Members that did not sync in time in the phase before, and are not removed yet."""

    phase: Late
    left: list[str]
    """Their ids, the next one last. A member may leave, or be replaced, before its turn."""


class AnswerKind(Enum):
    """What members are answered that waited together."""

    JOINED = auto()
    """To JoinGroup: the new generation."""
    ASSIGNED = auto()
    """To SyncGroup: the assignment."""
    WITHDRAWN = auto()
    """To SyncGroup: an error, as the rebalance is superseded. Assignments are withdrawn."""


@dataclass(slots=True)
class PendingAnswers:
    """Members whose requests are decided, and whose answers take several steps."""

    kind: AnswerKind
    left: list[Member]
    """The next one last; some may be removed meanwhile."""
    error: ErrorCode = ErrorCode.NONE
    """Of the kind WITHDRAWN."""
    decided: Container[str] = ()
    """Of the kind WITHDRAWN: ids of members of the generation that have not synced."""
    topics: SubscribedTopics | None = None
    """Of the kind JOINED: the topics of those that were answered."""
    leader_first: bool = False
    """Of the kind JOINED, of a large group: the next one is the leader, in a step of its own."""


@dataclass(slots=True)
class Plan:
    """A leader's assignments while the records of the members are made, in several steps."""

    caller: Caller
    """Of the leader's SyncGroup."""
    unread: list[SyncGroupRequestAssignment]
    """What the leader sent and is not in `shares` yet, the next one last."""
    left: list[Member]
    """Members without a record, the next one last."""
    shares: dict[str, bytes] = field(default_factory=dict)
    """Member id to assignment, as the leader sent them."""
    given: list[bytes] = field(default_factory=list)
    """What each member that has a record will be assigned, in the order of the members. That stays:
    whoever joins or leaves begins another rebalance, and this plan is dropped."""
    records: dict[str, bytes] = field(default_factory=dict)
    """Member id to its part of the group's record."""
    pieces: list[bytes] = field(default_factory=list)
    """The same parts, those of one step joined: 10,000 at once take a millisecond."""
    size: int = 0
    """The bytes of the records."""
    growth: int = 0
    """How many more bytes the assignments take than those before."""
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
    """How much longer the first member's rebalance timeout allows to wait."""
    newcomers: bool = False
    """A member joined during the current part of the delay."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """When each member's first JoinGroup came, in ms since the start, until the plan is stored."""
    joined_ms: int = 0
    """When the join phase ended."""
    late: Late | None = None
    """The time of the phase is up."""
    expelled: "Expelled | None" = None
    """Members to be removed before the join phase can end."""
    plan: Plan | None = None
    """While a leader's assignments take several steps."""


@dataclass(slots=True)
class Returning:
    """Which members of a loaded group have not been heard of."""

    unheard: dict[str, None]
    lost: list[Who] = field(default_factory=list)
    """Those that were removed meanwhile."""


@dataclass(slots=True)
class Outsider:
    """The client that committed last since the group is Empty, without being a member."""

    peer: Peer
    committed_ms: int
