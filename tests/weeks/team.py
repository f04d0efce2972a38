"""One group and its processes, with the verbs that incidents are written in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from groupkeeper.protocol.message import Message
from tests.simulation.consumer import Wire
from tests.support.virtual_loop import VirtualLoop
from tests.weeks.machine import dial
from tests.weeks.process import BEAT_S, Process
from tests.weeks.scribe import Incident, Scribe, Trigger

POLL_S = 0.25
AFTERWARDS_S = 10.0
"""A group is watched so long after an incident."""
STUCK_S = 7200.0


class Who(Protocol):
    """A client that makes a group rebalance."""

    client_id: str
    host: str
    instance: str | None
    software: str


@dataclass
class Client:
    """A client that is no member."""

    client_id: str
    host: str
    instance: str | None = None
    software: str = ""


ADMIN: Final = Client("admin", "10.9.9.9")


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """What a group is like."""

    number: int
    name: str
    topic: str
    partitions: int
    members: int
    session_ms: int
    rebalance_ms: int
    commit_s: float
    """Between two commits of a process."""
    rate: float
    """Records a second and partition."""
    is_static: bool
    is_cooperative: bool
    software: tuple[str, ...]
    """Name and version of client libraries, with a blank between them; processes take turns."""

    @property
    def assignor(self) -> str:
        return "cooperative-sticky" if self.is_cooperative else "range"


class Team:
    """The processes of a group, as far as they run, and what the coordinator knows of them."""

    def __init__(self, plan: TeamPlan, loop: VirtualLoop, scribe: Scribe, seed: int) -> None:
        self.plan = plan
        self.loop = loop
        self.scribe = scribe
        self.random = Random(f"{seed} {plan.name}")
        self.ends = [self.random.randrange(10_000) for _ in range(plan.partitions)]
        """The next offset to be committed of each partition."""
        self.processes: list[Process] = []
        self.members = 0
        self.era = 0
        self.incident: Incident | None = None
        self.is_watched = True
        self._known: dict[str, Process] = {}
        """Static members: instance id -> the process that has it."""
        self._expiries: dict[Process, asyncio.TimerHandle] = {}
        scribe.triggers[plan.name] = []

    # -- told by processes ---------------------------------------------------------------------

    def trigger(self, cause: str, who: Who, change: int, at_ms: int | None = None) -> None:
        """Something that starts a round reaches the coordinator."""
        self.members += change
        self.scribe.triggers[self.plan.name].append(
            Trigger(
                self.scribe.wall_ms() if at_ms is None else at_ms,
                cause,
                who.client_id,
                who.host,
                who.instance,
                who.software,
                self.members,
                self.incident.number if self.incident is not None else 0,
                next(self.scribe.order),
            )
        )

    def coming(self, process: Process) -> bool:
        """It joins without a member id; returns whether the coordinator has a member for it."""
        if process.instance is None:
            self.trigger("member_joined", process, 1)
            return False
        if process.instance in self._known:
            old = self._known[process.instance]
            if old in self._expiries:
                self._expiries.pop(old).cancel()
            return True
        self.trigger("static_member_joined", process, 1)
        return False

    def met(self, process: Process, member: str, is_known: bool) -> None:
        """Its join was answered."""
        if process.instance is not None:
            if is_known and self._known[process.instance].member_id != member:
                self._known[process.instance].replaced_by(member, process)
            self._known[process.instance] = process

    def gone(self, process: Process) -> None:
        """It is not heard of any more: its session expires unless it comes back before."""
        due_ms = process.heard_ms + self.plan.session_ms
        wait_s = (due_ms - self.scribe.wall_ms()) / 1000
        self._expiries[process] = self.loop.call_later(wait_s, self.expired, process, due_ms)

    def expired(self, process: Process, at_ms: int) -> None:
        self._expiries.pop(process, None)
        self.trigger("session_expired", process, -1, at_ms)
        self._forget(process, "crashed", at_ms)

    def _forget(self, process: Process, how: str, at_ms: int | None = None) -> None:
        process.end(how, at_ms)
        self._known.pop(process.instance or "", None)

    def left_out(self, process: Process) -> None:
        """A join phase ended without it: it heard so when it was refused."""
        self.members -= 1
        self._forget(process, "left_out")

    # -- verbs ---------------------------------------------------------------------------------

    def new(self, number: int | None = None, *, host: str = "") -> Process:
        """A process that is not started yet; numbers of processes tell client ids apart."""
        number = len(self.processes) if number is None else number
        instance = f"{self.plan.name}-i-{number}" if self.plan.is_static else None
        return Process(self, number, instance, host)

    async def begin(self) -> None:
        """All processes start within seconds, and the group becomes stable."""
        async with self.watched():
            self.processes = []
            for _ in range(self.plan.members):
                self.processes.append(self.new())
            for process in self.processes:
                process.start()
                await asyncio.sleep(self.random.uniform(0.1, 0.8))
            await self.settled()

    async def again(self, process: Process, *, host: str = "") -> Process:
        """A process of the same identity starts in its place; returns it when all is stable."""
        new = self.reborn(process, host=host)
        new.start()
        await self.settled()
        return new

    def reborn(self, process: Process, *, host: str = "") -> Process:
        number = int(process.client_id.rpartition("-")[2])
        new = self.new(number, host=host or process.host)
        new.commit_s, new.topics = process.commit_s, process.topics
        self.processes[self.processes.index(process)] = new
        return new

    def close(self) -> None:
        """Note what is still owned at the end."""
        for process in self.processes:
            process.close()

    @property
    def newest(self) -> int:
        return max((each.generation for each in self.processes), default=-1)

    async def settled(self) -> None:
        """Wait until all processes that run are in one generation, and none has to rejoin."""
        began = self.loop.time()
        while not self._is_settled():
            assert self.loop.time() < began + STUCK_S, self.stuck()
            await asyncio.sleep(POLL_S)

    def stuck(self) -> str:
        states = [
            (each.client_id, each.generation, each.must_join, each.is_running)
            for each in self.processes
        ]
        return f"{self.plan.name} does not get on in {self.incident}: {states}"

    def _is_settled(self) -> bool:
        running = [each for each in self.processes if each.is_running and not each.is_zombie]
        return len({each.generation for each in running}) <= 1 and all(
            each.is_steady for each in running
        )

    async def after_round(self, action: Awaitable[Any] | None = None) -> None:
        """Do something that starts a round, and wait until that is over."""
        before = self.newest
        if action is not None:
            await action
        began = self.loop.time()
        while self.members and self.newest <= before:
            assert self.loop.time() < began + STUCK_S, self.stuck()
            await asyncio.sleep(POLL_S)
        await self.settled()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Heartbeats are sent as real clients send them."""
        await self.watch()
        yield
        await asyncio.sleep(AFTERWARDS_S)
        self.is_watched = False

    async def watch(self) -> None:
        self.is_watched = True
        for each in self.processes:
            each.wake()
        await asyncio.sleep(BEAT_S)

    async def waits(self, at_least_s: float, at_most_s: float) -> None:
        """Let time pass, in which nothing happens to the group."""
        seconds = self.random.uniform(at_least_s, at_most_s)
        if seconds > 2 * AFTERWARDS_S:
            await asyncio.sleep(AFTERWARDS_S)
            self.is_watched = False
            await asyncio.sleep(seconds - AFTERWARDS_S - BEAT_S)
            await self.watch()
        else:
            await asyncio.sleep(seconds)

    def dies_in_outage(self, process: Process, loaded_ms: int) -> None:
        """It ended while the coordinator was down: its session began anew at the load."""
        process.heard_ms = loaded_ms
        process.software = ""  # not stored: the new coordinator never heard it
        process.crash()

    async def loses(self, process: Process) -> None:
        """Wait for the end of a session that expires, and of the round that follows."""
        wait_s = self._expiries[process].when() - self.loop.time() - BEAT_S
        await self.waits(wait_s, wait_s)
        await self.after_round()

    async def remove(self, process: Process) -> None:
        """LeaveGroup by an administrator."""
        self.trigger("member_removed_by_admin", ADMIN, -1)
        self._forget(process, "removed")
        reply = await self.ask(5, process.leave_request())
        assert reply.members[0].error_code == 0, reply

    async def ask(self, version: int, request: Message) -> Any:
        """The answer to an administrator's request."""
        wire = Wire(ADMIN.client_id)
        dial(self.loop, wire, ADMIN.host)
        reply = await wire.call(version, request)
        wire.transport.close()
        return reply
