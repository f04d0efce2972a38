"""Incidents for which `why` may propose settings. Members have the timeouts of ordinary services,
but for a session of ten seconds.
"""

import time
from typing import Final

from tests.clients.libraries import CONFLUENT
from tests.clients.process import Worker
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.advised import Scene, case
from tests.truth.play import KAFKA_PYTHON

_THREE: Final = ("alpha", "beta", "gamma")
_FOUR: Final = (*_THREE, "delta")


def _named(scene: Scene, *names: str) -> dict[str, Worker]:
    return dict(zip(names, scene.settled(*names), strict=True))


def _closed_and_again(scene: Scene, name: str, old: Worker, away_s: float) -> Worker:
    old.ask("close")
    return scene.again(name, old, away_s)


# -- restarts --------------------------------------------------------------------------------------


@case("one of three is restarted", KAFKA_PYTHON, CONFLUENT, JAVA, FRANZ_GO)
def _restarted(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    scene.steady(alpha, _closed_and_again(scene, "beta", beta, 1.0), gamma)


@case("the leader is restarted", KAFKA_PYTHON, CONFLUENT)
def _leader(scene: Scene) -> None:
    members = _named(scene, *_THREE)
    leader = scene.leader(members)
    members[leader] = _closed_and_again(scene, leader, members[leader], 1.0)
    scene.steady(*members.values())


@case("one of three starts slowly again", KAFKA_PYTHON, CONFLUENT)
def _slow_start(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    scene.steady(alpha, _closed_and_again(scene, "beta", beta, 5.0), gamma)


@case("two of four are restarted together", KAFKA_PYTHON, CONFLUENT)
def _two(scene: Scene) -> None:
    members = _named(scene, *_FOUR)
    for name in ("beta", "gamma"):
        members[name].ask("close")
    for name in ("beta", "gamma"):
        members[name] = scene.again(name, members[name])
    scene.steady(*members.values())


@case("rolling restart", KAFKA_PYTHON, CONFLUENT, JAVA)
def _rolling(scene: Scene) -> None:
    members = _named(scene, *_THREE)
    for name in _THREE:
        members[name] = _closed_and_again(scene, name, members[name], 1.0)
        scene.steady(*members.values())


@case("all are stopped and started", KAFKA_PYTHON)
def _deploy(scene: Scene) -> None:
    members = scene.settled(*_THREE)
    for each in members:
        each.ask("close")
    members = [scene.again(name, old) for name, old in zip(_THREE, members, strict=True)]
    scene.steady(*members)


# -- beside a member that works for seconds between two polls: all wait for it ---------------------


def _beside_busy(
    scene: Scene, *names: str, calm_s: float = 0.0, static: bool | None = None
) -> tuple[dict[str, Worker], Worker]:
    """These members, and one that is busy."""
    how = {} if static is None else {"static": static}
    *members, busy = scene.settled(*names, "busy", calm_s=calm_s, **how)
    scene.busy(busy)
    return dict(zip(names, members, strict=True)), busy


@case("restarted beside a busy member", KAFKA_PYTHON, JAVA)
def _restarted_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    members["beta"] = _closed_and_again(scene, "beta", members["beta"], 1.0)
    scene.steady(*members.values(), busy)


@case("a slow start beside a busy member", KAFKA_PYTHON, JAVA)
def _slow_start_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    members["beta"] = _closed_and_again(scene, "beta", members["beta"], 4.0)
    scene.steady(*members.values(), busy)


@case("the leader is restarted beside a busy member", KAFKA_PYTHON)
def _leader_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    leader = scene.leader(members)
    members[leader] = _closed_and_again(scene, leader, members[leader], 1.0)
    scene.steady(*members.values(), busy)


@case("rolling restart beside a busy member", KAFKA_PYTHON, JAVA)
def _rolling_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    for name in _THREE:
        members[name] = _closed_and_again(scene, name, members[name], 1.0)
        scene.steady(*members.values(), busy)


@case("two are restarted beside a busy member", KAFKA_PYTHON)
def _two_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    for name in ("beta", "gamma"):
        members[name].ask("close")
    for name in ("beta", "gamma"):
        members[name] = scene.again(name, members[name])
    scene.steady(*members.values(), busy)


@case("added beside a busy member", CONFLUENT, JAVA)
def _added_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE, calm_s=32.0)
    scene.steady(*members.values(), busy, scene.join("delta"))


@case("killed beside a busy member", KAFKA_PYTHON, JAVA)
def _killed_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    members["beta"].kill()
    members["beta"] = scene.again("beta", members["beta"], 1.0)
    scene.steady(*members.values(), busy)


@case("away for longer than its session beside a busy member", KAFKA_PYTHON, JAVA)
def _long_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    members["beta"].kill()
    members["beta"] = scene.again("beta", members["beta"], 11.5)
    scene.steady(*members.values(), busy)


@case("a static member is away for longer than its session beside a busy member", KAFKA_PYTHON)
def _static_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE, static=True)
    members["beta"].kill()
    members["beta"] = scene.again("beta", members["beta"], 11.5, static=True)
    scene.steady(*members.values(), busy)


@case("paused for longer than its session beside a busy member", KAFKA_PYTHON, JAVA)
def _paused_beside(scene: Scene) -> None:
    members, busy = _beside_busy(scene, *_THREE)
    members["beta"].stop()
    time.sleep(11.5)
    members["beta"].go_on()
    scene.steady(*members.values(), busy)


@case("two crash loops", CONFLUENT)
def _two_loops(scene: Scene) -> None:
    members = _named(scene, *_FOUR)
    for _ in range(2):
        for name in ("beta", "gamma"):
            members[name].kill()
            members[name] = scene.again(name, members[name], 1.0)
            scene.steady(*members.values())


@case("all are killed and started, one after the other", KAFKA_PYTHON)
def _killed_in_turn(scene: Scene) -> None:
    members = _named(scene, *_THREE)
    for name in _THREE:
        members[name].kill()
        members[name] = scene.again(name, members[name], 1.0)
        scene.steady(*members.values())


@case("the leader is killed", CONFLUENT, KAFKA_PYTHON)
def _leader_killed(scene: Scene) -> None:
    members = _named(scene, *_THREE)
    leader = scene.leader(members)
    members[leader].kill()
    members[leader] = scene.again(leader, members[leader], 1.0)
    scene.steady(*members.values())


# -- crashes ---------------------------------------------------------------------------------------


@case("killed, and started again at once", KAFKA_PYTHON, CONFLUENT, JAVA)
def _killed(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    beta.kill()
    scene.steady(alpha, scene.again("beta", beta), gamma)


@case("killed, and started again after its session", KAFKA_PYTHON, CONFLUENT)
def _killed_long(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    beta.kill()
    scene.steady(alpha, scene.again("beta", beta, 13.0), gamma)


@case("killed three times", CONFLUENT, KAFKA_PYTHON)
def _crash_loop(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    for _ in range(3):
        beta.kill()
        beta = scene.again("beta", beta, 1.0)
        scene.steady(alpha, beta, gamma)


@case("a static member is away longer than its session", KAFKA_PYTHON, CONFLUENT, JAVA)
def _static(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE, static=True)
    beta.kill()
    scene.steady(alpha, scene.again("beta", beta, 13.0, static=True), gamma)


@case("a static member is closed for longer than its session", KAFKA_PYTHON)
def _static_closed(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE, static=True)
    beta.ask("close")
    scene.steady(alpha, scene.again("beta", beta, 14.0, static=True), gamma)


# -- pauses ----------------------------------------------------------------------------------------


@case("a process stands still for longer than its session", KAFKA_PYTHON, CONFLUENT, JAVA)
def _paused(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE)
    beta.stop()
    time.sleep(12.5)
    beta.go_on()
    scene.steady(alpha, beta, gamma)


@case("a static process stands still for longer than its session", CONFLUENT)
def _static_paused(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE, static=True)
    beta.stop()
    time.sleep(12.5)
    beta.go_on()
    scene.steady(alpha, beta, gamma)


@case("the poll loop takes too long", KAFKA_PYTHON, JAVA)
def _late(scene: Scene) -> None:
    alpha, beta, gamma = scene.settled(*_THREE, poll_ms=10_000)
    beta.tell("stall", seconds=14.0)
    time.sleep(14.0)
    scene.steady(alpha, beta, gamma)


@case("others wait for a member that processes", KAFKA_PYTHON, JAVA)
def _waited_for(scene: Scene) -> None:
    alpha, beta = scene.settled("alpha", "beta")
    beta.tell("stall", seconds=9.0)
    scene.steady(alpha, beta, scene.join("gamma"))


@case("others wait for a member that is dead", KAFKA_PYTHON, CONFLUENT)
def _waited_for_dead(scene: Scene) -> None:
    alpha, beta = scene.settled("alpha", "beta")
    beta.kill()
    scene.stage.members.remove(beta)
    scene.steady(alpha, scene.join("gamma"))


# -- scaling ---------------------------------------------------------------------------------------


@case("a member is added", KAFKA_PYTHON, CONFLUENT, JAVA)
def _added(scene: Scene) -> None:
    members = scene.settled("alpha", "beta")
    scene.steady(*members, scene.join("gamma"))


@case("members are added one after the other", CONFLUENT, KAFKA_PYTHON)
def _scaled(scene: Scene) -> None:
    members = scene.settled("alpha", "beta")
    for name in ("gamma", "delta"):
        members.append(scene.join(name))
        scene.steady(*members)


# -- the coordinator, and the network --------------------------------------------------------------


@case("the coordinator is away for longer than sessions", CONFLUENT, KAFKA_PYTHON)
def _outage(scene: Scene) -> None:
    members = scene.settled(*_THREE)
    scene.stage.away(13.0)
    time.sleep(12.0)
    scene.steady(*members)
