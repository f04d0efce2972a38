"""The processes of `groupkeeper demo`: a server and its consumers, with temporary logs."""

import asyncio
import os
import re
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from groupkeeper.settings.options import Address, parse_address
from groupkeeper.settings.setting import ENVIRONMENT_PREFIX

READY_S: Final = 20.0
"""Time limit for the start of the server."""
DELAY: Final = "group.initial.rebalance.delay.ms=2000"
PARTITIONS: Final = 6
_READY: Final = re.compile(r"groupkeeper ready kafka=(\S+) http=(\S+) ")
_ANYWHERE: Final = "127.0.0.1:0"


class StageError(Exception):
    """A process has ended unexpectedly. The text has its name and its last output."""


@dataclass(slots=True)
class _Running:
    name: str
    process: asyncio.subprocess.Process
    log: Path


class DemoProcesses:
    """A server with one topic, and consumers: `async with DemoProcesses("orders") as stage:`.

    At the end every process is killed and the directory is removed, whatever happened.
    """

    def __init__(self, topic: str) -> None:
        self._topic = f"{topic}:{PARTITIONS}"
        self._running: dict[str, _Running] = {}
        self._ends = AsyncExitStack()
        self._folder = Path()
        self.kafka = ""
        """HOST:PORT of the Kafka port."""
        self.http: Address = ("", 0)

    async def __aenter__(self) -> Self:
        # A log may still be written while the directory is removed.
        folder = TemporaryDirectory(prefix="groupkeeper-demo-", ignore_cleanup_errors=True)
        self._folder = Path(self._ends.enter_context(folder))
        self._ends.push_async_callback(self._kill_all)
        try:
            await self._start_server()
        except BaseException:
            await self._ends.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._ends.aclose()

    async def start(self, name: str, *arguments: str) -> None:
        """Start a consumer process; `arguments` are those of `client/demo_consumer.py`."""
        await self._start(name, "groupkeeper.client.demo_consumer", self.kafka, *arguments)

    async def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, so that it cannot leave its group."""
        running = self._running.pop(name)
        await _kill(running)

    def check(self) -> None:
        """Raise StageError if a process has ended by itself."""
        for running in self._running.values():
            if running.process.returncode is not None:
                raise StageError(_ended(running))

    # -- processes -------------------------------------------------------------------------------

    async def _start_server(self) -> None:
        addresses = ("--listen", _ANYWHERE, "--http", _ANYWHERE)
        shape = ("--memory", "--topic", self._topic, "--set", DELAY)
        running = await self._start("server", "groupkeeper", "serve", "--dev", *addresses, *shape)
        assert running.process.stdout is not None, "it is a pipe"
        try:
            line = await asyncio.wait_for(running.process.stdout.readline(), READY_S)
        except TimeoutError:
            raise StageError(f"the server was not ready within {READY_S:.0f} s") from None
        found = _READY.match(line.decode())
        if found is None:
            await running.process.wait()
            raise StageError(_ended(running))
        self.kafka, self.http = found[1], parse_address(found[2])

    async def _start(self, name: str, module: str, *arguments: str) -> _Running:
        """Start a process in its own session, so that Ctrl-C in a terminal does not reach it.
        Settings in the environment are left out: they are meant for other servers.
        """
        environment = {
            name: os.environ[name] for name in os.environ if not name.startswith(ENVIRONMENT_PREFIX)
        }
        log = self._folder / f"{name}.log"
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        running = _Running(name, process, log)
        self._running[name] = running
        return running

    async def _kill_all(self) -> None:
        await asyncio.gather(*map(_kill, self._running.values()))


async def _kill(running: _Running) -> None:
    if running.process.returncode is None:
        with suppress(ProcessLookupError):
            running.process.kill()
    await running.process.wait()


def _ended(running: _Running) -> str:
    lines = running.log.read_text(errors="replace").splitlines()
    last = lines[-1] if lines else "no output"
    return f"the {running.name} ended with code {running.process.returncode}: {last}"
