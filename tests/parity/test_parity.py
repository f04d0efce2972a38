"""Every transcript, played on a server in memory under virtual time: it answers what is written.

That Apache Kafka answers the same is what `make parity` shows, over the wire.
"""

from pathlib import Path

import pytest

from groupkeeper.protocol.registry import APIS
from tests.parity import happened, virtual
from tests.parity.compare import difference
from tests.parity.conformance import KIPS, versions_played
from tests.parity.people import KEYS
from tests.parity.transcript import SHOWN_BY_TESTS, Run, load, reasons

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = load()
PLAYED = versions_played(TRANSCRIPTS)
GROUP_APIS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
    *("OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups", "FindCoordinator"),
)
RUNS = [run for each in TRANSCRIPTS for run in each.runs()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_transcript(run: Run) -> None:
    played = virtual.play(run)
    told = difference(run.commands(), run.expected(ours=True), played.lines)
    told += happened.difference(run.commands(), run.events(), played.events, played.names)
    assert not told, "\n".join(told)


def test_titles_are_unique() -> None:
    names = [each.name for each in TRANSCRIPTS]
    assert len(set(names)) == len(names)


def test_every_difference_has_a_reason_and_every_reason_a_transcript_or_test() -> None:
    used = set().union(*(each.differences() for each in TRANSCRIPTS))
    assert used | set(SHOWN_BY_TESTS) == set(reasons())
    assert all((ROOT / test).is_file() for test in SHOWN_BY_TESTS.values())
    assert len(reasons()) <= 20


def test_what_a_transcript_covers_has_a_row_in_the_table() -> None:
    covered = set().union(*(each.covers for each in TRANSCRIPTS))
    assert {each for each in covered if not each.startswith("KAFKA-")} <= set(KIPS)


@pytest.mark.parametrize("api", GROUP_APIS)
def test_every_version_about_groups_is_played(api: str) -> None:
    oldest, newest = APIS[KEYS[api]].served
    assert PLAYED[api] == set(range(oldest, newest + 1))
