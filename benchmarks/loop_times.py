"""How long iterations and callbacks of a server's event loop took."""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_BUCKET = re.compile(r'^groupkeeper_loop_iteration_seconds_bucket\{le="([^"]+)"\} (\S+)', re.M)
_LOOK_S = 0.02
_WITHIN_S = 30.0

Iterations = Mapping[float, int]
"""Iterations by upper bound in seconds, those of smaller bounds included."""


def iterations(text: str) -> Iterations:
    """Return those that a page of metrics tells; empty if it has none."""
    return {float(bound): int(float(count)) for bound, count in _BUCKET.findall(text)}


def longer_than(seconds: float, found: Iterations) -> int:
    """Return how many took longer than a bound."""
    return found[float("inf")] - found[seconds]


def worst_ms(before: Iterations, after: Iterations) -> float:
    """Return the upper bound of the longest iteration between two looks."""
    more = {bound: number - before[bound] for bound, number in after.items()}
    every = more[float("inf")]
    return 1000 * next(bound for bound, number in more.items() if number == every)


class Callback(NamedTuple):
    """The longest callback of a time, in processor time, and how many there were."""

    ms: float
    name: str
    count: int


class LongestCallbacks:
    """What a server tells that was started by timed_loop.py with `LONGEST_CALLBACKS=path`."""

    def __init__(self, path: Path) -> None:
        self._path, self._lines = path, 0

    def since_last(self, pid: int) -> Callback:
        """Return the longest one since it was asked for last. Raises TimeoutError."""
        self._lines += 1
        os.kill(pid, signal.SIGUSR2)
        until, lines = time.monotonic() + _WITHIN_S, list[str]()
        while len(lines) < self._lines:
            if time.monotonic() > until:
                raise TimeoutError(f"process {pid} does not tell its callbacks")
            time.sleep(_LOOK_S)
            if self._path.exists():
                lines = self._path.read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[-1])
        return Callback(found["ms"], found["callback"], found["count"])
