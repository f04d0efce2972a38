"""A server that measures every callback of its event loop, for callbacks.py.

`python -m benchmarks.timed_loop serve ...` is `groupkeeper serve ...`. After each SIGUSR2 it adds a
line of JSON to the file that `LONGEST_CALLBACKS` names: the longest callback since the last one.
"""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any


class Longest:
    """What was measured since it was told last. Times are processor time of the loop's thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.name = ""
        self.count = 0

    def measure(self) -> None:
        """Put a clock around every callback."""
        run, clock = asyncio.Handle._run, time.thread_time

        def timed(handle: asyncio.Handle) -> None:
            # Any: a private field, which is gone when the callback has run.
            callback: Any = handle._callback  # type: ignore[attr-defined]
            began = clock()
            run(handle)
            took = clock() - began
            self.count += 1
            if took > self.seconds:
                found = getattr(callback, "func", callback)
                self.seconds, self.name = took, getattr(found, "__qualname__", str(found))

        asyncio.Handle._run = timed  # type: ignore[method-assign]

    def tell(self, *_: object) -> None:
        """Write it down, and begin anew."""
        found = {"ms": self.seconds * 1000, "callback": self.name, "count": self.count}
        self.seconds, self.name, self.count = 0.0, "", 0
        with open(os.environ["LONGEST_CALLBACKS"], "a", encoding="utf-8") as told:
            told.write(json.dumps(found) + "\n")


def main() -> int:
    from groupkeeper.cli import main as groupkeeper

    longest = Longest()
    longest.measure()
    signal.signal(signal.SIGUSR2, longest.tell)
    return groupkeeper()


if __name__ == "__main__":
    sys.exit(main())
