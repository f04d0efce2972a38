"""The server that is fuzzed: on a machine in memory, killed and started again, its log read along.

A process's life is a loop's life: with a killed server everything goes that it had on its loop,
and the next one starts on a loop of its own, at the same moment of virtual time.
"""

import asyncio
import gc
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any

from groupkeeper.coordinator.group import GroupState
from groupkeeper.groups.offset_deleter import StoppingError
from groupkeeper.observe import logs
from groupkeeper.server.server import Server
from groupkeeper.storage.errors import StorageError
from tests.simulation.cluster import Machine
from tests.support.virtual_loop import VirtualLoop


class Finding(Exception):  # not an error of the fuzzer: what it looks for
    """Something that must not happen. The first line names it."""


class Life:
    """One data directory and the processes that serve it."""

    def __init__(self, seed: int, *assignments: str) -> None:
        self._chance = Random(seed)
        self.notes: list[str] = []
        """What must not have happened, and did."""
        self.starts = 0
        self.faults = 0
        self.ending: list[Callable[[], None]] = []
        """Told when a process is about to end, and every connection with it."""
        self._lines = logs._lines
        logs._lines = logs._Lines()
        logs._lines.add = self._line
        loop = self._new_loop()
        self.machine = Machine(loop, lambda line: None, *assignments)
        self.machine.topics_failed = self._topics_failed
        self.disk = self.machine.disk

    def _new_loop(self) -> VirtualLoop:
        loop = VirtualLoop(self._chance.getrandbits(30))
        loop.set_exception_handler(self._unhandled)
        asyncio.set_event_loop(loop)
        return loop

    # -- what is noted ---------------------------------------------------------------------------

    def note(self, what: str) -> None:
        self.notes.append(what)

    def _line(
        self, level: str, event: str, logger: str, make: Callable[[], dict[str, object]]
    ) -> None:
        """Every line of the server's log: one with a traceback is a bug."""
        error = make().get("exc_info")
        if error is not None:
            self.note(f"logged: {event} {_told(error)}")

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if loop is self.machine.loop:
            error = context.get("exception")
            self.note(f"unhandled: {context['message']} {_told(error)}")

    def _topics_failed(self, where: str, error: BaseException) -> None:
        if not isinstance(error, StorageError | OSError | StoppingError):
            self.note(f"data plane: {where} {_told(error)}")

    # -- time ------------------------------------------------------------------------------------

    @property
    def loop(self) -> VirtualLoop:
        return self.machine.loop

    @property
    def server(self) -> Server:
        assert self.machine.server is not None
        return self.machine.server

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def advance(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def until(self, done: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        began = self.loop.time()
        while not done():
            waited = self.loop.time() - began
            if waited > seconds:
                raise Finding(f"{what}: not within {seconds} s")
            self.advance(0.002 if waited < 1 else 0.5)

    # -- the process -----------------------------------------------------------------------------

    def start(self) -> None:
        """A new process; on a disk that fails it may take more than one."""
        for _ in range(10):
            try:
                self.run(self.machine.start())
            except (StorageError, OSError):
                if not self.disk.failures and self.disk.capacity is None:
                    raise
                self.machine.server = None
                self.machine.files.kill()
                self.heal()
            else:
                self.starts += 1
                return
        raise Finding("the server does not start")

    def restart(self, crash: Callable[[], None]) -> None:
        """The process ends, and the next one begins with nothing but the disk."""
        for forget in self.ending:
            forget()
        crash()
        old, now = self.loop, self.loop.time()
        self.machine.loop = self._new_loop()
        self.loop.idle.now = now
        self._bury(old)
        self.start()

    def _bury(self, loop: VirtualLoop) -> None:
        """What a killed process still had to do is never done; nor is it heard of when Python
        collects it.
        """
        told = len(self.notes)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_ended(tasks))
        loop.close()
        asyncio.set_event_loop(self.loop)
        del self.notes[told:]

    def kill(self) -> None:
        self.restart(self.machine.kill)

    def cut_power(self, mode: str) -> None:
        self.restart(lambda: self.machine.cut_power(mode))

    def stop(self) -> None:
        """As SIGTERM: everything is finished and answered."""
        self.run(self.server.stop())
        self.advance(0.1)
        self.machine.server = None
        self.restart(lambda: None)

    # -- the disk --------------------------------------------------------------------------------

    def break_disk(self, error: OSError, soon: int) -> None:
        """One of the next calls fails."""
        self.faults += 1
        self.disk.failures[self.disk.calls + soon] = error

    def fill_disk(self, room: int) -> None:
        """No space is left, but for some bytes."""
        self.faults += 1
        self.disk.capacity = self.disk.used() + room

    @property
    def is_broken(self) -> bool:
        """Something is going to fail, or may be failing still."""
        return self.disk.capacity is not None or bool(self.disk.failures)

    def heal(self) -> None:
        self.disk.failures.clear()
        self.disk.capacity = None

    def settle(self) -> None:
        """Everything active, everything written, nothing of the data plane under way."""
        self.heal()
        if self.server.failed.done():  # a sync failed: the process ends by itself
            self.kill()
        states = self.server.group_partitions.snapshots
        self.until(lambda: {each.state for each in states()} == {"active"}, "not all active")
        self.run(self.server._writer.drain())
        topics = self.server.topics
        self.until(lambda: not topics.response_tasks._tasks, "the data plane has not answered")
        self.until(lambda: not topics.admin._deletions, "topics that are deleted do not end")
        self.run(self.server._writer.drain())

    # -- what is there ---------------------------------------------------------------------------

    def groups(self) -> dict[str, tuple[Any, Any]]:
        """What a restart must bring back: offsets, and members where the group is Stable."""
        found = {}
        for driver in self.server.group_partitions:
            for group_id, group in driver._partition.groups.items():
                offsets = {topic: dict(rows) for topic, rows in group.offsets.items()}
                members = sorted(
                    (m.member_id, m.instance_id, m.assignment, m.metadata(group.protocol_name))
                    for m in group.members.values()
                )
                stable = group.state is GroupState.STABLE
                found[group_id] = offsets, (group.generation, members) if stable else None
        return found

    def check_partitions(self) -> None:
        """No partition was closed but by the disk."""
        for (what, *labels), count in self.server.metrics.counts.items():
            if what == "partitions_closed" and count:
                [kind] = labels
                if not (self.faults and kind in ("OSError", "AppendFailed", "SyncFailed")):
                    self.note(f"{count} partitions closed by {kind}")

    def tidy(self) -> None:
        """The kernel writes back, and nobody keeps what only the fakes remember."""
        self.disk.write_back()
        self.disk.trace.clear()
        pipes = self.loop.listeners["127.0.0.1", 9092].pipes
        pipes[:] = [pipe for pipe in pipes if not pipe.is_closing()]
        gc.collect()

    def close(self) -> None:
        self.machine.loop, loop = VirtualLoop(), self.loop  # what its tasks say now is not heard
        self._bury(loop)
        logs._lines = self._lines
        self.machine.loop.close()
        asyncio.set_event_loop(None)


async def _ended(tasks: set["asyncio.Task[Any]"]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _told(error: object) -> str:
    """What a log line's `exc_info` stands for: the exception first, then where it was raised."""
    if not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    if error is None:
        return "an exception"
    return f"{error!r}\n" + "".join(traceback.format_exception(error))
