"""A backup beside a server under virtual time: another process, of which every call of the file
system is a moment of its own.

It runs on a thread that goes on only while the loop waits for it, one call at a time.
"""

import asyncio
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

from groupkeeper.storage.backup.backup import back_up, restore
from tests.support.backups import job
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.interleaved import CALLS
from tests.support.virtual_loop import VirtualLoop

PLACE = "backups"
CALL_S = (0.0001, 0.004)
"""How long a call takes."""
WAIT_S = 60.0
"""Of real time; longer than any call takes."""


class Backup:
    """One backup of the disk of a machine."""

    _numbers = count(1)

    def __init__(self, loop: VirtualLoop, disk: FakeDisk) -> None:
        self._loop = loop
        self._disk = disk
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._is_over = self._is_dead = False
        self._failure: BaseException | None = None
        self._dest = f"{PLACE}/{next(self._numbers)}"
        disk.remove(PLACE)  # with those of before

    async def run(self) -> bool:
        """Take it; False if the power was cut meanwhile. Raises what the backup raises."""
        thread = threading.Thread(target=self._back_up, daemon=True)
        thread.start()
        while not self._is_over:
            assert self._waits.acquire(timeout=WAIT_S), "a backup does not go on"
            await asyncio.sleep(self._loop.random.uniform(*CALL_S))
            self._go.release()
        thread.join(WAIT_S)
        if self._is_dead or isinstance(self._failure, Crash):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def cut_power(self) -> None:
        """The process is gone."""
        self._is_dead = True

    def restored(self, mode: str, seed: int) -> FakeDisk:
        """Another machine: what the backup has after a power cut is its data directory."""
        copy = self._disk.copy()
        copy.power_cut(mode, seed)
        copy.remove("data")
        files = FakeFiles(copy)
        restore(files, files, self._dest, "data")
        return copy

    def _back_up(self) -> None:
        files = _Stepping(self._disk, self._step)
        try:
            back_up(files, files, job(self._dest))
        except BaseException as error:  # noqa: BLE001  # raised by `run`
            self._failure = error
        self._is_over = True
        self._waits.release()

    def _step(self) -> None:
        self._waits.release()
        assert self._go.acquire(timeout=WAIT_S), "nobody waits for a backup"
        if self._is_dead:
            raise Crash


class _Stepping(FakeFiles):
    """Waits before every call."""

    def __init__(self, disk: FakeDisk, step: Callable[[], None]) -> None:
        super().__init__(disk)
        self._happens = step

    def __getattribute__(self, name: str) -> Any:  # Any: each method has its own type
        if name in CALLS:
            object.__getattribute__(self, "_happens")()
        return super().__getattribute__(name)
