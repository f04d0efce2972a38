"""The lives of a test broker's server: one after the other, or none at the moment.

What looks at a server and asks it stands on this; `Bench` begins and ends the lives.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from warnings import warn

from groupkeeper.server.server import Server
from groupkeeper.testing.errors import BrokerDown
from groupkeeper.testing.faults.layer import Faults
from groupkeeper.testing.running import RunningServer
from groupkeeper.testing.tap import Tap

T = TypeVar("T")


class Lives:
    """The present life."""

    tap: Tap
    """Of all lives."""
    faults: Faults

    def __init__(self) -> None:
        self._running: RunningServer | None = None

    @property
    def running(self) -> RunningServer:
        """The server's present life. Raises BrokerDown."""
        if self._running is None:
            raise BrokerDown("the broker does not run: start() or restart() starts it")
        if self._running.has_died:
            raise BrokerDown("a fault rule has crashed the broker: restart() starts it again")
        return self._running

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._running is not None and not self._running.has_died

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's loop, and wait for it. Raises BrokerDown, also if the
        broker ends before. Any: asyncio's.
        """
        return self.running.result(work())

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it on the server's loop soon, unless none runs."""
        if self._running is not None:
            self._running.soon(callback)

    def forsake(self) -> None:
        """Nobody can stop it any more: end it soon, and warn. For `weakref.finalize`."""
        if self.is_up and self.running.forsake():
            warn(
                "a test broker was not stopped: use it in a with statement, or call stop()",
                ResourceWarning,
                stacklevel=2,
            )

    @property
    def server(self) -> Server:
        """To be used on its loop. Raises BrokerDown."""
        return self.running.server


def blocks_a_loop() -> bool:
    """Whether the caller is a coroutine: while it waits, its event loop stands still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
