"""How much work calls are, in lines of Python that they execute: no other process changes it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from groupkeeper.coordinator.partition import Partition


class Work:
    """Counts the lines of single calls."""

    def __init__(self) -> None:
        self.longest = 0
        """Lines of the longest call."""
        self.name = ""
        """Its name."""
        self._lines = 0

    # Any: what a trace function is given and returns.
    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._lines += 1
        return self._trace

    def count(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, counted."""

        def counted(*args: Any) -> Any:
            self._lines, before = 0, sys.gettrace()
            sys.settrace(self._trace)
            try:
                return call(*args)
            finally:
                sys.settrace(before)
                if self._lines > self.longest:
                    self.longest, self.name = self._lines, name

        return counted


STEPS = ("handle", "advance", "next_deadline", "take", "written", "start_sessions", "forget_topics")
"""What a driver calls of a partition, each in one callback of the event loop."""


@contextmanager
def counted(partition: Partition) -> Iterator[Work]:
    """Count the lines of each of its steps."""
    work = Work()
    for name in STEPS:
        setattr(partition, name, work.count(name, getattr(partition, name)))
    try:
        yield work
    finally:
        for name in STEPS:
            delattr(partition, name)
