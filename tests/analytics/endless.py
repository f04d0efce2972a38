"""`groupkeeper analyze` with two workers, each of which says `busy` and goes on. For tests."""

import os
import sys
import time

from groupkeeper.analytics.pipeline import engine
from groupkeeper.analytics.pipeline.run import Trunk
from groupkeeper.cli import main

WORK_S = 60
"""Longer than a test, but not for ever."""


def works(number):
    os.write(1, b"busy\n")
    time.sleep(WORK_S)


def goes_on(trunk, *log):
    return [*trunk.engine.map(works, range(2))]


if __name__ == "__main__":
    engine.ONE_PROCESS_BELOW = 0
    Trunk.run = goes_on
    sys.exit(main(["analyze", "--workers", "2", *sys.argv[1:]]))
