"""Measures how long nobody read a partition, from the positions of the members' fetches.

Records are produced into each partition all the time. A partition is unread from the last record
that a member was given until the next one, as far as that is longer than the usual interval.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tests.clients.process import Worker
from tests.support.requests import produce_request
from tests.support.wire import Address, Client, connect

EVERY_S: Final = 0.2
"""Interval of the records of a partition."""
USUAL_S: Final = 0.7
"""A pause up to that is no sign of anything: a fetch waits for up to half a second."""
_LOOK_S: Final = 0.05


class Meter:
    """Reads what workers were given, from `begin` to `end`."""

    def __init__(
        self, address: Callable[[], Address], topic: str, partitions: int, members: list[Worker]
    ) -> None:
        self._address, self._topic, self._members = address, topic, members
        self._partitions = range(partitions)
        self._reached = dict.fromkeys(self._partitions, -1)
        self._read = dict.fromkeys(self._partitions, 0.0)
        self._pauses: list[float] = []
        self._readers: dict[int, Worker] = {}
        self.busy: set[Worker] = set()
        """Members that work for long between two polls: that is no pause of what they read."""
        self._seen: dict[int, int] = {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._observe)]

    def begin(self) -> None:
        """Start to produce, and to count when each partition was read once."""
        for each in self._threads:
            each.start()
        self._await_all(since=0.0)
        self._pauses.clear()

    def end(self) -> float:
        """Wait until each partition is read again; the partition-seconds that nobody read."""
        try:
            self._await_all(since=time.monotonic())
            time.sleep(2 * USUAL_S)
        finally:
            self.close()
        return sum(pause - EVERY_S for pause in self._pauses if pause > USUAL_S)

    def close(self) -> None:
        """End the threads."""
        self._over.set()
        for each in self._threads:
            if each.ident is not None:
                each.join()

    def _await_all(self, since: float) -> None:
        until = time.monotonic() + 60
        while not all(read > since for read in self._read.values()):
            assert time.monotonic() < until, f"not read: {self._read}, now {time.monotonic():.0f}"
            time.sleep(_LOOK_S)

    def _produce(self) -> None:
        client: Client | None = None
        while not self._over.wait(EVERY_S):
            with suppress(OSError):
                client = client or connect(self._address(), 5.0)
                try:
                    for each in self._partitions:
                        client.call(7, produce_request(self._topic, each, b"x"))
                except OSError:
                    client = None
        if client is not None:
            client.close()

    def _observe(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look(list(self._members))

    def _look(self, members: Sequence[Worker]) -> None:
        now = time.monotonic()
        for member in members:
            records = member.records
            new = records[self._seen.get(id(member), 0) :]
            self._seen[id(member)] = len(records)
            for topic, number, offset, _ in new:
                if topic == self._topic and offset > self._reached[number]:
                    self._reached[number] = offset
                    worked = self._readers.get(number) in self.busy
                    if self._read[number] and not worked:
                        self._pauses.append(now - self._read[number])
                    self._read[number], self._readers[number] = now, member
