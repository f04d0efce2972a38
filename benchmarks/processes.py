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
_CPUCLOCK_SCHED = 2
_USER, _SYSTEM = 11, 12
"""Where `_stat` has the ticks outside of the kernel and in it."""
SERVER_CORE, GENERATOR_CORE = 0, 1


# Server and generator can have a core each. Asked once: later this process is on the generator's
# core.
CAN_PIN = os.sched_getaffinity(0) >= {SERVER_CORE, GENERATOR_CORE}


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This process, and what it starts meanwhile, on one core; on the cores of before after. Does
    nothing where server and generator cannot have a core each.
    """
    if not CAN_PIN:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_file_limit() -> None:
    """As many open files as allowed, for this process and the servers that it starts."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far, to the microsecond."""
    # What clock_getcpuclockid(3) makes of a process id. /proc/PID/stat counts ticks of 10 ms.
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def thread_times(pid: int) -> tuple[float, float, float]:
    """Seconds, to 10 ms, that a process has used so far: its main thread outside of the kernel, the
    other threads outside of it, and all in it.
    """
    process, main = _stat(Path(f"/proc/{pid}")), _stat(Path(f"/proc/{pid}/task/{pid}"))
    user, of_main = int(process[_USER]), int(main[_USER])
    return of_main / _TICKS, (user - of_main) / _TICKS, int(process[_SYSTEM]) / _TICKS


def _stat(folder: Path) -> list[str]:
    """What /proc tells of a process or thread, without its id and command."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


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


@dataclass(slots=True)
class Process:
    """What is known of a process: CPU seconds so far, and the most resident memory it had."""

    command: str
    cpu_s: float = 0.0
    peak_mib: float = 0.0

    @property
    def is_java(self) -> bool:
        return Path(self.command.partition(" ")[0]).name == "java"


def session_of(leader: int) -> dict[int, Process]:
    """The processes of a session by id, started and forked ones included, that are there now."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended meanwhile
            fields = _stat(folder)
            if int(fields[3]) == leader:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                lines = (folder / "status").read_text().splitlines()
                [peak] = [line for line in lines if line.startswith("VmHWM:")]
                cpu_s = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS
                found[int(folder.name)] = Process(command, cpu_s, int(peak.split()[1]) / 1024)
    return found


class Watch:
    """Watches all processes of a session, also those that end before it does."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self.processes: dict[int, Process] = {}

    def look(self) -> None:
        """To be called often: what a process did after the last look is not known."""
        for number, now in session_of(self._leader).items():
            known = self.processes.get(number)
            if known and now.command in ("", known.command):
                now.command = known.command
                now.peak_mib = max(known.peak_mib, now.peak_mib)
            # Else it runs another program now: until then it had the memory of its parent.
            self.processes[number] = now

    @property
    def cpu_s(self) -> float:
        return sum(each.cpu_s for each in self.processes.values())

    def peak_mib(self, *, is_java: bool) -> float:
        """Of the largest process of this kind."""
        peaks = (each.peak_mib for each in self.processes.values() if is_java == each.is_java)
        return max(peaks, default=0.0)
