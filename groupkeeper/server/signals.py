"""Signals for an orderly end of a process, on systems with and without `add_signal_handler`."""

import asyncio
import signal
from collections.abc import Callable
from typing import Final

STOPPING: Final = ("SIGTERM", "SIGINT")


def at_signals(call: Callable[[], object], *more: str) -> None:
    """Call on the running loop at SIGTERM, SIGINT and `more`, where the system has these names."""
    loop = asyncio.get_running_loop()
    for name in (*STOPPING, *more):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(int(number), call)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
