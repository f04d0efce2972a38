"""Two clients that behave, each in a process of its own: they see what an attack does to others.

The canary is a group member that beats every five milliseconds; its slowest beat is the stall. The
bystander commits an offset, produces a record and fetches it back, twenty times a second. Both tell
the parent when they are ready and, when told to end, everything they saw.
"""

import contextlib
import gc
import os
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from tests.chaos.wire import Client
from tests.support.consumer import Member
from tests.support.requests import batch_request, create_request, records_request
from tests.support.wire import Address
from tests.topics.scene import batch

SOURCE = "127.0.0.1"
BEAT_SECONDS = 0.005
STEP_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
"""How long they wait for an answer: longer than any stall worth a figure."""
SESSION_MS = 45_000
MOST_ERRORS = 20


@dataclass
class Seen:
    """What one of them saw: begin (monotonic) and duration of every exchange, and errors."""

    begins: array = field(default_factory=lambda: array("d"))
    seconds: array = field(default_factory=lambda: array("d"))
    waits: array = field(default_factory=lambda: array("d"))
    """How much of it the server, or this process, waited for a core."""
    errors: list[str] = field(default_factory=list)

    def slowest(self, begin: float, end: float) -> tuple[float, float]:
        """Milliseconds of the exchange that overlaps this time and is the slowest without its
        waiting for a core, and of that waiting.
        """
        within = self._within(begin, end)
        took, waited = max(within, default=(0.0, 0.0), key=lambda each: each[0] - each[1])
        return took * 1000, waited * 1000

    def starved(self, begin: float, end: float, seconds: float) -> int:
        """How many exchanges took so long because the server, or this process, had no core."""
        least = seconds - BEAT_SECONDS  # one begins as much later than what delays it
        return sum(took > least >= took - waited for took, waited in self._within(begin, end))

    def _within(self, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Duration and waiting of the exchanges that overlap this time."""
        for started, took, waited in zip(self.begins, self.seconds, self.waits, strict=True):
            if started <= end and started + took >= begin:
                yield took, waited


class Cores:
    """How long the server's main thread and this process have waited for a core, in seconds."""

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        with contextlib.suppress(OSError):  # a kernel that does not count it
            for each in (pid, "self"):
                self._files.append(os.open(f"/proc/{each}/schedstat", os.O_RDONLY))

    def waited(self) -> float:
        """Without a process that is gone."""
        total = 0
        for file in self._files:
            with contextlib.suppress(OSError):
                total += int(os.pread(file, 100, 0).split()[1])
        return total / 1e9


def canary(pipe: Connection, address: Address, pid: int) -> None:
    client = Client(address, SOURCE, PATIENCE_SECONDS)
    request = Member(client, "canary", session_ms=SESSION_MS).settle().heartbeat_request()

    def step() -> str:
        error = client.call(3, request).error_code
        return f"Heartbeat: error {error}" if error else ""

    _repeat(pipe, step, BEAT_SECONDS, Cores(pid))


def bystander(pipe: Connection, address: Address, pid: int) -> None:
    client = Client(address, SOURCE, PATIENCE_SECONDS)
    member = Member(client, "bystander", session_ms=SESSION_MS).settle()
    client.call(4, create_request("bystander"))
    steps = Bystander(member)
    for _ in range(3):  # codecs are compiled and files opened before anybody measures
        steps()
    _repeat(pipe, steps, STEP_SECONDS, Cores(pid))


class Bystander:
    """Commits, produces and fetches in turn; a call is one exchange and returns what was wrong."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._client = member.client
        self._steps = [self._commit, self._produce, self._fetch]
        self._count = 0
        self._offset = 0

    def __call__(self) -> str:
        step = self._steps[self._count % len(self._steps)]
        self._count += 1
        return step()

    def _commit(self) -> str:
        [error] = self._member.committed({("bystander", 0): self._count})
        return f"OffsetCommit: error {error}" if error else ""

    def _produce(self) -> str:
        request = batch_request("bystander", 0, batch(f"record {self._count}"))
        answer = self._client.call(7, request).responses[0].partition_responses[0]
        self._offset = answer.base_offset
        return f"Produce: error {answer.error_code}" if answer.error_code else ""

    def _fetch(self) -> str:
        request = records_request("bystander", 0, self._offset)
        answer = self._client.call(11, request).responses[0].partitions[0]
        if answer.error_code:
            return f"Fetch: error {answer.error_code}"
        return "" if f"record {self._count - 1}".encode() in (answer.records or b"") else "lost"


def _repeat(pipe: Connection, step: Callable[[], str], pause: float, cores: Cores) -> None:
    """Do it again and again until told to end, and tell what was seen."""
    seen = Seen()
    pipe.send(("ready", None))
    gc.disable()
    while not pipe.poll():
        waited, begin = cores.waited(), time.monotonic()
        try:
            problem = step()
        except OSError as error:
            seen.errors.append(f"{type(error).__name__} {error}".strip())
            break
        finally:
            seen.begins.append(begin)
            seen.seconds.append(time.monotonic() - begin)
            seen.waits.append(cores.waited() - waited)
        if problem and len(seen.errors) < MOST_ERRORS:
            seen.errors.append(problem)
        time.sleep(pause)
    pipe.send(("seen", seen))
