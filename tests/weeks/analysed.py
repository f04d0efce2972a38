"""The tables of an analysis of a data directory, and the answers to its questions, as `groupkeeper
analyze` makes them.
"""

import tempfile
from pathlib import Path

import pyarrow as pa

from groupkeeper.analytics import answering
from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.pipeline.lag import ends_of
from groupkeeper.analytics.pipeline.output import Output
from groupkeeper.analytics.pipeline.run import NOTHING, Trunk
from groupkeeper.analytics.reading.plan import data_folders, plan_topics
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from tests.analytics.stored import read_tables


def tables_of(data: Path, *, events: bool = True, workers: int = 1) -> dict[str, pa.Table]:
    """Name -> table: from both logs, or from the offsets log alone."""
    with tempfile.TemporaryDirectory() as scratch, Engine(workers) as engine:
        return read_tables(_analysed(data, Path(scratch), engine, events=events)[0])


def asked_of(data: Path, *, events: bool = True, workers: int = 2) -> dict[str, pa.Table]:
    """Name -> table or answer."""
    with tempfile.TemporaryDirectory() as scratch, Engine(workers) as engine:
        folder, ends = _analysed(data, Path(scratch), engine, events=events)
        everything = answering.Chosen(ends=ends)
        _, answers = answering.ask(folder, everything, engine, workers, lambda *_: None)
        return read_tables(folder) | answers


def _analysed(data: Path, scratch: Path, engine: Engine, *, events: bool) -> tuple[Path, pa.Table]:
    """The folder with the tables, and table `log_ends`."""
    plans = plan_topics([data])
    folder = scratch / "tables"
    output = Output(folder, left_out=frozenset({"records", "commits"}), goes_on=False)
    found = Trunk(engine, str(scratch), output).run(
        plans[OFFSETS], events=plans[EVENTS] if events else NOTHING
    )
    return folder, ends_of(found.tables["offsets"], data_folders(plans[OFFSETS]))
