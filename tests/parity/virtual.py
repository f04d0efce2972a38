"""Plays transcripts on a whole Groupkeeper in memory, under virtual time."""

import asyncio
import contextlib
from typing import Any

from tests.parity.brokers import COMMON, PROFILES, prepare
from tests.parity.player import VIRTUAL, Dial, NotReadyError, Player
from tests.parity.telling import Names
from tests.parity.transcript import Run
from tests.simulation.cluster import ADDRESS, START_OF_TIME_MS, Machine
from tests.support.virtual_loop import Pipe, VirtualLoop


def play(run: Run) -> list[list[str]]:
    """The lines that follow each command."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    latency, Pipe.LATENCY_S = Pipe.LATENCY_S, (0.0001, 0.0002)
    try:
        return loop.run_until_complete(_played(run, loop))
    finally:
        Pipe.LATENCY_S = latency
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()


async def _played(run: Run, loop: VirtualLoop) -> list[list[str]]:
    settings = COMMON | PROFILES[run.transcript.on].settings
    machine = Machine(loop, lambda line: None, *("=".join(each) for each in settings.items()))
    await machine.start()

    async def dial(protocol: asyncio.Protocol) -> Any:
        return loop.dial(ADDRESS, protocol)

    async def restart() -> None:
        machine.kill()
        await asyncio.sleep(0.5)
        await machine.start()
        await _ready(dial)

    await _ready(dial)
    names = Names("run.", ADDRESS[1])
    wall = lambda: START_OF_TIME_MS + int(loop.time() * 1000)  # noqa: E731
    player = Player(run, names, dial, VIRTUAL, wall)
    player.restart = restart
    return await player.play(run.expected(ours=True))


async def _ready(dial: Dial) -> None:
    """Waits until every partition is loaded."""
    for _ in range(100):
        with contextlib.suppress(NotReadyError):
            return await prepare(dial)
        await asyncio.sleep(0.05)
    raise TimeoutError("the server does not get ready")
