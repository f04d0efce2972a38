"""The process that compacts: reads a job from standard input, writes its result, and ends.

The result is a line of JSON: that of `Compacted`, or `corrupt` with a message, or `errno` and
`error`.
"""

import json
import os
import signal
import sys

from groupkeeper.storage.compaction import CompactionJob, compact
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files import Files

LOWEST_PRIORITY = 19


def main() -> int:
    """Run one job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this one
    parent = os.getppid()
    os.nice(LOWEST_PRIORITY)

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
