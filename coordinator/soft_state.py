"""Soft state of a group: data about phases, answers and plans in progress, lost at a failover."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.subscription import SubscribedTopics
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.sync_group import SyncGroupRequestAssignment

T = TypeVar("T")


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
    taken: set[tuple[str, int]] = field(default_factory=set)
    """Topic and number of the assigned partitions, if the group has seats."""
    has_user_data: bool = False
    """An assignment has user data, if the group has a policy."""
    revoked: set[tuple[str, int]] = field(default_factory=set)
    """Those that seats had, and do not get again."""


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
    target_size: int = 0
    """How many members get partitions, as the policy said when they had joined; 0 for all."""
    withheld: set[tuple[str, int]] = field(default_factory=set)
    """Partitions that members own which the leader does not see: nobody gets them before these
    members have released them, in the next rebalance."""
    expelled: "Expelled | None" = None
    """Members to be removed before the join phase can end."""
    plan: Plan | None = None
    """Set while a leader's assignments take several steps."""


@dataclass(slots=True)
class Seat:
    """The place of a lost member, whose assignment is reserved. It is stored, but for times."""

    since_ms: int
    """When the member was lost, monotonic."""
    since_wall_ms: int
    code: CauseCode
    """Why the member was lost."""
    ends_ms: int = 0
    """Until when it is reserved, monotonic."""


class AskState(Enum):
    """The progress of a member that gets other partitions without a rebalance."""

    ASKED = auto()
    """Its next heartbeat is answered REBALANCE_IN_PROGRESS."""
    JOINED = auto()
    """Its JoinGroup was answered with the present generation."""
    SYNCED = auto()
    """It has its partitions. Clients may repeat JoinGroup until the next heartbeat."""


@dataclass(slots=True)
class Moves:
    """Partitions that the server moves."""

    releasing: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Member id to the partitions, topic and number, that it is asked to release."""
    began_ms: int = 0
    """Start of the last step, monotonic."""
    counts: tuple[int, ...] | None = None
    """Numbers of partitions of the group's topics, by name, when they were looked at last."""
    has_moved: bool = False
    """The assignments are not those of the leader any more."""
    settled: int = -1
    """`Group.changes` when there was nothing to move."""
    is_alike: bool | None = None
    """All members subscribe to the same topics; None until somebody asks."""


@dataclass(slots=True)
class ScaleWindow:
    """Newcomers that wait for more of them."""

    since_ms: int
    newcomers: int = 0


def added(some: dict[str, T], key: str, value: T) -> dict[str, T]:
    """Return the dict with the item; a new one if it was empty, as groups may have it in common."""
    some = some or {}
    some[key] = value
    return some


class Clients:
    """The dynamic members of a group by client id and host of their JoinGroup, and by client id
    alone (host ""), with the time at which each joined; in the order in which they joined.
    """

    __slots__ = ("_found",)

    def __init__(self, members: Iterable[Member]) -> None:
        """`members`: have joined at any time before."""
        self._found: dict[tuple[str, str], dict[str, int]] = {}
        for member in members:
            self._add(member, -1)

    def add(self, member: Member) -> None:
        self._add(member, member.heard_ms)

    def _add(self, member: Member, joined_ms: int) -> None:
        if member.instance_id is None:
            for host in (member.client_host, ""):
                found = self._found.setdefault((member.client_id, host), {})
                found[member.member_id] = joined_ms

    def remove(self, member: Member) -> None:
        for client in ((member.client_id, member.client_host), (member.client_id, "")):
            found = self._found.get(client)
            if found is not None:
                found.pop(member.member_id, None)
                if not found:
                    del self._found[client]

    def only_one(self, client: tuple[str, str]) -> str | None:
        """Return the id of the member of this client; None if there is none, or several."""
        found = self._found.get(client, {})
        return next(iter(found)) if len(found) == 1 else None

    def has_newer(self, client: tuple[str, str], since_ms: int) -> bool:
        """Return whether a member of this client joined after that time."""
        found = self._found.get(client)
        return found is not None and found[next(reversed(found))] > since_ms


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
