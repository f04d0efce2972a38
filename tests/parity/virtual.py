"""Plays transcripts on a whole Groupkeeper in memory, under virtual time."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from groupkeeper.protocol.group_events import Event
from groupkeeper.settings.table import load
from tests.parity import happened
from tests.parity.brokers import COMMON, PROFILES, prepare
from tests.parity.names import RunNames
from tests.parity.people import names_of
from tests.parity.player import VIRTUAL, Dial, NotReadyError, Player
from tests.parity.transcript import Run
from tests.simulation.cluster import ADDRESS, START_OF_TIME_MS, Machine
from tests.support.virtual_loop import QUICK_S, VirtualLoop

STORED_S = 0.5
"""Longer than events without records wait for a round."""


@dataclass(slots=True)
class Played:
    """What followed each command: answers as lines, and events if the transcript has any."""

    lines: list[list[str]]
    events: list[list[Event]]
    names: RunNames


def play(run: Run) -> Played:
    """Raises TimeoutError if the server does not get ready."""
    loop = VirtualLoop(latency_s=QUICK_S)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_played(run, loop))
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()


async def _played(run: Run, loop: VirtualLoop) -> Played:
    profile = PROFILES[run.transcript.on]
    settings = COMMON | profile.settings
    machine = Machine(loop, lambda line: None, *_assigned(settings))
    await machine.start()

    async def dial(protocol: asyncio.Protocol) -> Any:
        return loop.dial(ADDRESS, protocol)

    async def restart() -> None:
        if profile.orderly and machine.server is not None:
            await machine.server.stop()
        machine.kill()
        machine.settings, _ = load(assignments=_assigned(settings | (profile.restarted or {})))
        await asyncio.sleep(0.5)
        await machine.start()
        await _ready(dial)

    await _ready(dial)
    names = names_of("run.", ADDRESS[1])
    wall = lambda: START_OF_TIME_MS + int(loop.time() * 1000)  # noqa: E731
    player = Player(run, names, dial, VIRTUAL, wall)
    player.restart = restart
    lines = await player.play(run.expected(ours=True))
    ended = wall()
    events: list[Event] = []
    if any(run.events()):
        await asyncio.sleep(STORED_S)
        events = await happened.read(dial, names, int(settings["offsets.topic.num.partitions"]))
    began = [START_OF_TIME_MS + int(at * 1000) for at in player.began]
    mine = [each for each in events if each.at_ms <= ended]
    return Played(lines, happened.by_step(mine, began), names)


def _assigned(settings: dict[str, str]) -> list[str]:
    return ["=".join(each) for each in settings.items()]


async def _ready(dial: Dial) -> None:
    """Waits until every partition is loaded."""
    for _ in range(100):
        with contextlib.suppress(NotReadyError):
            return await prepare(dial)
        await asyncio.sleep(0.05)
    raise TimeoutError("the server does not get ready")
