"""What happens to groups: each incident is written as a person would tell it.

An incident begins and ends with a stable group, or one without members. `note.numbers` keeps what
the incident was made of, for those who compare.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.weeks.process import QUICK_S, Process
from tests.weeks.scribe import Incident
from tests.weeks.team import Team, TeamPlan

DENSE_S: Final = 60.0
"""Commits this far apart tell a silence and a rhythm by the minute."""

Happens = Callable[[Team, Incident], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """`fits` says which groups it can happen to."""

    name: str
    happens: Happens
    fits: Callable[[TeamPlan], bool]
    weight: int


KINDS: Final[dict[str, Kind]] = {}


def kind(
    fits: Callable[[TeamPlan], bool] = lambda plan: True, weight: int = 1
) -> Callable[[Happens], Happens]:
    def add(happens: Happens) -> Happens:
        KINDS[happens.__name__] = Kind(happens.__name__, happens, fits, weight)  # type: ignore[attr-defined]
        return happens

    return add


def is_dynamic(plan: TeamPlan) -> bool:
    return not plan.is_static and plan.members > 1


def is_eager(plan: TeamPlan) -> bool:
    """A change is one round."""
    return is_dynamic(plan) and not plan.is_cooperative


def is_dense(plan: TeamPlan) -> bool:
    """A silence and a rhythm can be told."""
    return plan.members > 1 and plan.partitions >= plan.members and plan.commit_s <= DENSE_S


def is_static(plan: TeamPlan) -> bool:
    return plan.is_static and plan.members > 1


def has_two(plan: TeamPlan) -> bool:
    return plan.members > 1


def _victim(team: Team, note: Incident) -> Process:
    process = team.random.choice(team.processes)
    note.subject = process.client_id
    return process


def _owner(team: Team, note: Incident) -> Process:
    process = team.random.choice([each for each in team.processes if each.share])
    note.subject = process.client_id
    return process


async def _leave(team: Team, process: Process) -> None:
    """A dynamic member leaves; the others go on without it."""
    await team.after_round(process.leave())


async def _bounce(team: Team, process: Process, away_s: float) -> Process:
    """It leaves and comes back: two rounds."""
    await _leave(team, process)
    await asyncio.sleep(away_s)
    return await team.again(process)


# -- restarts ------------------------------------------------------------------------------------


@kind(is_dynamic, weight=3)
async def deploy(team: Team, note: Incident) -> None:
    """All members are restarted one after the other: two rounds each."""
    for process in list(team.processes):
        await _bounce(team, process, team.random.uniform(8, 20))
        await team.waits(20, 60)


@kind(is_static, weight=3)
async def deploy_static(team: Team, note: Incident) -> None:
    """The same with instance ids: no round."""
    for process in list(team.processes):
        away_s = team.random.uniform(5, 0.5 * team.plan.session_ms / 1000)
        process.crash()
        await team.waits(away_s, away_s)
        await team.again(process)
        await team.waits(20, 60)


@kind(has_two, weight=3)
async def crash(team: Team, note: Incident) -> None:
    """A process is killed; its session expires, and it comes back later."""
    process = _victim(team, note)
    process.crash()
    await team.loses(process)
    await team.waits(30, 1200)
    await team.again(process)


@kind(is_dynamic, weight=3)
async def scale(team: Team, note: Incident) -> None:
    """A process more for some time, perhaps more processes than partitions."""
    more = [team.new(len(team.processes) + each) for each in range(team.random.randint(1, 3))]
    for process in more:
        team.processes.append(process)
        process.start()
        await team.settled()
        await team.waits(5, 30)
    note.numbers["members"] = len(team.processes)
    await team.waits(600, 3600)
    for process in reversed(more):
        await _leave(team, process)
        team.processes.remove(process)


@kind(weight=1)
async def goes_away(team: Team, note: Incident) -> None:
    """All members leave, the group is deleted, and hours later it comes again."""
    if team.random.random() < 0.5:  # at once: one round, which nobody is left to end
        await asyncio.gather(*(_close(team, each) for each in team.processes))
    else:
        for process in list(team.processes):
            await team.after_round(_close(team, process))
            await team.waits(0.5, 3)
    await team.waits(60, 1800)
    reply = await team.ask(2, DeleteGroupsRequest(groups_names=[team.plan.name]))
    assert reply.results[0].error_code == 0
    team.era += 1
    team.scribe.ends.append({"group": team.plan.name, "at_ms": team.scribe.wall_ms()})
    await team.waits(1800, 7200)
    await team.begin()


async def _close(team: Team, process: Process) -> None:
    """For good; an administrator removes a static member."""
    await process.leave()
    if process.instance is not None:
        await team.remove(process)


@kind(is_static, weight=1)
async def removed_by_admin(team: Team, note: Incident) -> None:
    """A static process ends, somebody removes it, and it is started again later."""
    process = _victim(team, note)
    await process.leave()
    await team.waits(2, 20)
    await team.after_round(team.remove(process))
    await team.waits(30, 600)
    await team.again(process)


# -- many rounds ---------------------------------------------------------------------------------


@kind(lambda plan: is_dynamic(plan) and plan.members > 2, weight=1)
async def storm(team: Team, note: Incident) -> None:
    """Different members leave and come back within minutes: six rounds or more."""
    for process in team.random.sample(team.processes, 3):
        await _bounce(team, process, team.random.uniform(5, 20))
        await team.waits(5, 40)


@kind(is_eager, weight=1)
async def nearly_storm(team: Team, note: Incident) -> None:
    """Four rounds in ten minutes, and a fifth just after them."""
    began = team.loop.time()
    for process in team.random.sample(team.processes, 2):
        await _bounce(team, process, team.random.uniform(5, 20))
        await team.waits(5, 40)
    rest_s = began + 640 - team.loop.time()
    await team.waits(rest_s, rest_s)
    await _rejoin(team, _leader(team), "leader_rejoined")


@kind(is_dynamic, weight=1)
async def flapping(team: Team, note: Incident) -> None:
    """One member goes and comes three times or more in ten minutes."""
    process = _victim(team, note)
    for _ in range(team.random.randint(3, 5)):
        process = await _bounce(team, process, team.random.uniform(5, 20))
        await team.waits(10, 50)


@kind(is_dynamic, weight=1)
async def nearly_flapping(team: Team, note: Incident) -> None:
    """Five changes within ten minutes, the sixth after them."""
    process = _victim(team, note)
    began = team.loop.time()
    for _ in range(2):
        process = await _bounce(team, process, team.random.uniform(5, 20))
        await team.waits(10, 50)
    await _leave(team, process)
    rest_s = began + 660 - team.loop.time()
    await team.waits(rest_s, rest_s)
    await team.again(process)


@kind(has_two, weight=1)
async def leader_rejoins(team: Team, note: Incident) -> None:
    """The leader asks for new assignments, as clients do when they see partitions come."""
    leader = _leader(team)
    note.subject = leader.client_id
    await _rejoin(team, leader, "leader_rejoined")


def _leader(team: Team) -> Process:
    [leader] = [each for each in team.processes if each.leads and each.is_running]
    return leader


async def _rejoin(team: Team, process: Process, cause: str) -> None:
    process.rejoins_as, process.must_join = cause, True
    process.wake()
    await team.settled()


@kind(has_two, weight=1)
async def subscribes(team: Team, note: Incident) -> None:
    """A member rejoins with one topic more, or less."""
    process = _victim(team, note)
    more = [f"{team.plan.topic}-more"] if len(process.topics) == 1 else []
    process.topics = [team.plan.topic, *more]
    await _rejoin(team, process, "subscription_changed")


# -- stale members -------------------------------------------------------------------------------


@kind(is_dynamic, weight=2)
async def zombie(team: Team, note: Incident) -> None:
    """A process is paused beyond its session, and goes on committing for minutes afterwards."""
    process = _owner(team, note)
    share = list(process.share)
    process.crash(hangs_up=False)
    await team.loses(process)
    await team.waits(5, 60)
    process.is_zombie, process.share = True, share
    count = team.random.randint(12, 40)
    team.is_watched = False
    for _ in range(count):
        await process.commit()
        await asyncio.sleep(team.random.uniform(8, 12))
    await team.watch()
    note.numbers["refused"] = count
    process.share = []
    process.hang_up()
    await team.again(process)


@kind(is_dynamic, weight=2)
async def pause(team: Team, note: Incident) -> None:
    """A process is paused beyond its session, is refused once, and joins again."""
    process = _victim(team, note)
    process.crash(hangs_up=False)
    await team.loses(process)
    await team.waits(5, 60)
    process.resume()
    process.wake()
    await asyncio.sleep(3.5)
    await team.settled()


@kind(is_static, weight=2)
async def duel(team: Team, note: Incident) -> None:
    """Two hosts run a process with one instance id, and each comes back when it was fenced."""
    process = _victim(team, note)
    note.subject = process.instance or ""
    hosts = [process.host, f"{process.host}9"]
    swings = team.random.randint(4, 9)
    current = process
    for number in range(1, swings + 1):
        new = team.reborn(current, host=hosts[number % 2])
        new.start()
        await team.waits(6, 12)
        await team.settled()
        assert current.is_fenced, current.client_id
        current.hang_up()
        current = new
    note.numbers["swings"] = swings


@kind(is_static, weight=1)
async def moves_host(team: Team, note: Incident) -> None:
    """A static process moves to another host, and back after more than a minute."""
    process = _victim(team, note)
    for host in (f"{process.host}8", process.host):
        process.crash()
        await team.waits(5, 15)
        process = await team.again(process, host=host)
        await team.waits(70, 200)


@kind(is_static, weight=1)
async def restarts_twice(team: Team, note: Incident) -> None:
    """A static process is restarted twice within a minute, on its own host: no duel."""
    process = _victim(team, note)
    for _ in range(2):
        process.crash()
        await asyncio.sleep(team.random.uniform(4, 8))
        process = await team.again(process)
        await asyncio.sleep(team.random.uniform(4, 8))


# -- slow, silent and idle -----------------------------------------------------------------------


@kind(lambda plan: is_dynamic(plan) and plan.members > 2, weight=2)
async def slow_member(team: Team, note: Incident) -> None:
    """One member comes back late to poll, and all others wait for it, in four rounds."""
    slow, other = team.random.sample(team.processes, 2)
    note.subject = slow.client_id
    slow.poll_s = (20.0, 45.0)
    for _ in range(2):
        other = await _bounce(team, other, team.random.uniform(5, 20))
        await team.waits(200, 400)
    slow.poll_s = QUICK_S


@kind(lambda plan: is_eager(plan) and plan.members > 2, weight=1)
async def stuck_member(team: Team, note: Incident) -> None:
    """One member comes back to poll after the rebalance timeout: the group goes on without it."""
    stuck, other = team.random.sample(team.processes, 2)
    note.subject = stuck.client_id
    late_s = team.plan.rebalance_ms / 1000 + 30
    stuck.poll_s = (late_s, late_s)
    await other.leave()
    stuck.poll_s = QUICK_S
    await asyncio.sleep(late_s)
    await team.settled()
    await team.again(other)


@kind(lambda plan: is_dynamic(plan) and plan.members > 2, weight=1)
async def nearly_slow(team: Team, note: Incident) -> None:
    """A member is last by less than a second."""
    process = _victim(team, note)
    await _bounce(team, process, team.random.uniform(5, 20))


@kind(is_dense, weight=2)
async def silent_owner(team: Team, note: Incident) -> None:
    """A member owns partitions and commits nothing for half an hour, while the others do."""
    process = _owner(team, note)
    note.numbers["partitions"] = list(process.share)
    process.commits_every(None)
    await asyncio.sleep(team.random.uniform(1200, 3600))
    process.commits_every(0)


@kind(has_two, weight=1)
async def nearly_silent(team: Team, note: Incident) -> None:
    """A member leaves out three commits."""
    process = _owner(team, note)
    process.commits_every(None)
    await asyncio.sleep(3.2 * team.plan.commit_s)
    process.commits_every(0)


@kind(is_dense, weight=2)
async def rhythm(team: Team, note: Incident) -> None:
    """The application commits a fourth as often for hours."""
    await _pace(team, note, 4.0)


@kind(is_dense, weight=1)
async def nearly_rhythm(team: Team, note: Incident) -> None:
    """It commits half as often."""
    await _pace(team, note, 2.0)


async def _pace(team: Team, note: Incident, factor: float) -> None:
    note.numbers["factor"] = factor
    for process in team.processes:
        process.commits_every(process.commit_s * factor)
    await asyncio.sleep(team.random.uniform(4, 6) * 3600)
    for process in team.processes:
        process.commits_every(process.commit_s / factor)


LONG: Final = frozenset({"silent_owner", "nearly_silent", "rhythm", "nearly_rhythm"})
"""Nothing has to be watched: no round is part of it."""
