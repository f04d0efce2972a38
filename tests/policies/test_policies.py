"""One check with one client; the others are played by `make suites ARGS=policies`. And how outcomes
are kept, resumed and shown.
"""

import json
from pathlib import Path

import pytest

from tests.policies.catalogue import CHECKS
from tests.policies.checks import Check
from tests.policies.clients import CONSUMERS
from tests.policies.page import PAGE, page
from tests.policies.party import Party
from tests.policies.plays import Outcome, play, read, run, to_play
from tests.policies.recording import keep
from tests.policies.table import lines
from tests.suites.checks import UnmetError
from tests.suites.policies import Policies

[CLOSED] = [
    each
    for each in CHECKS
    if each.number == "2" and each.client.name == "confluent-kafka-2.16 range"
]


@pytest.mark.clients
def test_a_member_leaves_and_is_back_and_nobody_else_stops() -> None:
    assert play(CLOSED).fault == ""


@pytest.mark.clients
def test_a_member_that_is_disturbed_is_seen() -> None:
    def begin(party: Party) -> None:
        alpha, beta = party.settled("alpha", "beta")
        party.begin(alpha)
        party.group.settle(alpha, beta, party.join("gamma"))
        party.nobody()

    outcome = play(Check("1", "a newcomer", CLOSED.client, begin))
    assert outcome.fault.startswith("UnmetError: another member's listener was called")


def test_every_client_plays_every_check() -> None:
    few = ("28", "29d")
    numbers = {each.number for each in CHECKS if not each.number.startswith(few)}
    keys = [(each.number, each.client.name) for each in CHECKS]
    assert len(keys) == len(set(keys))
    wanted = {(number, each.name) for number in numbers for each in CONSUMERS}
    assert {client for _, client in wanted - set(keys)} == {"kafkajs-2.2.4"}
    assert {number for number, _ in wanted - set(keys)} == {"17", "18", "19"}


def test_the_page_is_what_the_results_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_faults_are_footnotes() -> None:
    told = {CLOSED.key: "", CHECKS[0].key: "somebody stopped"}
    text = page({"versions": {"a": "1"}, "results": {"Groupkeeper": _recorded(told)}})
    assert "Versions: a 1." in text
    assert "| kafka-python-2.3.3 | (1) | not played |" in text
    assert "| confluent-kafka-2.16 range | ok |" in text
    assert f"1. {CHECKS[0].key}: somebody stopped" in text


def _recorded(faults: dict[str, str]) -> dict[str, object]:
    return {
        "passing": [name for name, fault in faults.items() if not fault],
        "failed": {name: fault for name, fault in faults.items() if fault},
    }


def test_what_was_not_played_is_said() -> None:
    assert sum("not played" in line for line in lines({})) == len(
        {each.client.name for each in CHECKS}
    )


def test_what_was_not_played_again_keeps_its_result(tmp_path: Path) -> None:
    file = tmp_path / "results"
    first, second, *_ = CHECKS
    old = _recorded({first.key: "", second.key: "", "0 no check any more, nobody": ""})
    suite = {"versions": dict(Policies.versions), "results": {"Groupkeeper": old}}
    file.write_text(json.dumps({"suites": {"policies": suite}}))
    keep(Policies(), [Outcome(first.number, first.name, first.client.name, 1.0, "seen")], file)
    told = json.loads(file.read_text())["suites"]["policies"]["results"]["Groupkeeper"]
    assert told["passing"] == [second.key]
    assert told["failed"] == {first.key: "seen"}


class Nobody:
    """Takes the place of a party: nothing is started."""

    has_begun = True

    def close(self) -> None:
        pass


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What comes out of plays, in their order."""
    monkeypatch.setattr(Check, "party", lambda self, folder: Nobody())
    return []


def checks_of(faults: list[str], number: int) -> list[Check]:
    def begin(party: Party) -> None:
        if fault := faults.pop(0):
            raise UnmetError(fault)

    return [Check(str(each), "plain", CLOSED.client, begin) for each in range(number)]


def test_what_passed_is_not_played_again(faults: list[str], tmp_path: Path) -> None:
    checks, file = checks_of(faults, 3), tmp_path / "outcomes"
    faults += ["", "seen", ""]
    outcomes = [*run(checks, file, at_once=1)]
    assert sorted(each.fault for each in outcomes) == ["", "", "UnmetError: seen"]
    with file.open("a") as written:
        written.write('{"number": "0", "che')
    assert [each.number for each in to_play(checks, read(file))] == ["1"]


def test_the_last_outcome_of_a_check_counts(faults: list[str], tmp_path: Path) -> None:
    checks, file = checks_of(faults, 1), tmp_path / "outcomes"
    faults += ["seen", ""]
    for _ in range(2):
        assert len([*run(checks, file)]) == 1
    assert [each.fault for each in read(file)] == [""]
    assert to_play(checks, read(file)) == []


def test_a_play_that_did_not_begin_is_played_again(
    faults: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nobody, "has_begun", False)
    faults += ["did not settle", ""]
    assert play(*checks_of(faults, 1)).fault == ""
