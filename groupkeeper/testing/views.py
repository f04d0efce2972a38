"""Snapshots of a group for tests: its state, its members, and its rounds with their causes.

Snapshots never change; `GroupView` in group.py takes new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.history import rounds as told
from groupkeeper.history.fields import Part
from groupkeeper.protocol.embedded import read_assigned
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.server.server import Server
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.host import Host
from groupkeeper.why.advice import advice
from groupkeeper.why.entries import entry_text, filled
from groupkeeper.why.live import live_text
from groupkeeper.why.texts import count, partitions_text, span
from groupkeeper.why.words import paragraph

DEAD: Final = str(GroupState.DEAD)
"""State of a group that does not exist, as in DescribeGroups."""
UNKNOWN: Final = "Unknown"
"""State of a group whose coordinator is loading or has failed."""

AssignedPartition = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True)
class MemberNow:
    """A snapshot of a group member."""

    member_id: str
    instance_id: str | None
    """`group.instance.id`; None for a dynamic member."""
    client_id: str
    host: str
    """The client's IP address."""
    partitions: Mapping[str, list[int]]
    """Assigned partitions by topic; empty unless the group is Stable."""
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @property
    def name(self) -> str:
        """The instance id, else the client id."""
        return self.instance_id or self.client_id

    def is_called(self, name: str) -> bool:
        """Whether `name` is the member's member id, instance id or client id."""
        return name in (self.member_id, self.instance_id, self.client_id)

    def __repr__(self) -> str:
        owned = partitions_text(self.partitions) or "no partitions"
        return f"<{self.name}: {owned}>"


class Round:
    """One rebalance of a group, with its cause."""

    __slots__ = ("_told",)

    # Any: parts of events, described in docs/events.md.

    def __init__(self, of: told.Round) -> None:
        self._told = of

    @property
    def cause(self) -> str:
        """Code of the cause, such as `session_expired`: see docs/events.md."""
        return str((self._told.cause or {}).get("code", "unknown"))

    @property
    def more_causes(self) -> list[str]:
        """Codes of further causes during the round, each of which would have triggered a round."""
        return [str(each.get("code")) for each in self._told.more_causes]

    @property
    def likely(self) -> str | None:
        """The probable reason behind the cause, such as `max_poll_exceeded`; None if unknown."""
        found: str | None = (self._told.cause or {}).get("likely")
        return found

    @property
    def reason(self) -> str | None:
        """The reason given by the client (KIP-800)."""
        found: str | None = (self._told.cause or {}).get("reason")
        return found

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The numbers that support the cause; see docs/events.md."""
        return dict((self._told.cause or {}).get("evidence") or {})

    @property
    def who(self) -> str | None:
        """Instance id, else client id, of the member that triggered the round."""
        return _name((self._told.cause or {}).get("who"))

    @property
    def member_id(self) -> str | None:
        """Member id of the member that triggered the round."""
        found: str | None = ((self._told.cause or {}).get("who") or {}).get("member")
        return found

    @property
    def outcome(self) -> str:
        """`completed`, `under_way`, `emptied` (no member remained), `superseded` (by the next
        round) or `lost` (the coordinator failed).
        """
        return self._told.outcome

    @property
    def generation(self) -> int:
        """The generation that the round led to; during the join phase, the previous one."""
        return self._told.generation

    @property
    def protocol(self) -> str | None:
        """Name of the selected assignor."""
        return self._told.protocol

    @property
    def members(self) -> int | None:
        """Number of members that joined; None during the join phase."""
        return len(self._told.joined) if self._told.ended_by else None

    @property
    def added(self) -> list[str]:
        """Names (instance id, else client id) of new members."""
        return [_name(each.get("who")) or "" for each in self._told.added]

    @property
    def removed(self) -> list[str]:
        """Names of members that left or were removed."""
        return [_name(each.get("who")) or "" for each in self._told.removed]

    @property
    def moved(self) -> int | None:
        """Number of partitions that changed owner; None before completion, and for protocol types
        other than `consumer`.
        """
        return self._told.moved

    @property
    def duration_ms(self) -> int | None:
        """Duration of the round; None while it is in progress."""
        return self._told.duration_ms

    @property
    def started_at_ms(self) -> int | None:
        """Start of the round in Unix milliseconds, by the broker's clock."""
        return self._told.started_at_ms

    @property
    def text(self) -> str:
        """A description of the round in a few sentences, as printed by `groupkeeper why`."""
        return paragraph(self._told)

    @property
    def advice(self) -> str:
        """How to avoid such rounds; empty while the round is in progress."""
        return "" if self._told.outcome == told.UNDER_WAY else advice(self._told)

    def __repr__(self) -> str:
        took = "" if self.duration_ms is None else f" in {span(self.duration_ms)}"
        likely = "" if self.likely is None else f" (likely {self.likely})"
        who = "" if self.who is None else f" by {self.who}"
        generation = f"generation {self.generation}"
        return f"<round: {self.cause}{likely}{who}, {self.outcome}{took}, {generation}>"


def _name(who: Part | None) -> str | None:
    if not who:
        return None
    return who.get("instance") or who.get("client_id") or None


@dataclass(frozen=True, slots=True)
class GroupNow:
    """A snapshot of a group. Everything in it is durable."""

    group: str
    state: str = DEAD
    """State as in DescribeGroups: Stable, PreparingRebalance, CompletingRebalance, Empty, or Dead
    (no such group). Unknown: the coordinator is loading or has failed."""
    generation: int = -1
    protocol: str | None = None
    """Name of the assignor in use."""
    leader: str | None = None
    """Member id of the leader."""
    members: tuple[MemberNow, ...] = ()
    """Members in join order."""
    committed: Mapping[AssignedPartition, int] = field(default_factory=dict)
    """Committed offsets."""
    lags: Mapping[AssignedPartition, int] = field(default_factory=dict)
    """Lag in records of each assigned or committed partition. Without a committed offset, it counts
    from the log start offset."""
    rounds: tuple[Round, ...] = ()
    """Rounds since the broker's start or reset, across restarts, oldest first, at most
    `history.ENTRIES`. The last one may be in progress."""
    began: int = 0
    """Number of rounds started, including those no longer in `rounds`."""

    @property
    def exists(self) -> bool:
        """Whether the group exists."""
        return self.state not in (DEAD, UNKNOWN)

    @property
    def is_stable(self) -> bool:
        """Whether the group is Stable: its members have assignments."""
        return self.state == GroupState.STABLE

    @property
    def lag(self) -> int | None:
        """The sum of `lags`; None if nothing is assigned or committed."""
        return sum(self.lags.values()) if self.lags else None

    @property
    def assigned(self) -> dict[str, list[int]]:
        """The assigned partitions of all members, by topic."""
        owned: dict[str, list[int]] = {}
        for member in self.members:
            for topic, numbers in member.partitions.items():
                owned.setdefault(topic, []).extend(numbers)
        return {topic: sorted(owned[topic]) for topic in sorted(owned)}

    def __repr__(self) -> str:
        parts = [self.state]
        if self.exists:
            parts.append(f"generation {self.generation}")
            names = f" {[*self.members]}" if self.members else ""
            parts.append(count(len(self.members), "member") + names)
            parts.append(f"lag {self.lag}")
        if self.rounds:
            parts.append(f"{count(self.began, 'round')}, the last {self.rounds[-1]!r}")
        return f"<group {self.group!r}: {', '.join(parts)}>"


class Sights:
    """Takes snapshots of the running server's groups. Coroutines run on its loop."""

    def __init__(self, bench: Host) -> None:
        self.bench = bench
        self._history = bench.history

    def group_ids(self) -> list[str]:
        """Return the ids of the existing groups, sorted. Raises BrokerDown."""
        drivers = self.bench.server.group_partitions
        ids: list[str] = self.bench.running.call(
            lambda: sorted(id_ for each in drivers for id_ in each.group_ids())
        )
        return ids

    def now(self, group_id: str) -> GroupNow:
        """Call `look` from another thread."""
        return self.bench.run(lambda: self.look(group_id))

    def rounds(self, group_id: str) -> tuple[tuple[Round, ...], int]:
        """Return the kept rounds, and the number of rounds started since the last reset. Also works
        while no server runs.
        """
        try:
            now = self.now(group_id)
        except BrokerDown:
            return self._rounds(group_id)
        return now.rounds, now.began

    def timeline(self, group_id: str) -> str:
        """See `BrokerSight.timeline`."""
        try:
            return self.bench.run(lambda: self._timeline(group_id))
        except BrokerDown:
            return self._past(group_id)

    def seen(self) -> list[str]:
        """See `BrokerSight.groups_seen`."""
        return self._history.groups()

    async def look(self, group_id: str) -> GroupNow:
        """Return a consistent snapshot of the group. Raises BrokerDown."""
        while True:
            server = self.bench.server
            driver = server.group_partitions.of(group_id)
            if driver.absence is not ErrorCode.NONE:
                return self._unknown(group_id)
            seen = _seen(driver.peek(group_id))
            # The response is delayed until the observed state is durable.
            try:
                committed = await self.bench.seeding.offsets_of(group_id)
            except RequestFailed:  # the log has failed in the meantime
                return self._unknown(group_id)
            server.readers.flush()
            found = driver.peek(group_id)
            if seen == _seen(found):
                break
        now = _now(group_id, found)
        rounds, began = self._rounds(group_id)
        lags = await _lags(server, now, committed)
        return replace(now, committed=committed, lags=lags, rounds=rounds, began=began)

    def _unknown(self, group_id: str) -> GroupNow:
        rounds, began = self._rounds(group_id)
        return GroupNow(group_id, UNKNOWN, rounds=rounds, began=began)

    async def doing(self, group_id: str) -> str:
        """Describe the group's present state and the members it waits for; "" for no such group."""
        server = self.bench.server
        looked = server.group_partitions.of(group_id).look(group_id)
        return "" if looked is None else filled(live_text(await server.turns.run(looked)))

    async def _timeline(self, group_id: str) -> str:
        self.bench.server.readers.flush()
        return "\n".join(filter(None, (self._past(group_id), await self.doing(group_id))))

    def _past(self, group_id: str) -> str:
        return "\n".join(map(entry_text, self._history.entries(group_id)))

    def _rounds(self, group_id: str) -> tuple[tuple[Round, ...], int]:
        entries = self._history.entries(group_id)
        rounds = tuple(Round(each) for each in entries if isinstance(each, told.Round))
        return rounds, self._history.began(group_id)


def _seen(group: Group | None) -> tuple[int, int, int, int] | None:
    """Return a key that differs after any change to the group."""
    return None if group is None else (id(group), group.changes, group.round, group.generation)


def _now(group_id: str, group: Group | None) -> GroupNow:
    if group is None:
        return GroupNow(group_id)
    is_stable = group.state is GroupState.STABLE
    return GroupNow(
        group_id,
        str(group.state),
        group.generation,
        group.protocol_name,
        group.leader_id,
        tuple(_member(each, is_stable=is_stable) for each in group.members.values()),
    )


def _member(member: Member, *, is_stable: bool) -> MemberNow:
    assigned = read_assigned(member.assignment) if is_stable and member.assignment else None
    who = member.who
    return MemberNow(
        member.member_id,
        member.instance_id,
        who.client_id,
        who.host.removeprefix("/"),
        {topic: sorted(numbers) for topic, numbers in sorted((assigned or {}).items())},
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
    )


async def _lags(
    server: Server, now: GroupNow, committed: Mapping[AssignedPartition, int]
) -> dict[AssignedPartition, int]:
    owned = [(topic, each) for topic, some in now.assigned.items() for each in some]
    places = dict.fromkeys([*owned, *committed])
    extents = await server.topics.positions.extents(places)
    return {
        place: max(0, end - max(start, committed.get(place, start)))
        for place, (start, end, _) in sorted(extents.items())
    }
