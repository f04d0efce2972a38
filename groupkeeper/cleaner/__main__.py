"""The compaction process: reads a job from standard input, writes its result, and ends.

The argument is the name of its priority. Dots precede the result as signs of life: at most one per
`BEAT_S`, and none without progress. The result is a line of JSON: that of `Compacted`, or `corrupt`
with a message, or `errno` and `error`.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Final

LOWEST_PRIORITY = 19
BEAT_S: Final = 1.0
NORMAL: Final = "normal"
LOW: Final = "low"


def yield_to_the_server(priority: str) -> None:
    """Lower the priority, so that compaction runs only while the server leaves the processor idle.

    With the lowest nice value alone, a thread of the server that wakes up would still wait for the
    compaction's time slice. Not in a separate session: there, a low priority also counts against
    all other sessions of the machine, and while they are busy nothing is compacted.
    """
    if priority == NORMAL:
        return
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    if priority != LOW:
        with suppress(AttributeError, OSError):  # Linux only
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this
    parent = os.getppid()
    yield_to_the_server(sys.argv[1] if len(sys.argv) > 1 else "")
    # Only now: importing takes a tenth of a second.
    import json

    from groupkeeper.storage.compaction.compaction import CompactionJob, compact
    from groupkeeper.storage.errors import Corrupt
    from groupkeeper.storage.files.files import Files

    beaten = time.monotonic()

    def check() -> None:
        nonlocal beaten
        if os.getppid() != parent:
            raise SystemExit(1)  # the server has ended; its successor removes the files
        if time.monotonic() >= beaten + BEAT_S:
            beaten = time.monotonic()
            sys.stdout.write(".")
            sys.stdout.flush()

    job = CompactionJob.from_json(sys.stdin.readline())
    try:
        answer = compact(Files(), job, check).to_json()
    except Corrupt as error:
        answer = json.dumps({"corrupt": str(error)})
    except OSError as error:
        answer = json.dumps({"errno": error.errno or 0, "error": error.strerror or str(error)})
    sys.stdout.write(answer + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
