"""A long random walk through a scene, decided by a seed: prints the trace, for comparing runs.

Run as `python -m tests.support.wander SEED STEPS`.
"""

import random
import sys
from typing import Any

from tests.support.scene import RANGE_RR, Scene, topics

NAMES = ("ann", "bea", "cid", "dan", "EVE", "FAY")
LISTS = (RANGE_RR, dict(reversed(RANGE_RR.items())), {"range": topics("t", "u", "v")})
PAUSES = (1, 100, 3_000, 5_000, 10_000, 60_000)


def wander(seed: int, steps: int) -> list[str]:
    """What happened."""
    chance = random.Random(seed)
    scene = Scene(max_size=5)
    for _ in range(steps):
        _step(scene, chance)
    return scene.trace


def _step(scene: Scene, chance: random.Random) -> None:
    name, others = chance.choice(NAMES), chance.sample(NAMES, 2)
    instance: dict[str, Any] = {"instance": name} if name.isupper() else {}
    match chance.randrange(12):
        case 0 | 1 | 2:
            scene.join(name, protocols=chance.choice(LISTS), **instance)
        case 3:
            scene.restart(name, **instance)
        case 4 | 5:
            scene.sync(name, dict.fromkeys(others, b"share"), version=4)
        case 6 | 7:
            scene.heartbeat(name)
        case 8:
            scene.commit(name, chance.randrange(100), partitions=range(chance.randrange(3)))
        case 9:
            scene.leave(*others)
        case 10:
            scene.advance(chance.choice(PAUSES))
        case _:
            chance.choice((scene.crash, scene.fail, scene.try_describe))()


if __name__ == "__main__":
    print("\n".join(wander(int(sys.argv[1]), int(sys.argv[2]))))
