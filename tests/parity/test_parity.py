"""Every transcript, played on a server in memory under virtual time: it answers what is written.

That Apache Kafka answers the same is what ``make parity`` shows, over the wire.
"""

import pytest

from tests.parity import virtual
from tests.parity.compare import difference
from tests.parity.transcript import Run, load, reasons

TRANSCRIPTS = load()
RUNS = [run for each in TRANSCRIPTS for run in each.runs()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_transcript(run: Run) -> None:
    told = difference(run.commands(), run.expected(ours=True), virtual.play(run))
    assert not told, "\n".join(told)


def test_there_are_enough_of_them_and_titles_are_unique() -> None:
    names = [each.name for each in TRANSCRIPTS]
    assert len(names) >= 5
    assert len(set(names)) == len(names)


def test_every_difference_has_a_reason_and_every_reason_a_transcript() -> None:
    used = set().union(*(each.differences() for each in TRANSCRIPTS))
    assert used == set(reasons())
    assert len(used) <= 20
