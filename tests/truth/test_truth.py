"""A few situations with one client; the others are played by `python -m tests.truth`."""

from dataclasses import replace
from pathlib import Path

import pytest

from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_event_words import LIKELY
from groupkeeper.protocol.group_events import CauseCode
from tests.clients.libraries import CONFLUENT
from tests.parity.happened import parsed
from tests.truth.__main__ import judge, main
from tests.truth.catalogue import SITUATIONS
from tests.truth.incidents.catalogue import INCIDENTS
from tests.truth.incidents.truths import ANY, NONE
from tests.truth.reading import ALL, NO

PLAYED = {
    each.name: each
    for each in SITUATIONS
    if each.client is CONFLUENT
    and each.name
    in ("closed", "killed with kill -9", "the server is killed, and a member is not back")
}
LINES = [
    parsed(line.removeprefix(f"{NO} ").removeprefix(f"{ALL} "))
    for each in SITUATIONS
    for line in each.expected
]


@pytest.mark.clients
@pytest.mark.parametrize("name", PLAYED)
def test_what_is_stored_is_the_truth(name: str, tmp_path: Path) -> None:
    verdict = judge(PLAYED[name], tmp_path)
    assert verdict.found == verdict.expected


@pytest.mark.clients
def test_what_is_not_the_truth_is_seen(tmp_path: Path) -> None:
    wrong = ("rebalance_started cause=session_expired who=beta", "no member_removed", "not_back")
    verdict = judge(replace(PLAYED["closed"], expected=wrong, seconds=1.0), tmp_path)
    assert not verdict.is_right
    found = ["rebalance_started cause=member_left who=beta", "member_removed", "no not_back"]
    assert verdict.found == found


def test_there_are_enough_situations_and_all_words_are_known() -> None:
    assert len({each.name for each in SITUATIONS}) >= 20
    assert all(each.expected for each in SITUATIONS)
    assert {kind for _, kind, _ in LINES} <= set(TYPES)
    causes = {fields["cause"] for _, _, fields in LINES if "cause" in fields}
    guesses = {fields["likely"] for _, _, fields in LINES if "likely" in fields}
    guesses |= {reason for each in INCIDENTS for _, reason in each.truth.pairs}
    assert causes <= set(CauseCode)
    assert guesses == {*LIKELY, "null", ANY, NONE}


def test_words_that_mean_no_situation_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 1
    assert "0 situations" in capsys.readouterr().out
