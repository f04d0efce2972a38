"""Weeks of many groups under virtual time: which groups there are, and what happens to them when.

Everything follows from the seed. The result is a data directory as the server left it, and tables
of what happened.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from groupkeeper.observe import logs
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.placement import partition_of
from tests.simulation.cluster import START_OF_TIME_MS
from tests.simulation.consumer import Wire
from tests.support.virtual_loop import VirtualLoop
from tests.weeks.incidents import DENSE_S, KINDS, LONG
from tests.weeks.machine import WeeksMachine, dial
from tests.weeks.process import Process
from tests.weeks.scribe import Coordinator, Scribe
from tests.weeks.team import Team, TeamPlan

_LOCKS: Final = "groupkeeper.server.directory.LOOK_S"
_CONNECTIONS: Final = "groupkeeper.connections.connection_table.LOOK_S"
LOOK_S: Final = 600.0
"""How often the server looks for lost locks and stuck connections. There are none, and as often as
it does for others it would be a third of all work.
"""
LOAD_S: Final = 0.001
"""How often partitions are looked at that a coordinator loads: it tells nobody."""
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
SOFTWARE: Final = (
    ("apache-kafka-java 3.9.1",),
    ("confluent-kafka-python 2.6.1",),
    ("apache-kafka-java 3.7.0", "apache-kafka-java 3.9.1"),
    ("aiokafka 0.12.0",),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is made. `shard` of `shards` runs the groups of every so many-th partition."""

    groups: int
    days: float
    seed: int
    shards: int = 1
    shard: int = 0
    partitions: int = 8
    """Of `__consumer_offsets`."""
    incidents_a_day: float = 2.0
    """Of each group."""
    restarts_a_day: float = 1.5
    """Of the coordinator."""
    segment_bytes: int = 1 << 20
    sessions_s: tuple[int, ...] = (60, 300, 600, 600, 600, 900)
    rhythms_s: tuple[float, ...] = (60.0, 480.0, 240.0, 300.0, 480.0, 120.0, 300.0, 360.0, 240.0)
    """Session timeouts of groups, by chance, and times between two commits, in turn."""
    prefix: str = "team"
    """Of the names of groups."""
    transactional: float = 0.0
    """The chance that commits which are added are a transaction of their own."""


def plans(size: Size) -> list[TeamPlan]:
    """All groups of this shard. Those that commit often have members that all own something."""
    random = Random(f"groups {size.seed}")
    found = []
    for number in range(size.groups):
        session_s = random.choice(size.sessions_s)
        rhythm_s = size.rhythms_s[number % len(size.rhythms_s)]
        members = random.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6))
        partitions = random.choice((2, 4, 6, 12))
        if rhythm_s <= DENSE_S:
            members, partitions = 3, 12
        plan = TeamPlan(
            number=number,
            name=f"{size.prefix}-{number:03}",
            topic=f"topic-{number:03}",
            partitions=partitions,
            members=members,
            session_ms=session_s * 1000,
            rebalance_ms=300_000,
            commit_s=min(rhythm_s, session_s // 20 * 10.0),
            rate=random.choice((0.1, 1.0, 20.0)),
            is_static=random.random() < 0.35,
            is_cooperative=random.random() < 0.35,
            software=random.choice(SOFTWARE),
        )
        if partition_of(plan.name, size.partitions) % size.shards == size.shard:
            found.append(plan)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Only errors are logged meanwhile."""
    logs.keep_lines(lambda line: logs.pass_on(line) if line.level == "error" else None)
    try:
        yield
    finally:
        logs.keep_lines(None)


class Weeks:
    """One server and its groups, from beginning to end."""

    def __init__(self, size: Size, folder: Path, *settings: str) -> None:
        """`settings`: more of the server."""
        self.size = size
        self.loop = VirtualLoop(size.seed)
        self.machine = WeeksMachine(
            self.loop,
            folder,
            f"offsets.topic.num.partitions={size.partitions}",
            f"offsets.topic.segment.bytes={size.segment_bytes}",
            *settings,
        )
        self.scribe = Scribe(
            lambda: START_OF_TIME_MS + int(self.loop.time() * 1000) + 1, 1 + size.shard * 1_000_000
        )
        self.teams = [Team(plan, self.loop, self.scribe, size.seed) for plan in plans(size)]
        self.scribe.groups = [
            {
                "group": team.plan.name,
                "partition": partition_of(team.plan.name, size.partitions),
                **{key: value for key, value in asdict(team.plan).items() if key != "name"},
                "assignor": team.plan.assignor,
                "software": ", ".join(team.plan.software),
            }
            for team in self.teams
        ]
        self._loaded_ms: dict[int, int] = {}
        """Partition of the log -> when this coordinator had loaded it."""
        self._calm = asyncio.Condition()
        self._busy = 0
        self._is_held = False
        self._happened: Counter[str] = Counter()

    def run(self, progress: Callable[[float], None] = lambda days: None) -> None:
        """All of it; the server is stopped at the end."""
        asyncio.set_event_loop(self.loop)
        try:
            with patch(_LOCKS, LOOK_S), patch(_CONNECTIONS, LOOK_S):
                self.loop.run_until_complete(self._run(progress))
        finally:
            self._end()

    def _end(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(_ended(tasks))
        asyncio.set_event_loop(None)
        self.loop.close()

    async def _run(self, progress: Callable[[float], None]) -> None:
        await self._start()
        await self._make_topics()
        scripts = [asyncio.ensure_future(self._script(team)) for team in self.teams]
        restarts = asyncio.ensure_future(self._restarts())
        end = self.size.days * DAY_S
        while self.loop.time() < end:
            await asyncio.sleep(min(HOUR_S, end - self.loop.time()))
            progress(self.loop.time() / DAY_S)
            for task in (*scripts, restarts):
                if task.done():
                    task.result()
        await asyncio.gather(*scripts, restarts)
        await asyncio.sleep(90)  # commits of the last minute are events then
        await self._stop("stopped")
        for team in self.teams:
            team.close()

    async def _make_topics(self) -> None:
        wire = Wire("admin")
        dial(self.loop, wire, "10.9.9.9")
        topics = [
            CreatableTopic(
                name=team.plan.topic, num_partitions=team.plan.partitions, replication_factor=1
            )
            for team in self.teams
        ]
        if topics:
            reply = await wire.call(5, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            assert not any(each.error_code for each in reply.topics), reply

    # -- the coordinator -----------------------------------------------------------------------

    async def _start(self) -> None:
        self.scribe.coordinators.append(Coordinator(self.scribe.wall_ms()))
        await self.machine.start()
        server = self.machine.server
        assert server is not None
        self._loaded_ms = {}
        while True:
            partitions = list(server.group_partitions.snapshots())
            for each in partitions:
                if each.state == "active":
                    self._loaded_ms.setdefault(each.partition, self.scribe.wall_ms())
            if len(self._loaded_ms) == len(partitions):
                return
            await asyncio.sleep(LOAD_S)

    async def _stop(self, how: str) -> None:
        server = self.machine.server
        assert server is not None
        self.scribe.coordinators[-1].until_ms = self.scribe.wall_ms()
        self.scribe.coordinators[-1].how = how
        if how == "stopped":
            await server.stop()
        self.machine.kill()

    async def _restarts(self) -> None:
        """Now and then the server is stopped or killed, while nothing else happens."""
        random = Random(f"restarts {self.size.seed}")
        count = round(self.size.restarts_a_day * self.size.days)
        times = sorted(random.uniform(0.05, 0.95) * self.size.days * DAY_S for _ in range(count))
        for at in times:
            await asyncio.sleep(max(0, at - self.loop.time()))
            async with self._calm:
                self._is_held = True
                await self._calm.wait_for(lambda: not self._busy)
                await self._restart(random)
                self._is_held = False
                self._calm.notify_all()

    async def _restart(self, random: Random) -> None:
        how, away_s = random.choice(("stopped", "killed")), random.uniform(2, 20)
        await self._stop(how)
        await asyncio.sleep(away_s)
        lost = self._dies(random) if how == "killed" else None
        await self._start()
        if lost is not None:
            partition = partition_of(lost[0].plan.name, self.size.partitions)
            lost[0].dies_in_outage(lost[1], self._loaded_ms[partition])
        await asyncio.sleep(30)
        for team in self.teams:
            await team.settled()
        if lost is not None:
            await self._comes_back(*lost)

    def _dies(self, random: Random) -> tuple[Team, Process] | None:
        """A process of some group ends with the coordinator."""
        teams = [team for team in self.teams if len(team.processes) > 1 and team.members > 1]
        if not teams:
            return None
        team = random.choice(teams)
        process = random.choice(team.processes)
        process.stop()
        return team, process

    async def _comes_back(self, team: Team, process: Process) -> None:
        team.incident = self.scribe.incident(team.plan.name, "dies_in_outage")
        async with team.watched():
            await team.loses(process)
            await team.again(process)
        team.incident.until_ms = self.scribe.wall_ms()
        team.incident = None

    # -- the groups ----------------------------------------------------------------------------

    async def _script(self, team: Team) -> None:
        """One incident after the other."""
        random, size = team.random, self.size
        await asyncio.sleep(random.uniform(0, 600))
        await self._happens(team, "begin")
        while True:
            pause_s = random.uniform(0.5, 1.5) * DAY_S / size.incidents_a_day
            due = self.loop.time() + max(1800.0, pause_s - 1800)
            if due > size.days * DAY_S - 4 * HOUR_S:
                return
            await asyncio.sleep(due - self.loop.time())
            await self._happens(team, self._next(team))

    def _next(self, team: Team) -> str:
        """The kind that fits and has happened least often so far, for its weight."""
        fitting = [each for each in KINDS.values() if each.fits(team.plan)]
        team.random.shuffle(fitting)
        chosen = min(fitting, key=lambda each: self._happened[each.name] / each.weight)
        self._happened[chosen.name] += 1
        return chosen.name

    async def _happens(self, team: Team, name: str) -> None:
        if name in LONG:
            await self._note(team, name)
            return
        async with self._calm:
            await self._calm.wait_for(lambda: not self._is_held)
            self._busy += 1
        await self._note(team, name)
        async with self._calm:
            self._busy -= 1
            self._calm.notify_all()

    async def _note(self, team: Team, name: str) -> None:
        note = team.incident = self.scribe.incident(team.plan.name, name)
        if name == "begin":
            await team.begin()
        elif name in LONG:
            await KINDS[name].happens(team, note)
        else:
            async with team.watched():
                await KINDS[name].happens(team, note)
        note.until_ms = self.scribe.wall_ms()
        team.incident = None


async def _ended(tasks: "set[asyncio.Task[None]]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
