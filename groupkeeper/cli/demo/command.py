"""`groupkeeper demo`: rebalances of real consumers in a minute, explained by `why`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.demo.stage import DemoProcesses, StageError
from groupkeeper.cli.why.now import session_limits, settings_of
from groupkeeper.cli.why.read import read_last
from groupkeeper.cli.why.show import Printer
from groupkeeper.history.rounds import COMPLETED, UNDER_WAY, HistoryEntry, Round
from groupkeeper.server.signals import at_signals
from groupkeeper.settings.options import format_address

if TYPE_CHECKING:
    from groupkeeper.client import Client

GROUP: Final = "demo"
TOPIC: Final = "orders"
BUSY_S: Final = 4
STEP_S: Final = 60.0
"""Time limit of a step; the longest waits for a session of three seconds."""
LOOK_S: Final = 0.3
SETTLED_S: Final = 1.5
"""Pause after a rebalance, in which each member sends heartbeats."""
ROUNDS: Final = 100
"""Rounds to read: far more than a run has."""


@dataclass(slots=True, frozen=True)
class _Step:
    """An action on the group, and the entry of `why` that ends the step."""

    title: str
    act: Callable[[DemoProcesses, "Client"], Awaitable[None]]
    ends_with: Callable[[HistoryEntry], bool]


@click.command(short_help="Show rebalances of real consumers, and why they happened.")
@click.option("--keep", is_flag=True, help="Keep server and consumers running until Ctrl-C.")
def demo(keep: bool) -> None:
    """Show rebalances of real consumers, and the output of `groupkeeper why` for each.

    Starts a server on free loopback ports, with its data in memory, and three consumers: one
    joins late, one is killed, one restarts under a static id. It takes half a minute; at its end,
    or with Ctrl-C, all processes end.
    """
    from groupkeeper.client import CallFailed

    try:
        asyncio.run(_run(keep=keep))
    except asyncio.CancelledError:
        raise click.Abort from None
    except (CallFailed, OSError, StageError) as problem:
        raise CommandRefused(str(problem)) from None


async def _run(*, keep: bool) -> None:
    from groupkeeper.client import Client

    task = asyncio.current_task()
    assert task is not None, "asyncio.run created one"
    at_signals(task.cancel, "SIGHUP")
    async with DemoProcesses(TOPIC) as stage, Client(stage.kafka) as client:
        where = f"kafka={stage.kafka} http=http://{format_address(stage.http)}/"
        print(f"A server is running, with its data in memory: {where}", flush=True)
        print(f"The paragraphs are the output of `groupkeeper why {GROUP}`.", flush=True)
        story = _Story(stage, client)
        for number, step in enumerate(STEPS, 1):
            await story.play(number, step)
        if keep:
            await _keep(stage)
    print("\nAll processes have ended.", flush=True)


async def _keep(stage: DemoProcesses) -> None:
    """Run until a signal, which is not a failure."""
    ended = asyncio.Event()
    at_signals(ended.set, "SIGHUP")
    http = format_address(stage.http)
    print(f"\nServer and consumers run until Ctrl-C. See http://{http}/, or run", flush=True)
    print(f"  groupkeeper why {GROUP} --bootstrap-server {stage.kafka} --http {http}", flush=True)
    while not ended.is_set():
        stage.check()
        await asyncio.sleep(LOOK_S)


class _Story:
    """Plays the steps in order, and prints the entries that each of them adds."""

    def __init__(self, stage: DemoProcesses, client: "Client") -> None:
        self._stage = stage
        self._client = client
        self._shown = 0

    async def play(self, number: int, step: _Step) -> None:
        print(f"\n{number}. {step.title}\n", flush=True)
        entries = await self._until_over(step)
        printer = Printer(as_json=False)
        printer.entries(entries)
        print(f"  Partitions: {await self._owners()}.", flush=True)

    async def _until_over(self, step: _Step) -> list[HistoryEntry]:
        """Act, and return the new entries once one of them ends the step."""
        try:
            async with asyncio.timeout(STEP_S):
                await step.act(self._stage, self._client)
                while True:
                    self._stage.check()
                    new = (await self._entries())[self._shown :]
                    if any(map(step.ends_with, new)):
                        self._shown += len(new)
                        return new
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise StageError(f"this had no effect within {STEP_S:.0f} s: {step.title}") from None

    async def _entries(self) -> list[HistoryEntry]:
        """Return the entries of `groupkeeper why`, without the round in progress."""
        from groupkeeper.client.group_events import EventTopicReader

        limits = session_limits(await settings_of(self._client, GROUP))
        log = await EventTopicReader.of(self._client, GROUP)
        told = await read_last(log, ROUNDS, limits)
        return [
            each
            for each in told.all()
            if not (isinstance(each, Round) and each.outcome == UNDER_WAY)
        ]

    async def _owners(self) -> str:
        from groupkeeper.client.groups import describe_groups

        members = (await describe_groups(self._client, [GROUP]))[GROUP].members
        owned = {each.client_id: (each.assignment or {}).get(TOPIC, ()) for each in members}
        parts = [f"{name} has {_words(owned[name])}" for name in sorted(owned)]
        return ", ".join(parts)


def _words(partitions: Iterable[int]) -> str:
    return " ".join(map(str, partitions)) or "none"


# -- the story -----------------------------------------------------------------------------------

STATIC, SLOW, KILLED = "consumer-1", "consumer-2", "consumer-3"


async def _start_two(stage: DemoProcesses, client: "Client") -> None:
    from groupkeeper.client.groups import describe_groups

    await _start_static(stage)
    while not (await describe_groups(client, [GROUP]))[GROUP].members:
        stage.check()
        await asyncio.sleep(LOOK_S)
    await stage.start(SLOW, TOPIC, GROUP, SLOW, "--busy-s", str(BUSY_S))


async def _start_static(stage: DemoProcesses) -> None:
    await stage.start(STATIC, TOPIC, GROUP, STATIC, "--instance", STATIC)


async def _start_third(stage: DemoProcesses, _: "Client") -> None:
    await stage.start(KILLED, TOPIC, GROUP, KILLED)


async def _kill_third(stage: DemoProcesses, _: "Client") -> None:
    await asyncio.sleep(SETTLED_S)
    await stage.kill(KILLED)


async def _restart(stage: DemoProcesses, _: "Client") -> None:
    await stage.kill(STATIC)
    await _start_static(stage)


def _completed(entry: HistoryEntry, members: int, *, lost: int = 0) -> bool:
    return (
        isinstance(entry, Round)
        and entry.outcome == COMPLETED
        and (len(entry.joined), len(entry.removed)) == (members, lost)
    )


def _replaced(entry: HistoryEntry) -> bool:
    return not isinstance(entry, Round) and entry.type == "member_replaced"


STEPS: Final = (
    _Step(
        f"{STATIC} and {SLOW} start. A new group waits for more members: one rebalance is enough.",
        _start_two,
        lambda entry: _completed(entry, 2),
    ),
    _Step(
        f"{KILLED} starts. {SLOW} is busy for {BUSY_S} s before it rejoins, and all others wait.",
        _start_third,
        lambda entry: _completed(entry, 3),
    ),
    _Step(
        f"{KILLED} is killed. Its session timeout of 3 s runs out, and the others take over.",
        _kill_third,
        lambda entry: _completed(entry, 2, lost=1),
    ),
    _Step(
        f"{STATIC}, which has a group.instance.id, is killed and restarted. Nothing moves.",
        _restart,
        _replaced,
    ),
)
