"""The tables of an analysis of a data directory, as `groupkeeper analyze` makes them: what the
questions read.
"""

import tempfile
from pathlib import Path

import pyarrow as pa

from groupkeeper.analytics.pipeline.engine import LocalEngine
from groupkeeper.analytics.pipeline.output import Output
from groupkeeper.analytics.pipeline.run import NOTHING, Trunk
from groupkeeper.analytics.reading.plan import plan_topics
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.store.tables import read_days


def tables_of(data: Path, *, events: bool = True, workers: int = 1) -> dict[str, pa.Table]:
    """Name -> table: from both logs, or from the offsets log alone."""
    plans = plan_topics([data])
    with tempfile.TemporaryDirectory() as scratch, LocalEngine(workers) as engine:
        folder = Path(scratch, "tables")
        output = Output(folder, left_out=frozenset({"records", "commits"}), goes_on=False)
        Trunk(engine, scratch, output).run(
            plans[OFFSETS], events=plans[EVENTS] if events else NOTHING
        )
        return read_days(folder)
