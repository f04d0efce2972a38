"""Groups in which much happens, on the production server under virtual time: what its stored events
say can be held against what is inferred from its offsets log.

Clients behave as Kafka's Java consumer: heartbeats have a clock of their own, commits come every
five seconds and before partitions are given up, only dynamic members leave when they are closed,
and one that is not polled for `max.poll.interval.ms` leaves by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event, encode
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.cluster import ADDRESS
from tests.simulation.consumer import Wire
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.requests import commit_request, heartbeat
from tests.support.served import Served
from tests.support.stored_events import events_in

HEARTBEAT_S: Final = 3.0
COMMIT_S: Final = 5.0
PARTITIONS: Final = 6
MOST: Final = 4
"""A larger team grows no more: members that own nothing leave no trace."""
Owned = set[tuple[str, int]]


@dataclass
class Style:
    """How the consumers of a group are configured."""

    session_ms: int = 10_000
    poll_ms: int = 60_000
    protocol: str = "range"
    is_static: bool = False
    commits: bool = True


@dataclass
class Consumer:
    """One process, from its start to its end."""

    served: Served
    group: str
    name: str
    style: Style
    topics: list[str] = field(default_factory=lambda: ["orders"])
    member: str = ""
    generation: int = -1
    owned: Owned = field(default_factory=set)
    is_idle: bool = False
    """It has nothing to commit."""
    stuck_until: float = 0.0
    leads: bool = False
    told: bool = False
    """A heartbeat was answered with REBALANCE_IN_PROGRESS."""

    def __post_init__(self) -> None:
        self.instance = self.name if self.style.is_static else None
        self.wire = Wire(self.name)
        self.served.loop.dial(ADDRESS, self.wire)
        self.tasks = [asyncio.ensure_future(each()) for each in (self._poll, self._beat)]

    def kill(self) -> None:
        """End without a word."""
        for task in self.tasks:
            task.cancel()
        if self.wire.transport is not None:
            self.wire.transport.close()

    async def close(self) -> None:
        """End as a consumer that is closed does."""
        for task in self.tasks:
            task.cancel()
        await self._commit()
        await self._leave()
        self.kill()

    async def rejoin(self) -> None:
        """Send JoinGroup though nothing happened."""
        self.told = True
        await asyncio.sleep(2)

    async def _leave(self) -> None:
        if self.member and self.instance is None:
            identity = MemberIdentity(member_id=self.member, reason="the consumer is being closed")
            await self.call(5, LeaveGroupRequest(group_id=self.group, members=[identity]))
        self.member, self.generation = "", -1

    async def call(self, version: int, request: Any) -> Any:
        return await self.wire.call(version, request)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self.generation < 0:
                continue
            generation = self.generation
            beat = heartbeat(self.member, generation, self.group, self.instance)
            error = (await self.call(4, beat)).error_code
            if generation != self.generation:
                continue  # it has rejoined meanwhile
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self.told = True
            elif error:
                self.member, self.generation = "", -1

    async def _poll(self) -> None:
        random, commit_at = self.served.loop.random, 0.0
        while True:
            now = self.served.loop.time()
            if now < self.stuck_until:
                if now > self.stuck_until - 1 and self.member:
                    await self._leave()
                await asyncio.sleep(0.5)
                continue
            if self.told or self.generation < 0:
                await self._join()
                commit_at = self.served.loop.time() + COMMIT_S
            await asyncio.sleep(random.uniform(0.05, 0.4))
            if self.served.loop.time() >= commit_at:
                commit_at = self.served.loop.time() + COMMIT_S
                await self._commit()

    def stick(self) -> None:
        """Do not poll until the client gives up."""
        self.stuck_until = self.served.loop.time() + self.style.poll_ms / 1000 + 1

    async def _commit(self) -> None:
        if not self.owned or self.generation < 0 or self.is_idle or not self.style.commits:
            return
        places = dict.fromkeys(sorted(self.owned), int(self.served.loop.time() * 1000))
        request = commit_request(places, self.group, self.member, self.generation)
        request.group_instance_id = self.instance
        await self.call(8, request)

    async def _join(self) -> None:
        is_eager = self.style.protocol != "cooperative-sticky"
        if is_eager and self.told:
            await self._commit()
            self.owned = set()
        self.told, self.generation = False, -1
        if not self.member:
            self.owned = set()
        while True:
            joined = await self.call(9, self._request())
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member = joined.member_id
                continue
            if joined.error_code == 0:
                self.member = joined.member_id
                if await self._sync(joined):
                    return
            elif joined.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.member = ""
            await asyncio.sleep(0.1)

    def _request(self) -> JoinGroupRequest:
        owned = [
            TopicPartition(topic=topic, partitions=[p for t, p in sorted(self.owned) if t == topic])
            for topic in sorted({t for t, _ in self.owned})
        ]
        subscription = Subscription(version=1, topics=self.topics, owned_partitions=owned)
        metadata = encode_subscription(subscription)
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.style.session_ms,
            rebalance_timeout_ms=self.style.poll_ms,
            member_id=self.member,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.style.protocol, metadata=metadata)],
        )

    async def _sync(self, joined: Any) -> bool:
        plan: Sequence[SyncGroupRequestAssignment] = ()
        if joined.members and not joined.skip_assignment:
            plan = _plan(joined.members, self.style.protocol)
            await asyncio.sleep(self.served.loop.random.uniform(0.001, 0.3))
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.style.protocol,
            assignments=[*plan],
        )
        synced = await self.call(5, request)
        if synced.error_code:
            return False
        self.generation, self.leads = joined.generation_id, bool(joined.members)
        shares = (
            decode_assignment(synced.assignment).assigned_partitions if synced.assignment else []
        )
        now = {(each.topic, number) for each in shares for number in each.partitions}
        revoked, self.owned = self.owned - now, now
        # A cooperative consumer that gave something up joins again (KIP-429).
        self.told = bool(revoked) and self.style.protocol == "cooperative-sticky"
        return True


def _plan(members: Sequence[Any], protocol: str) -> list[SyncGroupRequestAssignment]:
    """All partitions of what members subscribe to, dealt out; a cooperative one takes first."""
    wants = {each.member_id: decode_subscription(each.metadata) for each in members}
    topics = sorted({topic for each in wants.values() for topic in each.topics})
    shares: dict[str, Owned] = {member: set() for member in sorted(wants)}
    owned = {
        member: {(each.topic, n) for each in want.owned_partitions for n in each.partitions}
        for member, want in wants.items()
    }
    for topic in topics:
        takers = [member for member in shares if topic in wants[member].topics]
        most = -(-PARTITIONS // len(takers))
        free = set(range(PARTITIONS))
        if protocol == "cooperative-sticky":
            for member in takers:
                kept = sorted(n for t, n in owned[member] if t == topic and n in free)[:most]
                shares[member] |= {(topic, n) for n in kept}
                free -= set(kept)
            free -= {n for each in owned.values() for t, n in each if t == topic}
        for number in sorted(free):
            taker = min(takers, key=lambda m: (sum(t == topic for t, _ in shares[m]), m))
            shares[taker].add((topic, number))
    return [
        SyncGroupRequestAssignment(member_id=member, assignment=_encoded(share))
        for member, share in shares.items()
    ]


def _encoded(share: Owned) -> bytes:
    topics = [
        TopicPartition(topic=topic, partitions=sorted(n for t, n in share if t == topic))
        for topic in sorted({t for t, _ in share})
    ]
    return encode_assignment(Assignment(version=1, assigned_partitions=topics))


class Team:
    """One group, and what happens to it."""

    def __init__(self, served: Served, group: str, style: Style, seed: int) -> None:
        self.served, self.group, self.style = served, group, style
        self.random = Random(seed)
        self.running: list[Consumer] = []
        self._number = 0

    async def live(self, incidents: int) -> None:
        """So many incidents, one after the other, with some calm between them."""
        for _ in range(3):
            self.start()
        await self.calm()
        for _ in range(incidents):
            happen = self.random.choice(INCIDENTS)
            if len(self.running) > MOST and happen in (scaled_up, doubled):
                happen = scaled_down
            if len(self.running) < 2 and happen not in (scaled_up, doubled):
                happen = scaled_up
            await happen(self)
            await self.calm()
        for each in self.running:
            each.kill()

    async def calm(self) -> None:
        await asyncio.sleep(self.random.uniform(30, 60))

    def start(self, name: str = "") -> Consumer:
        if not name:
            self._number += 1
            name = f"{self.group}-{self._number}"
        made = Consumer(self.served, self.group, name, self.style)
        self.running.append(made)
        return made

    def take(self) -> Consumer:
        """One of them, that runs no longer for the team."""
        return self.running.pop(self.random.randrange(len(self.running)))

    async def wait(self, least: float, most: float) -> None:
        await asyncio.sleep(self.random.uniform(least, most))


async def scaled_up(team: Team) -> None:
    team.start()


async def doubled(team: Team) -> None:
    team.start()
    await team.wait(0, 4)
    team.start()


async def started_together(team: Team) -> None:
    """The last one joins while the leader computes assignments for the others."""
    leaving, team.running = team.running, []
    for each in leaving:
        await each.close()
    await team.calm()
    for each in leaving:
        team.start(each.name)
        await team.wait(0, 0.3)


async def scaled_down(team: Team) -> None:
    await team.take().close()


async def crashed(team: Team) -> None:
    team.take().kill()
    await team.wait(20, 40)


async def restarted(team: Team) -> None:
    gone = team.take()
    await gone.close()
    await team.wait(1, 20)
    team.start(gone.name)


async def crashed_and_back(team: Team) -> None:
    gone = team.take()
    gone.kill()
    await team.wait(1, 20)
    team.start(gone.name)


async def resubscribed(team: Team) -> None:
    each = team.random.choice(team.running)
    each.topics = [["orders", "payments"], ["orders"]][len(each.topics) - 1]
    await each.rejoin()


async def asked_again(team: Team) -> None:
    """The leader saw partitions come or go."""
    for each in team.running:
        if each.leads:
            await each.rejoin()


async def stuck(team: Team) -> None:
    each = team.random.choice(team.running)
    each.stick()
    await team.wait(70, 90)


async def idle_then_closed(team: Team) -> None:
    gone = team.take()
    gone.is_idle = True
    await team.wait(5, 40)
    await gone.close()


async def rolled(team: Team) -> None:
    for each in [*team.running]:
        team.running.remove(each)
        await each.close()
        await team.wait(2, 8)
        team.start(each.name)
        await team.wait(8, 15)


async def all_closed(team: Team) -> None:
    leaving, team.running = team.running, []
    for each in leaving:
        await each.close()
        await team.wait(0, 2)
    await team.calm()
    for each in leaving:
        team.start(each.name)


async def all_killed(team: Team) -> None:
    leaving, team.running = team.running, []
    for each in leaving:
        each.kill()
    await team.calm()
    for each in leaving:
        team.start(each.name)


Incident = Callable[[Team], Awaitable[None]]
INCIDENTS: Final[Sequence[Incident]] = (
    *(scaled_up, doubled, scaled_down, crashed, restarted, crashed_and_back, resubscribed),
    *(asked_again, stuck, idle_then_closed, rolled, all_closed, all_killed, started_together),
)
STYLES: Final = (
    Style(),
    Style(protocol="cooperative-sticky"),
    Style(is_static=True),
    Style(session_ms=30_000),
    Style(is_static=True, protocol="cooperative-sticky", session_ms=20_000),
    Style(commits=False),
)


def told(event: Event) -> tuple[bytes, bytes]:
    """Key and value of the record of an event."""
    return (event.group or "").encode(), encode(event)


def churn(incidents: int, seed: int) -> tuple[bytes, list[Event]]:
    """Let a group of each style live; returns the log of their partition, and its events."""
    served = Served("offsets.topic.num.partitions=1", seed=seed)

    async def play() -> None:
        teams = [
            Team(served, f"team-{number}", style, seed + number)
            for number, style in enumerate(STYLES)
        ]
        await asyncio.gather(*(team.live(incidents) for team in teams))

    served.run(play())
    served.advance(120)
    served.run(served.server._writer.call(served.server.store.catch_up))
    log = served.log("team-0")
    data = b"".join(bytes(piece) for piece in log.batches(log.start_offset))
    events = list(events_in(served.server.event_logs.log_of(0)))
    served.close()
    return data, events
