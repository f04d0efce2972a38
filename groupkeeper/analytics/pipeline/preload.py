"""Imports what the workers of the local engine need, and loads the compiled parser.

For the process that forks them only: Ctrl-C at a terminal goes to all of them, and the command is
the one that answers it. They end at once, without a traceback each.
"""

import gc
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # before the imports, which take seconds

from groupkeeper.analytics.libraries import prepare_process  # noqa: E402
from groupkeeper.analytics.pipeline import chunks, partitions  # noqa: E402, F401
from groupkeeper.analytics.reading import parser  # noqa: E402, F401

prepare_process()
# What is imported stays: collections of workers, which make many rows, need not look at it.
gc.freeze()
