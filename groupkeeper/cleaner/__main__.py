"""The process that compacts: reads a job from standard input, writes its result, and ends.

The result is a line of JSON: that of `Compacted`, or `corrupt` with a message, or `errno` and
`error`.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from groupkeeper.storage.compaction import CompactionJob, compact
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files import Files

LOWEST_PRIORITY = 19
_AUTOGROUP = Path("/proc/self/autogroup")


def yield_to_others() -> None:
    """Give this process what is left of the processors.

    Linux shares them among sessions first ("autogroup"), so that in the server's session, a low
    priority would not count beside others, nor beside the threads of the kernel that sync the
    server's journal.
    """
    with suppress(OSError):  # it leads one already
        os.setsid()
    with suppress(OSError):  # other systems have no such file
        _AUTOGROUP.write_text(str(LOWEST_PRIORITY))
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)


def main() -> int:
    """Run one job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this one
    parent = os.getppid()
    yield_to_others()

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
