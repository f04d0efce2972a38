"""TLS handshakes of all connections: a few steps at a time, and what is told of failed ones.

A step costs the event loop 0.3 to 1.6 ms, for the signature of a key and the check of another. So
at most `AT_ONCE` are made in an iteration of the loop, each in a callback of its own, in the order
in which clients have sent something.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import ConnectionStats
from groupkeeper.observe.seldom import Seldom

AT_ONCE: Final = 4
"""Steps of handshakes in one iteration of the loop."""
TIMEOUT_S: Final = 10.0
"""How long a handshake may take, from the accepted connection on."""
READ_BYTES: Final = 256 * 1024
"""Maximum bytes read from a socket at once, as without TLS."""
TOLD_S: Final = 1.0
"""Minimum interval between two lines about failures from one address."""

_log = Logger("access")


class Handshakes:
    """The steps that wait for their turn; each connection has one at most."""

    def __init__(self, stats: ConnectionStats, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self.received = memoryview(bytearray(READ_BYTES))
        """What every socket is read into; it is used up before the next one is read."""
        self._stats = stats
        self._steps: deque[Callable[[], None]] = deque()
        self._scheduled = 0
        """Callbacks of the loop that will make a step each."""
        self._seldom = Seldom(interval_s=TOLD_S)

    def queue(self, step: Callable[[], None]) -> None:
        """Make a step of a handshake soon."""
        self._steps.append(step)
        if self._scheduled < AT_ONCE:
            self._scheduled += 1
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        step = self._steps.popleft()
        try:
            step()
        finally:
            if len(self._steps) >= self._scheduled:  # the others have one each
                asyncio.get_running_loop().call_soon(self._next)
            else:
                self._scheduled -= 1

    def failed(self, client: str, listener: str, reason: str) -> None:
        """Count a failed handshake, and log it unless one of this address was just logged."""
        self._stats.handshakes_failed += 1
        if count := self._seldom.due(client):
            more = {"failures": count} if count > 1 else {}
            _log.warning("no TLS", client=client, listener=listener, reason=reason, **more)
