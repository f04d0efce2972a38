"""What is measured, case by case. One call is one run against one server; rounds and medians are
run.py's.

A figure's name carries its unit: `*_per_s` is better the larger, everything else the smaller.
"""

import contextlib
import gc
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import wire
from benchmarks.crowd import Crowd, Link, Script, dial
from benchmarks.hotloop import HotLoop
from benchmarks.members import Group, Member, form, stable_groups
from benchmarks.processes import Cores, Meter, cpu_seconds, resident_mib
from benchmarks.targets import Server, Target, create_topic, first_join

_REST_S = 0.2  # after which events, which are written behind the answers, are written, too
_FILL_S = 300.0


@dataclass(slots=True)
class Run:
    """Figures of one run, and the cores in use while it was measured."""

    figures: dict[str, float]
    cores: Cores


Load = Callable[[Server, float], Run]  # server, seconds to measure


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection of the generator's own inside a measured stretch."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# ------------------------------------------------------------ closed loops


def heartbeats(connections: int, depth: int = 1) -> Load:
    def load(server: Server, seconds: float) -> Run:
        with _members(server, connections, 10) as members:
            return _closed_loop(server, beating(members), seconds, depth)

    return load


def commits(connections: int, partitions: int) -> Load:
    def load(server: Server, seconds: float) -> Run:
        with _members(server, connections, 1) as members:
            return _closed_loop(server, committing(members, partitions), seconds)

    return load


def beating(members: list[Member]) -> HotLoop:
    """Heartbeats of settled members."""
    requests = [member.heartbeat() for member in members]
    return HotLoop([member.link.fd for member in members], requests, wire.heartbeat_answer())


def committing(members: list[Member], partitions: int) -> HotLoop:
    """Commits of settled members, of so many partitions each."""
    requests = [member.commit(partitions) for member in members]
    fds = [member.link.fd for member in members]
    return HotLoop(fds, requests, wire.offset_commit_answer(partitions), partitions)


@contextlib.contextmanager
def _members(server: Server, count: int, group_size: int) -> Iterator[list[Member]]:
    """Settled members that leave afterwards; the floor knows only groups of one."""
    groups = stable_groups(server.port, count, 1 if server.name == "floor" else group_size)
    try:
        yield [member for group in groups for member in group.members]
        with contextlib.closing(Link(server.port)) as link:
            for group in groups:
                group.leave(link)
    finally:
        for group in groups:
            group.close()


def _closed_loop(server: Server, loop: HotLoop, seconds: float, depth: int = 1) -> Run:
    loop.run(min(0.5, seconds / 4), depth)
    with _uncollected():
        meter = Meter(server.pid)
        outcome = loop.run(seconds, depth)
        cores = meter.read()
    figures = {
        "requests_per_s": outcome.per_second,
        "p50_us": outcome.quantile_us(0.5),
        "p99_us": outcome.quantile_us(0.99),
        "cpu_us": cores.server * cores.seconds * 1e6 / max(outcome.answered, 1),
    }
    return Run(figures, cores)


# ------------------------------------------------------------ groups


def joins(size: int, rounds: int) -> Load:
    """Cold starts of one group of a size, each followed by three rebalances of it."""

    def load(server: Server, _seconds: float) -> Run:
        cold, again, generations = [], [], []
        meter = Meter(server.pid)
        for _ in range(rounds):
            group = Group.of(dial(server.port, size))
            cold.append(_settling(server, group, lambda group: form([group])))
            generations.append(group.generations)
            for _ in range(3):
                settle = lambda group: Crowd().run(group.rebalance())  # noqa: E731
                again.append(_settling(server, group, settle))
            with contextlib.closing(Link(server.port)) as link:
                group.leave(link)
            group.close()
        figures = {"cold_generations": statistics.median(generations)}
        for name, measured in (("cold", cold), ("rebalance", again)):
            figures[f"{name}_ms"] = statistics.median(took for took, _ in measured)
            figures[f"{name}_cpu_us"] = statistics.median(used for _, used in measured)
        return Run(figures, meter.read())

    return load


def _settling(server: Server, group: Group, settle: Callable[[Group], None]) -> tuple[float, float]:
    """Milliseconds until the last member holds its assignment, and microseconds of processor time
    that the server uses for each member until it has written all of it down.
    """
    with _uncollected():
        used, started = cpu_seconds(server.pid), time.perf_counter()
        settle(group)
        took = (group.settled_at - started) * 1000
        time.sleep(_REST_S)
    return took, (cpu_seconds(server.pid) - used) * 1e6 / len(group.members)


def restarts(size: int, at_a_time: int) -> Load:
    """Members of one static group come back again and again, so many at a time, without moving the
    generation.
    """

    def load(server: Server, seconds: float) -> Run:
        group = stable_groups(server.port, size, size, static=True)[0]
        took: list[float] = []
        with _uncollected():
            meter = Meter(server.pid)
            start = time.perf_counter()
            until = start + seconds
            lanes = [group.members[lane::at_a_time] for lane in range(at_a_time)]
            Crowd().run([(lane[0].link, _turns(lane, until, took)) for lane in lanes])
            elapsed = time.perf_counter() - start
            cores = meter.read()
        with contextlib.closing(Link(server.port)) as link:
            group.leave(link)
        group.close()
        took.sort()
        figures = {
            "restarts_per_s": len(took) / elapsed,
            "p50_us": took[len(took) // 2] * 1e6,
            "p99_us": took[int(len(took) * 0.99)] * 1e6,
            "cpu_us": cores.server * cores.seconds * 1e6 / len(took),
        }
        return Run(figures, cores)

    return load


def _turns(lane: list[Member], until: float, took: list[float]) -> Script:
    """Lets the members of a lane restart in turn, over the connection of the first."""
    turn = 0
    while (start := time.perf_counter()) < until:
        yield from lane[turn % len(lane)].restart()
        took.append(time.perf_counter() - start)
        turn += 1


def storm(groups: int) -> Load:
    """So many groups of three form at once."""

    def load(server: Server, _seconds: float) -> Run:
        links = dial(server.port, groups * 3)
        made = [Group.of(links[at : at + 3]) for at in range(0, len(links), 3)]
        with _uncollected():
            meter = Meter(server.pid)
            start = time.perf_counter()
            form(made)
            time.sleep(_REST_S)
            cores = meter.read()
        elapsed = max(group.settled_at for group in made) - start
        with contextlib.closing(Link(server.port)) as link:
            for group in made:
                group.leave(link)
        for group in made:
            group.close()
        used = cores.server * cores.seconds
        return Run({"groups_per_s": groups / elapsed, "cpu_us": used * 1e6 / groups}, cores)

    return load


# ------------------------------------------------------------ cases that start servers themselves


def ready(name: str, base: Path, target: Target | None = None) -> dict[str, float]:
    """Process start until the first JoinGroup is answered, from an empty directory; processor time
    and memory then. `target` as of `Server`.
    """
    server = Server(name, base, target=target)
    try:
        took, used = server.wait(first_join), cpu_seconds(server.pid)
        return {"ready_ms": took, "cpu_ms": used * 1000, "idle_mib": resident_mib(server.pid)}
    finally:
        server.stop()


def memory(server: Server) -> dict[str, float]:
    """Resident memory of a fresh server while 1,000 members in groups of ten are beating."""
    with _members(server, 1000, 10) as members:
        beating(members).run(0.5)
        return {"members_1000_mib": resident_mib(server.pid)}


def replay(name: str, base: Path, commits_made: int) -> dict[str, float]:
    """Commits of 20 partitions by 50 members, kill -9, and the time until all offsets are read back
    after a start.
    """
    server = Server(name, base)
    try:
        server.wait(first_join)
        create_topic(server)
        groups = stable_groups(server.port, 50, 1)
        loop = committing([group.members[0] for group in groups], 20)
        filled = loop.run(_FILL_S, limit=commits_made)
        os.kill(server.pid, signal.SIGKILL)
        expected = dict(zip((group.name for group in groups), loop.last_ids(), strict=True))
        for group in groups:
            group.close()
        server.stop(kill=True)
        server = Server(name, base, after=server)
        took = server.wait(lambda server: _read_back(server, expected))
        return {"replay_ms": took, "records": 20 * filled.answered}
    finally:
        server.stop(kill=True)


class LostCommitError(Exception):
    """An acknowledged commit is not there any more."""


def _read_back(server: Server, expected: dict[bytes, int]) -> None:
    with contextlib.closing(Link(server.port)) as link:
        for group, offset in expected.items():
            error, offsets = wire.fetched(link.call(wire.offset_fetch(group, 20)))
            if error:
                raise wire.WrongAnswerError(f"OffsetFetch: error {error}")
            if offsets != dict.fromkeys(range(20), offset):
                raise LostCommitError(
                    f"{server.name} lost commits: {offsets} instead of {offset} each"
                )
