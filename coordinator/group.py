"""A group and its members: the state machine of the classic protocol.

Rules
-----
1. A group is in exactly one of five states. Only `Group.become` changes the state, and only
   along `TRANSITIONS`.
2. A member is in `members` under the id it holds now. A static member is also in `instances`,
   under its instance id: the instance says *who* it is, the member id says which incarnation
   speaks (KIP-345).
3. A pending id was handed out with MEMBER_ID_REQUIRED (KIP-394) and has not come back. It is not
   a member and is never shown, but the join phase does not end before it joins or times out.
4. A request that has to wait leaves its reply token in the member: `awaiting_join` while the
   group is PreparingRebalance, `awaiting_sync` while it is CompletingRebalance. Nothing else
   waits. Before a token is overwritten, the old one is answered. When the phase ends, the answers
   to very many members take several steps: a token may stay until then (`answers`).
5. `changes` rises with everything that could change the answer to a heartbeat.

Theory of operation
-------------------
A group without members is Empty. The first member opens a *join phase* (PreparingRebalance): all
members send JoinGroup, and their requests wait. When all have joined, or time is up, the generation
rises, a protocol is elected, all waiting requests are answered, and the *sync phase*
(CompletingRebalance) begins: all members send SyncGroup, the leader's with the assignments, and
when that one arrives the group is Stable. Every change of membership or metadata starts another
rebalance, as `coordinator.rebalance` says.

*Hard* state is in the log: generation, protocol, leader, members with their metadata and
assignments, and offsets. Everything else here is *soft* and lost at a failover.

Source: `ClassicGroup`, `ClassicGroupMember`, `ClassicGroupState`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from groupkeeper.coordinator.caller import ReplyTo
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.likely import Recent
from groupkeeper.coordinator.member import Member, PendingMember, Protocols
from groupkeeper.coordinator.member_bytes import COPIES, MemberBytes, bytes_of
from groupkeeper.coordinator.policy import Policy
from groupkeeper.coordinator.soft_state import (
    AskState,
    Clients,
    Moves,
    Outsider,
    PendingAnswers,
    Rebalance,
    Returning,
    ScaleWindow,
    Seat,
    added,
)

NO_SEATS: Final[dict[str, Seat]] = {}
NO_STANDBYS: Final[dict[str, None]] = {}
NO_ASKED: Final[dict[str, AskState]] = {}
"""Of groups without any, which are nearly all: stay empty."""


class GroupState(StrEnum):
    """The five states; the values are what DescribeGroups answers."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE, GroupState.DEAD),
    GroupState.PREPARING_REBALANCE: (
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
        GroupState.DEAD,
    ),
    GroupState.COMPLETING_REBALANCE: (
        GroupState.STABLE,
        GroupState.PREPARING_REBALANCE,
        GroupState.DEAD,
    ),
    GroupState.STABLE: (GroupState.PREPARING_REBALANCE, GroupState.DEAD),
    GroupState.DEAD: (),
}
REBALANCING: Final = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


@dataclass(slots=True, eq=False)
class Group:
    """The state of one group."""

    group_id: str
    state_timestamp_ms: int
    """Wall clock of the last transition; offset expiry counts from it."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    """Empty for a group that never had members."""
    protocol_name: str | None = None
    _leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    pending: dict[str, PendingMember] = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=lambda: NO_SEATS)
    """Members that are lost, the first one lost first: see `coordinator.seats`."""
    freed_seats: dict[str, None] = field(default_factory=lambda: NO_STANDBYS)
    """Seats whose records are deleted with the group's next one: see `write_group`."""
    policy: Policy | None = None
    """None: the group is handled as Kafka does."""
    standbys: dict[str, None] = field(default_factory=lambda: NO_STANDBYS)
    """Members that get no partitions, the one that waits longest first: `coordinator.standby`."""
    asked: dict[str, AskState] = field(default_factory=lambda: NO_ASKED)
    """Members that are to rejoin without a rebalance: see `coordinator.scaling`."""
    has_user_data: bool = False
    """An assignment of the last plan has user data of its assignor."""
    moves: Moves | None = None
    window: ScaleWindow | None = None
    clients: Clients | None = None
    """The dynamic members by client, while a policy needs them."""
    member_records: dict[str, bytes] = field(default_factory=dict)
    """Parts of the group's last record by member id, while Stable. Empty after a load without
    static members."""
    is_stored: bool = False
    """A record of the group or an offset was written."""
    metadata_bytes: int = 0
    """Size of the metadata of all members, for all their protocols."""
    named_bytes: int = 0
    """Size of the names and assignments of all members: see `Member.named_bytes`."""
    member_bytes: MemberBytes = field(default_factory=MemberBytes)
    pending_sync: dict[str, None] = field(default_factory=dict)
    """Members of this generation that have not sent SyncGroup yet (KAFKA-12890)."""
    subscription: frozenset[str] | None = None
    """Topics any member subscribes to; None when unknown, which counts as all topics."""
    offsets: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Topic to partition to OffsetCommitValue as in the log; decoded when fetched."""
    rebalance: Rebalance | None = None
    answers: PendingAnswers | None = None
    """Answers of a phase that is over, until all are given: see `coordinator.answers`."""
    round: int = 0
    """Number of rebalances since the creation or the load."""
    old_plan: dict[str, bytes] | None = None
    """Assignments of the last plan that were withdrawn from members; until the next plan."""
    planned_generation: int = -1
    """Generation of the last plan."""
    returning: Returning | None = None
    """Members of a loaded group that have not sent a request yet; None when there are none."""
    recent: Recent | None = None
    outsider: Outsider | None = None
    last_removal: Cause | None = None
    changes: int = 0
    joined_count: int = 0
    """Number of members with a parked JoinGroup."""
    support: dict[str, int] = field(default_factory=dict)
    """Number of members that support a protocol."""
    _timeouts: dict[int, int] = field(default_factory=dict)
    """Number of members by their rebalance timeout in ms; a negative timeout counts as 0."""

    # -- state ---------------------------------------------------------------------------------

    @property
    def was_used(self) -> bool:
        """Whether the group has had a member or a record."""
        return self.is_stored or self.generation > 0 or self.state is not GroupState.EMPTY

    def become(self, state: GroupState, wall_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        assert state is not GroupState.EMPTY or not self.members
        self.state = state
        self.state_timestamp_ms = wall_ms
        self.member_records = {}
        if state is GroupState.EMPTY:  # a dict never shrinks: a KiB less for an empty group
            self.members, self.instances, self.support, self._timeouts = {}, {}, {}, {}
            self.seats, self.standbys, self.asked = NO_SEATS, NO_STANDBYS, NO_ASKED
        self.changes += 1

    @property
    def fact_head(self) -> tuple[str, int, str, int]:
        """Fields that every fact about the group begins with: id, generation, state and round."""
        number = self.round if self.state in REBALANCING else 0
        return self.group_id, self.generation, self.state, number

    @property
    def rebalances(self) -> bool:
        """Whether a join phase or a sync phase is under way."""
        return self.state in REBALANCING

    @property
    def leader_id(self) -> str | None:
        """Member that computes assignments; when it is removed, the first of the others."""
        # Looked for when it is asked for: very many may be removed, each the first one then.
        if self._leader is None and self.members:
            self._leader = next(iter(self.members))
        return self._leader

    @leader_id.setter
    def leader_id(self, member_id: str | None) -> None:
        self._leader = member_id

    @property
    def all_joined(self) -> bool:
        """Whether all members and pending ids have joined; a seat counts as joined."""
        return self.joined_count + len(self.seats) == len(self.members) and not self.pending

    @property
    def is_deserted(self) -> bool:
        """Whether only seats of lost members are left."""
        return 0 < len(self.seats) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, never negative."""
        return max(self._timeouts, default=0)

    # -- members -------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Add a member. The first one of an empty group becomes the leader."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self._leader is None:
            self._leader = next(iter(self.members))
        self._count(member.protocols, +1)
        self._count_timeout(member.rebalance_timeout_ms, +1)
        self.member_bytes.add(member.size)
        self.named_bytes += member.named_bytes
        if self.clients is not None:
            self.clients.add(member)
        self.changes += 1

    def remove(self, member: Member) -> None:
        """Remove a member whose parked requests have been answered."""
        assert not member.waits
        self._keep_old(member)
        self._forget_arrival(member.member_id)
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self.pending_sync.pop(member.member_id, None)
        self._free(member.member_id)
        if self.clients is not None:
            self.clients.remove(member)
        if self._leader == member.member_id:
            self._leader = None
        self._count(member.protocols, -1)
        self._count_timeout(member.rebalance_timeout_ms, -1)
        self.member_bytes.add(-member.size)
        self.named_bytes -= member.named_bytes
        self.changes += 1

    def _free(self, member_id: str) -> None:
        if member_id in self.seats:
            self.freed_seats = added(self.freed_seats, member_id, None)
        for some in (self.seats, self.standbys, self.asked):
            if some:
                some.pop(member_id, None)
        if self.moves is not None:
            self.moves.releasing.pop(member_id, None)

    def rename(self, member: Member, new_id: str, client: tuple[str, str] | None = None) -> None:
        """Change the id of a static member that came back (KIP-345), or give the place of a dynamic
        one, with its partitions, to another `client`: id and host.
        """
        old_id, old_size = member.member_id, member.named_bytes
        led = self.leader_id == old_id
        del self.members[old_id]
        if old_id in self.standbys:  # it stays what it is, in its place
            self.standbys = {new_id if e == old_id else e: None for e in self.standbys}
        self._free(old_id)
        if self.clients is not None:
            self.clients.remove(member)
        member.member_id = new_id
        if client is not None:
            member.client_id, member.client_host = client
        if self.clients is not None:
            self.clients.add(member)
        self.member_bytes.add(member.named_bytes - old_size)
        self.named_bytes += member.named_bytes - old_size
        self.members[new_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = new_id
        self._forget_arrival(old_id)
        if self.old_plan and old_id in self.old_plan:
            self.old_plan[new_id] = self.old_plan.pop(old_id)
        if led:
            self.leader_id = new_id
        # Kafka leaves the old id here, and later removes a member that does not exist.
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
        self.changes += 1

    def update(self, member: Member, protocols: Protocols, timeouts: tuple[int, int]) -> None:
        """Store the data of a rejoin. `timeouts` are session and rebalance timeout, in ms."""
        if protocols != member.protocols:  # else counted already
            self._count(member.protocols, -1)
            self._count(protocols, +1)
            self.member_bytes.add(bytes_of(protocols)[1] - bytes_of(member.protocols)[1])
            member.protocols = protocols
        member.is_restored = False
        before = member.rebalance_timeout_ms
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts
        if member.rebalance_timeout_ms != before:
            self._count_timeout(before, -1)
            self._count_timeout(member.rebalance_timeout_ms, +1)
        self.changes += 1

    def assign_all(self, shares: Iterable[bytes], growth: int) -> None:
        """Set the assignments of all members, in their order. `growth`: by how many bytes they
        exceed the assignments before.
        """
        for member, share in zip(self.members.values(), shares, strict=True):
            member.assignment = share
        self.member_bytes.add(growth)
        self.named_bytes += growth // COPIES

    def assign(self, member: Member, share: bytes) -> None:
        """Set the assignment of one member."""
        growth = len(share) - len(member.assignment)
        member.assignment = share
        self.member_bytes.add(COPIES * growth)
        self.named_bytes += growth

    def withdraw(self, member: Member) -> None:
        """Clear the member's assignment, and keep it in `old_plan`."""
        if member.assignment:
            self._keep_old(member)
            self.member_bytes.add(-COPIES * len(member.assignment))
            self.named_bytes -= len(member.assignment)
            member.assignment = b""

    def _keep_old(self, member: Member) -> None:
        if not member.assignment:
            return
        plan = self.old_plan = self.old_plan or {}
        if member.member_id not in plan:
            plan[member.member_id] = member.assignment
            self.member_bytes.add(len(member.assignment))

    def forget_old_plan(self) -> None:
        """Forget `old_plan`: a newer plan is stored, or no member is left."""
        if self.old_plan is not None:
            self.member_bytes.add(-sum(map(len, self.old_plan.values())))
            self.old_plan = None

    def history(self) -> Recent:
        """Return the history of joins and leaves, created on first use; for writers only."""
        if self.recent is None:
            self.recent = Recent()
        return self.recent

    def _forget_arrival(self, member_id: str) -> None:
        if self.rebalance is not None:
            self.rebalance.arrivals.pop(member_id, None)

    def park_join(self, member: Member, reply_to: ReplyTo, version: int, now: int) -> None:
        """Let the member's JoinGroup wait for the end of the join phase."""
        assert member.awaiting_join is None
        member.awaiting_join = reply_to
        member.join_version = version
        self.joined_count += 1
        if self.state is GroupState.PREPARING_REBALANCE and self.rebalance is not None:
            self.rebalance.arrivals.setdefault(member.member_id, now - self.rebalance.started_ms)

    def unpark_join(self, member: Member) -> ReplyTo:
        """Return the token of the waiting JoinGroup, which has to be answered now."""
        reply_to = member.awaiting_join
        assert reply_to is not None
        member.awaiting_join = None
        self.joined_count -= 1
        return reply_to

    def park_sync(self, member: Member, reply_to: ReplyTo) -> None:
        """Let the member's SyncGroup wait for the leader's."""
        assert member.awaiting_sync is None
        member.awaiting_sync = reply_to
        self.changes += 1  # its session stands still now: `Beat` must not move it

    # -- protocols -----------------------------------------------------------------------------

    def _count(self, protocols: Protocols, by: int) -> None:
        for protocol in protocols:
            self.metadata_bytes += by * len(protocol.metadata)
            self.support[protocol.name] = count = self.support.get(protocol.name, 0) + by
            assert count >= 0, "supporters of a protocol are counted wrong"
            if not count:
                del self.support[protocol.name]

    def _count_timeout(self, timeout_ms: int, by: int) -> None:
        timeout_ms = max(timeout_ms, 0)
        self._timeouts[timeout_ms] = count = self._timeouts.get(timeout_ms, 0) + by
        if not count:
            del self._timeouts[timeout_ms]

    def subscribes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; True when the subscriptions are unknown."""
        return self.subscription is None or topic in self.subscription
