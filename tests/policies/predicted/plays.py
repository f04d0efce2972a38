"""The plays whose cost is predicted: what happens to a group, with a policy and without.

Heartbeats are those of Kafka's clients by default, 3 s: what a rebalance costs is made of them, and
what a client needs for itself, some ten milliseconds, is small beside it.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupkeeper.coordinator.policy import OFF, Policy, policy_of
from tests.clients.libraries import CONFLUENT, KAFKA_PYTHON_3
from tests.clients.process import Partition, Worker, wait_until
from tests.policies.clients import CONSUMERS, Client
from tests.policies.party import GRACE, NO_GRACE, RESERVE_ON, Party
from tests.policies.predicted.unread import Turns
from tests.truth.foreign import JAVA

HEARTBEAT_MS: Final = 3_000
SESSION_MS: Final = 25_000
"""So long that it is little beside it when in an interval of heartbeats a process is killed."""
PARTITIONS: Final = 60
REST_S: Final = 4.0
"""Longer than an interval of heartbeats: what was going on is over."""
LATE_MS: Final = 10
"""A heartbeat is that late, as a client's thread looks for it now and then."""
SETTLED_MS: Final = 6_000
"""Members are usually settled so long after an assignment, and processes prepared."""
WINDOW_ENDS_MS: Final = 12_000
"""So long after the last newcomer the rebalance of the window is over."""
LEAVES_MS: Final = 7_000
"""A second after a heartbeat, and two seconds before the next one."""
COMES_MS: Final = 8_100
"""A second before a heartbeat, in which the members are asked; the newcomer's is two seconds later.
"""
AWAY_S: Final = 8.0
STEPS_S: Final = 24.0
"""Longer than all steps; without a policy the log is as long."""
BEFORE_MS: Final = 6_900
APART_MS: Final = 1_700
SPARE_MS: Final = 10_300
NEWCOMERS: Final = ("beta", "gamma", "delta", "epsilon")
PREPARED_S: Final = 1.5
MEASURED: Final = "measured.json"
_SETTLES_S: Final = 60.0
_LOOK_S: Final = 0.2
CLIENTS: Final = tuple(
    each for each in CONSUMERS if each.library in (KAFKA_PYTHON_3, CONFLUENT, JAVA)
)


Begin = Callable[[Party, Callable[[], None]], list[Worker]]
"""What it is given sets the policy, or does nothing in a play without."""


@dataclass(frozen=True, slots=True)
class Play:
    """`number` is that of the check; `begin` plays it, with the policy or without."""

    number: str
    name: str
    configs: Mapping[str, str]
    begin: Begin
    """Returns the members that have partitions at the end."""

    @property
    def policy(self) -> Policy:
        """What the configs say."""
        return policy_of(NO_GRACE | dict(self.configs), OFF) or OFF


PLAYS: Final[list[Play]] = []


def _play(number: str, name: str, configs: Mapping[str, str]) -> Callable[[Begin], Begin]:
    def add(begin: Begin) -> Begin:
        PLAYS.append(Play(number, name, configs, begin))
        return begin

    return add


_KEPT = {GRACE: "60000", RESERVE_ON: "lost,left"}
_WINDOW = {"classic.scale.up.window.ms": "5000"}
_TWO = {"classic.target.group.size": "2"}
_STEPS = {"classic.remote.assignor": "uniform", "classic.rebalance.step.partitions": "5"}


@_play("2", "closed, and back", _KEPT)
def _back(party: Party, set_policy: Callable[[], None]) -> list[Worker]:
    set_policy()
    alpha, beta = _settled(party, "alpha", "beta")
    _prepare(party, 1)
    _sleep_until(_last_turn(alpha) + LEAVES_MS)
    party.leave(beta)
    time.sleep(AWAY_S)
    return [alpha, party.join("beta", SESSION_MS)]


@_play("15", "several newcomers", _WINDOW)
def _newcomers(party: Party, set_policy: Callable[[], None]) -> list[Worker]:
    """The first member's heartbeat comes soon after the window, and the others' later, whatever the
    client needs to start: so it is the one that waits. Without a policy the log is as long.
    """
    set_policy()
    [alpha] = members = _settled(party, "alpha")
    _prepare(party, len(NEWCOMERS))
    first_ms = _last_turn(alpha) + BEFORE_MS
    for index, name in enumerate(NEWCOMERS):
        _sleep_until(first_ms + index * APART_MS)
        members.append(party.join(name, SESSION_MS))
    _sleep_until(first_ms + len(NEWCOMERS) * APART_MS + WINDOW_ENDS_MS)
    return members


def _with_spare(party: Party) -> tuple[list[Worker], Worker]:
    """Without a policy the spare is a member like the others. Returns a while after it joined, two
    seconds before its heartbeat.
    """
    members = _settled(party, "alpha", "beta")
    spare = party.join("gamma", SESSION_MS)
    party.expect(*(f"member_joined who={each}" for each in ("alpha", "beta", "gamma")))
    _sleep_until(party.events("member_joined")[-1].at_ms + SPARE_MS)
    return members, spare


@_play("21a", "a member is closed, and a standby is there", _TWO)
def _closed(party: Party, set_policy: Callable[[], None]) -> list[Worker]:
    set_policy()
    [alpha, beta], spare = _with_spare(party)
    party.leave(beta)
    return [alpha, spare]


@_play("21b", "a member is killed, and a standby is there", _TWO)
def _killed(party: Party, set_policy: Callable[[], None]) -> list[Worker]:
    set_policy()
    [alpha, beta], spare = _with_spare(party)
    party.lose(beta)
    return [alpha, spare]


@_play("24", "a newcomer gets its share in steps", _STEPS)
def _in_steps(party: Party, set_policy: Callable[[], None]) -> list[Worker]:
    """Two members share the partitions before the server assigns, which would take a while."""
    members = _settled(party, "alpha", "beta")
    set_policy()
    _prepare(party, 1)
    _sleep_until(_last_turn(members[0]) + COMES_MS)
    members.append(party.join("gamma", SESSION_MS))
    time.sleep(STEPS_S)
    return members


# -- playing ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured in a play; times are Unix milliseconds."""

    set_ms: int
    """When the policy was set, or would have been."""
    turns: list[Turns]
    """Of each process."""


def play(each: Play, client: Client, folder: Path, *, has_policy: bool) -> None:
    """Play it once. `folder` gets a copy of the data directory, `data`, and what was measured."""
    shutil.rmtree(folder, ignore_errors=True)
    party = Party(client, folder / "play", NO_GRACE)
    set_ms: list[int] = []

    def set_policy() -> None:
        if has_policy:
            party.configure(each.configs)
        set_ms.append(time.time_ns() // 1_000_000)

    try:
        party.more["heartbeat.interval.ms"] = HEARTBEAT_MS
        party.grow(PARTITIONS)
        _settle(party, *each.begin(party, set_policy))
        party.consume()
        time.sleep(_LOOK_S)
        shutil.copytree(party.stage.server.data_dir, folder / "data")
        turns = [
            [(at_ms, sorted(number for _, number in share)) for at_ms, share in worker.turns]
            for worker in party.stage.workers.all
        ]
    finally:
        party.close()
    shutil.rmtree(folder / "play")
    (folder / MEASURED).write_text(json.dumps({"set_ms": set_ms[0], "turns": turns}))


def measured_in(folder: Path) -> Measured:
    """What was measured in a play."""
    told = json.loads((folder / MEASURED).read_text())
    found = [[(at_ms, frozenset(share)) for at_ms, share in turns] for turns in told["turns"]]
    return Measured(told["set_ms"], [each for each in found if each])


def _settled(party: Party, *names: str) -> list[Worker]:
    members: list[Worker] = []
    for name in names:
        members.append(party.join(name, SESSION_MS))
        _settle(party, *members)
    return members


def _prepare(party: Party, number: int) -> None:
    """Start the processes of the next members, and let them load their client."""
    party.stage.workers.prepare(party.group.library, number)
    time.sleep(PREPARED_S)


def _last_turn(member: Worker) -> int:
    """When the member had its last assignment, and whole intervals of heartbeats later: now, or not
    long ago.
    """
    ended_ms = member.turns[-1][0]
    beats = (time.time() * 1000 - ended_ms - SETTLED_MS) // HEARTBEAT_MS + 1
    return ended_ms + max(0, int(beats)) * (HEARTBEAT_MS + LATE_MS)


def _sleep_until(at_ms: int) -> None:
    time.sleep(max(0.0, at_ms / 1000 - time.time()))


def _settle(party: Party, *members: Worker) -> None:
    """Wait until these share all partitions, and nothing moves any more."""
    wait_until(lambda: _is_shared(party, members), list(members), _SETTLES_S)
    _rest(party, len(members))
    wait_until(lambda: _is_shared(party, members), list(members), _SETTLES_S)


def _rest(party: Party, number: int) -> None:
    """Wait until the group has so many members, all partitions have an owner, and nothing moves for
    longer than an interval of heartbeats.
    """
    until = time.monotonic() + _SETTLES_S
    before: object = None
    while True:
        members = party.stage.members
        owned = set[Partition]().union(*(each.owned for each in members))
        is_whole = owned == party.group.partitions and len(party.assignments()) == number
        now = [len(each.turns) for each in members], party.state()["generation"]
        if is_whole and now == before:
            return
        before = now if is_whole else None
        assert time.monotonic() < until, "the group does not come to rest"
        time.sleep(REST_S if is_whole else _LOOK_S)


def _is_shared(party: Party, members: tuple[Worker, ...]) -> bool:
    sizes = [len(each.owned) for each in members]
    whole = set[Partition]().union(*(each.owned for each in members)) == party.group.partitions
    return whole and sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1
