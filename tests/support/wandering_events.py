"""Random histories of one group, from the production core: what a server would store of them, and
how they ended.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.coordinator.facts import GroupsLoaded
from groupkeeper.coordinator.group import GroupState
from groupkeeper.observe.events import event_of
from groupkeeper.protocol.embedded import read_assigned
from groupkeeper.protocol.group_events import Event, decode, encode
from tests.support.consumer import share_of
from tests.support.scene import GROUP, Scene, topics

NAMES: Final = ("ann", "bea", "cid", "dan", "EVE", "FAY")
"""Those in capitals are static members."""
PAUSES: Final = (1, 100, 3_000, 5_000, 11_000, 60_000)
PARTITIONS: Final = 4


@dataclass(frozen=True)
class History:
    """Events in order, and the truth after the last one."""

    events: list[Event]
    members: set[str]
    """Ids of the members."""
    owners: dict[tuple[str, int], str] | None
    """Topic and partition -> member id; None unless the group is Stable."""


def wander(seed: int, steps: int) -> History:
    """Members come, go, commit and fail, and so does the coordinator."""
    chance = random.Random(seed)
    scene = Scene(max_size=5, initial_rebalance_delay_ms=chance.choice((0, 3_000)))
    protocol = chance.choice(("range", "cooperative-sticky", "own"))
    plans: dict[str, tuple[int, ...]] = {}
    for _ in range(steps):
        _step(scene, chance, protocol, plans)
    return History(_stored(scene), *_truth(scene))


def _step(scene: Scene, chance: random.Random, protocol: str, plans: dict[str, Any]) -> None:
    name, others = chance.choice(NAMES), chance.sample(NAMES, 2)
    says: dict[str, Any] = {"instance": name} if name.isupper() else {}
    match chance.randrange(14):
        case 0 | 1 | 2:
            wanted = topics("orders", owned=chance.randrange(3))
            scene.join(name, protocols={protocol: wanted}, **says)
        case 3:
            scene.restart(name, **says)
        case 4 | 5 | 6:
            for each in NAMES:
                scene.sync(each, _plan(chance))
        case 7 | 8:
            scene.heartbeat(name)
        case 9:
            scene.commit(name, chance.randrange(100))
        case 10:
            scene.leave(*others[: chance.randrange(1, 3)])
        case 11 | 12:
            scene.advance(chance.choice(PAUSES))
        case _:
            scene.crash()


def _plan(chance: random.Random) -> dict[str, bytes]:
    """Partitions, some of which nobody gets."""
    dealt: dict[str, list[int]] = {name: [] for name in NAMES}
    for index in range(PARTITIONS):
        if chance.randrange(5):
            dealt[chance.choice(NAMES)].append(index)
    return {name: share_of("orders", indexes) for name, indexes in dealt.items()}


def _stored(scene: Scene) -> list[Event]:
    events: list[Event] = []
    epoch = seq = 0
    for noted in scene.facts:
        event = event_of(noted)
        if isinstance(noted.fact, GroupsLoaded):
            epoch, seq = epoch + 1, 0
            fields = {"records": 1, "groups": 1, "members": noted.fact.members, "duration_ms": 1}
            event = Event(0, 0, 0, noted.wall, noted.now, None, "coordinator_loaded", fields=fields)
        if event is not None:
            placed = event._replace(seq=seq, epoch=epoch, node=1)
            events.append(decode(None, encode(placed)))
            seq += 1
    return events


def _truth(scene: Scene) -> tuple[set[str], dict[tuple[str, int], str] | None]:
    group = scene.partition.groups.get(GROUP)
    if group is None:
        return set(), None
    if group.state not in (GroupState.STABLE, GroupState.EMPTY):
        return set(group.members), None
    owners = {
        (topic, index): member_id
        for member_id, member in group.members.items()
        for topic, indexes in (read_assigned(member.assignment) or {}).items()
        for index in indexes
    }
    return set(group.members), owners
