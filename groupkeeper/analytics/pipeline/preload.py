"""Imports the modules of the local engine's workers and loads the compiled parser.

Only for the process that the workers are forked from. Ctrl-C at a terminal signals all processes;
the command handles it, so workers end at once, without tracebacks.
"""

import gc
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # before the imports, which take seconds

from groupkeeper.analytics.libraries import prepare_process  # noqa: E402
from groupkeeper.analytics.pipeline import chunks, partitions  # noqa: E402, F401
from groupkeeper.analytics.reading import parser  # noqa: E402, F401

prepare_process()
# Imported objects stay: exempt them from the collections in workers, which make many rows.
gc.freeze()
