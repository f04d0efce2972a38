"""The process that compacts: reads a job from standard input, writes its result, and ends.

The result is a line of JSON: that of `Compacted`, or `corrupt` with a message, or `errno` and
`error`.
"""

import os
import signal
import sys
from contextlib import suppress

LOWEST_PRIORITY = 19


def yield_to_the_server() -> None:
    """Run while the server does not want the processor.

    Under the lowest priority alone, a thread of the server that wakes up would still wait until the
    compaction has had its turn. Not in a session of its own: there, a low priority also counts
    against all other sessions of the machine, and while they are busy nothing is compacted.
    """
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    with suppress(AttributeError, OSError):  # of Linux only
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Run one job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this one
    parent = os.getppid()
    yield_to_the_server()
    # Only now: importing takes a tenth of a second.
    import json

    from groupkeeper.storage.compaction import CompactionJob, compact
    from groupkeeper.storage.errors import Corrupt
    from groupkeeper.storage.files import Files

    def check() -> None:
        if os.getppid() != parent:
            raise SystemExit(1)  # the server has ended; its successor removes the files

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
