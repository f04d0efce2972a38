"""What must hold besides where the coordinator decides which members get partitions: shares change
within a generation then, and a partition changes hands only after it was given up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.coordinator.facts import MemberRemoved, NotedFact, StandbyActivated
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.protocol.embedded import count_assigned, owned_of
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.records.consumer_offsets import MemberMetadata, decode_group_value
from tests.seats.consumer import Process
from tests.seats.oracle import Broken, Durable, Oracle, accepts, assigned
from tests.seats.plans import Place


@dataclass
class Belief:
    """What a client may believe to hold, by what it was told and what it said."""

    generation: int
    held: set[Place] = field(default_factory=set)
    rejoined: int = 0
    """Number of its last JoinGroup: it does not hear answers to what it sent before."""


@dataclass
class PlannedDurable(Durable):
    """Of a group whose shares change within a generation."""

    given: dict[tuple[str, int], list[set[Place]]] = field(default_factory=dict)
    """All shares that a member had in a generation, the last one last."""
    beliefs: dict[str, Belief] = field(default_factory=dict)
    """By member id."""

    def _take_group(self, value: bytes | None) -> None:
        group = None if value is None else decode_group_value(value)
        members: Sequence[MemberMetadata] = () if group is None else group.members
        before, self.shares = (
            self.shares,
            {
                each.member_id: assigned(each.assignment) if each.assignment else set()
                for each in members
            },
        )
        self._check_shares()
        generation = -1 if group is None else group.generation
        if generation == self.generation:
            self._check_gains(before)
        self.generation = generation
        for member_id, share in self.shares.items():
            self.given.setdefault((member_id, generation), []).append(share)

    def _check_gains(self, before: dict[str, set[Place]]) -> None:
        """A partition that changes hands has been released by whoever is still there."""
        for member_id, share in self.shares.items():
            gained = share - before.get(member_id, set())
            for other, belief in self.beliefs.items():
                is_there = other in self.shares and other not in self.lost
                if other == member_id or not is_there or belief.generation != self.generation:
                    continue
                if twice := gained & belief.held:
                    raise Broken(f"{member_id} is given {twice}, which {other} has not released")


@dataclass
class PlannedOracle(Oracle):
    durable: PlannedDurable = field(default_factory=PlannedDurable)
    activated: set[str] = field(default_factory=set)
    """Lost members whose place a standby has taken."""

    def told(self, facts: Sequence[NotedFact]) -> None:
        kinds = {
            "StandbyActivated": "standby took over",
            "AssignmentChanged": "step of the server",
            "RebalanceDeferred": "newcomer without partitions",
            "RebalanceStarted": "rebalance",
        }
        for each in facts:
            if isinstance(each.fact, StandbyActivated):
                self.activated.add(each.fact.old_member)
            if what := kinds.get(type(each.fact).__name__):
                self.count(what)
            if isinstance(each.fact, MemberRemoved) and each.fact.cause.code in (
                CauseCode.JOIN_TIMEOUT,
            ):
                self.count("late member removed")
        super().told(facts)

    def _ended(self, member_id: str, code: CauseCode, reserved_ms: int) -> None:
        early = self._early
        super()._ended(member_id, code, reserved_ms)
        if member_id in self.activated:
            self._early = early

    # -- requests and answers ----------------------------------------------------------------------

    def asked(self, api: str, request: Any, number: int) -> None:
        """A process sends a request."""
        belief = self.durable.beliefs.get(request.member_id) if api == "JoinGroup" else None
        if belief is not None:
            belief.held &= owned_of(request.protocols[0].metadata)
            belief.rejoined = number

    def joined(self, response: Any) -> None:
        """A process is told its generation."""
        belief = self.durable.beliefs.setdefault(response.member_id, Belief(-1))
        belief.generation = response.generation_id

    def answered(
        self, who: str, request: Any, share: set[Place], number: int, sent: int = 0
    ) -> None:
        member_id, durable = request.member_id, self.durable
        stored = durable.given.get((member_id, request.generation_id), [set()])
        if not any(share <= each for each in stored):
            raise Broken(f"{member_id} is given {share}, but {stored} are durable")
        belief = durable.beliefs.setdefault(member_id, Belief(request.generation_id))
        if sent > belief.rejoined:
            belief.held |= share
        now = set() if member_id in durable.lost else durable.shares.get(member_id, set())
        if share - now:
            self.count("answer that came too late")
        for place in share & now:
            self.owners[place] = number, who

    # -- looking at the coordinator ----------------------------------------------------------------

    def _kept(self, group: Group | None) -> set[str]:
        """Not those of newcomers that are in no record, and not those that go with the next one."""
        known = set() if group is None else {*group.seats, *group.freed_seats}
        return super()._kept(group) - known

    def check_size(self, group: Group | None, processes: Iterable[Process], most: int) -> None:
        """So many members have partitions, once a rebalance has completed."""
        if group is None or group.state is not GroupState.STABLE or group.window or not most:
            return
        there = [each.member_id for each in processes if accepts(group, each)]
        holders = [e for e in there if count_assigned(group.members[e].assignment)]
        if len(holders) > most:
            raise Broken(f"{holders} have partitions, and not {most} members")
