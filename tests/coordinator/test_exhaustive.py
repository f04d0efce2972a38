"""Every state, every request, every kind of sender, every version: a reply or a parked token.

What the reply is, the other modules say. Here: no exception, the invariants, and that whatever is
parked is answered in the end, by time or by the closing of the partition.
"""

from collections.abc import Callable
from typing import Any

from tests.support.cases import each
from tests.support.scene import FOUR, RANGE_RR, Call, Scene, in_state

LEADER, FOLLOWER, STATIC, OFFLINE = FOUR
SENDERS = (LEADER, FOLLOWER, STATIC, OFFLINE, "pending", "fenced", "stranger", "NEW")
STATES = ("Dead", "Empty", "delay", "PreparingRebalance", "CompletingRebalance", "Stable")
FOREVER_MS = 1_000_000


def crowd(state: str) -> Scene:
    """The usual group in a state, together with everybody else who might turn up."""
    scene = Scene() if state in ("Dead", "delay") else in_state("Stable")
    if state == "delay":
        for name in FOUR:
            static: dict[str, Any] = {"instance": name} if name.isupper() else {}
            scene.join(name, protocols=RANGE_RR, **static)
    if state not in ("Dead", "delay"):
        scene.restart(STATIC)
    if state == "Empty":
        scene.leave(*FOUR)
    if state in ("PreparingRebalance", "CompletingRebalance"):
        scene.join(FOLLOWER, protocols=dict(reversed(RANGE_RR.items())))
    if state == "CompletingRebalance":
        for name in (LEADER, STATIC, OFFLINE):
            scene.join(name)
        scene.sync(FOLLOWER)
    turn_up(scene)
    return scene


def turn_up(scene: Scene) -> None:
    scene.person("pending").says["protocols"] = RANGE_RR
    if scene.state != "Dead":
        scene.knock("pending")
    scene.person("fenced").member_id = f"{STATIC}-1"
    scene.person("fenced").says["instance"] = STATIC
    scene.person("stranger").member_id = "nobody-1"
    scene.person("NEW").says |= {"instance": "NEW", "protocols": RANGE_RR}
    for person in scene.people.values():
        person.generation = scene.group.generation if scene.state != "Dead" else 1


REQUESTS: dict[str, tuple[range, Callable[[Scene, str, int], Call]]] = {
    "JoinGroup": (range(10), lambda s, who, v: s.knock(who, version=v)),
    "JoinGroup, forgetful": (range(10), lambda s, who, v: s.knock(who, version=v, as_id="")),
    "JoinGroup, changed": (
        range(10),
        lambda s, who, v: s.knock(who, version=v, protocols=RANGE_RR),
    ),
    "JoinGroup, foreign": (range(10), lambda s, who, v: s.knock(who, version=v, type="connect")),
    "SyncGroup": (range(6), lambda s, who, v: s.sync(who, {who: b"all"}, version=v)),
    "SyncGroup, stale": (range(6), lambda s, who, v: s.sync(who, version=v, generation_id=0)),
    "Heartbeat": (range(5), lambda s, who, v: s.heartbeat(who, version=v)),
    "Heartbeat, stale": (range(5), lambda s, who, v: s.heartbeat(who, version=v, generation_id=0)),
    "LeaveGroup": (range(6), lambda s, who, v: s.leave(who, version=v)),
    "OffsetCommit": (range(1, 10), lambda s, who, v: s.commit(who, version=v)),
    "OffsetFetch": (range(8, 10), lambda s, who, v: s.try_fetch(version=v)),
    "OffsetDelete": (range(1), lambda s, who, v: s.delete_offsets("u")),
    "DescribeGroups": (range(6), lambda s, who, v: s.try_describe(version=v)),
    "ListGroups": (range(6), lambda s, who, v: s.try_groups(version=v)),
    "DeleteGroups": (range(3), lambda s, who, v: s.delete(version=v)),
}
ANONYMOUS = ("OffsetFetch", "OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups")


CASES = [
    (state, name, who)
    for state in STATES
    for name in REQUESTS
    for who in (("stranger",) if name in ANONYMOUS else SENDERS)
]


@each(CASES)
def test_a_reply_or_a_parked_token(state: str, name: str, who: str) -> None:
    versions, ask = REQUESTS[name]
    for version in versions:
        scene = crowd(state)
        ask(scene, who, version)
        if version % 2:
            scene.fail()
        scene.advance(FOREVER_MS)
        assert scene.open == []
