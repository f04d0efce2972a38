"""How much work calls are, in lines or instructions of Python that they execute: no other process
changes it.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from groupkeeper.coordinator.partition import Partition

T = TypeVar("T")


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


def instructions(call: Callable[..., T], *args: Any) -> tuple[T, int]:
    """What a call returns, and how many instructions of Python it executes: finer than lines, which
    leave out all but the first round of a comprehension.
    """
    count = 0

    # Any: what a trace function is given and returns.
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # or finalizers of what other tests left are counted, too
    sys.settrace(trace)
    try:
        result = call(*args)
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return result, count
