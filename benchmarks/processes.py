"""Cores, CPU time and memory of processes, as /proc tells them. Linux only."""

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
SERVER_CORE, GENERATOR_CORE = 0, 1


# Server and generator can have a core each. Asked once: later this process is on the generator's
# core.
CAN_PIN = os.sched_getaffinity(0) >= {SERVER_CORE, GENERATOR_CORE}


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This process, and what it starts meanwhile, on one core; on the cores of before after."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _machine_seconds() -> float:
    """How long all cores together have been busy."""
    user, nice, system, _idle, _wait, irq, soft = map(
        int, Path("/proc/stat").read_text().split()[1:8]
    )
    return (user + nice + system + irq + soft) / _TICKS


@dataclass(slots=True, frozen=True)
class Cores:
    """Cores in use over a stretch of time: by the server, by the generator, by everybody else."""

    server: float
    generator: float
    others: float
    seconds: float


class Meter:
    """Measures the cores in use from its making to `read`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._sample()

    def _sample(self) -> tuple[float, float, float, float]:
        return time.monotonic(), cpu_seconds(self._pid), _own_seconds(), _machine_seconds()

    def read(self) -> Cores:
        took, server, own, machine = (
            now - then for now, then in zip(self._sample(), self._before, strict=True)
        )
        took = max(took, 1 / _TICKS)
        others = max(0.0, machine - server - own)
        return Cores(server / took, own / took, others / took, took)
