"""Whether incidents are judged right. One is played, all by `python -m tests.truth incidents`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_event_words import LIKELY
from groupkeeper.protocol.group_events import CauseCode
from tests.clients.libraries import CONFLUENT, Library
from tests.truth.__main__ import main
from tests.truth.foreign import JAVA
from tests.truth.incidents import plays
from tests.truth.incidents.catalogue import INCIDENTS
from tests.truth.incidents.command import chosen_of
from tests.truth.incidents.layers import EVENTS, LIVE, PLAIN, Heard, heard_live
from tests.truth.incidents.plays import Outcome, play, read, run, to_play
from tests.truth.incidents.truths import ANY, NONE, Incident, pair, truth
from tests.truth.incidents.verdicts import RIGHT, UNKNOWN, WRONG, judge

TRUTH = truth(
    "a member was killed",
    "session_expired/crash_or_network coordinator_loaded",
    "member_joined member_replaced/*",
    r"[Nn]othing is wrong",
    finds=r"lag",
)
KILLED = ("session_expired", "crash_or_network")
LOADED = ("coordinator_loaded", NONE)
Capture = pytest.CaptureFixture[str]


def an_incident(client: Library = CONFLUENT, **changed: Any) -> Incident:
    return Incident("killed", client, "a test", replace(TRUTH, **changed), lambda _: None)


def verdict(heard: Heard, layer: str = LIVE, client: Library = CONFLUENT, **changed: Any) -> str:
    return judge(an_incident(client, **changed), layer, heard).verdict


def test_all_that_is_needed_is_right() -> None:
    assert verdict(Heard([KILLED, ("member_joined", NONE)], [LOADED])) == RIGHT


def test_what_is_missing_or_has_no_reason_is_unknown() -> None:
    assert verdict(Heard([], [LOADED])) == UNKNOWN
    assert verdict(Heard([("session_expired", NONE)], [LOADED])) == UNKNOWN
    assert verdict(Heard([(UNKNOWN, NONE)], [LOADED])) == UNKNOWN


@pytest.mark.parametrize(
    "told", [("member_left", NONE), ("session_expired", "slow_member"), ("member_joined", "duel")]
)
def test_another_code_or_reason_is_wrong(told: tuple[str, str]) -> None:
    assert verdict(Heard([KILLED, told], [LOADED])) == WRONG


def test_any_reason_fits_a_star() -> None:
    assert pair("member_replaced/*") == ("member_replaced", ANY)
    assert verdict(Heard([KILLED], [LOADED, ("member_replaced", "duel")])) == RIGHT


def test_an_event_claims_nothing_but_its_reason() -> None:
    assert verdict(Heard([KILLED], [LOADED, ("commits", NONE)])) == RIGHT
    assert verdict(Heard([KILLED], [LOADED, ("member_fenced", "duel")])) == WRONG


def test_sentences_that_do_harm_are_wrong() -> None:
    assert verdict(Heard([KILLED], [LOADED], ["Nothing is wrong."])) == WRONG


def test_a_setting_that_is_refused_is_not_proposed() -> None:
    refused = "No setting is proposed: with session.timeout.ms=660000 it would have been 9.5."
    assert verdict(Heard([KILLED], [LOADED], [f"It was back. {refused}"])) == RIGHT
    more = f"{refused} Set session.timeout.ms=660000."
    assert verdict(Heard([KILLED], [LOADED], [more])) == WRONG


def test_settings_that_a_client_does_not_have_are_wrong() -> None:
    heard = Heard([KILLED], [LOADED], ["set partition.assignment.strategy=cooperative-sticky"])
    assert verdict(heard) == RIGHT
    assert verdict(heard, client=JAVA) == WRONG
    longer = Heard([KILLED], [LOADED], ["set session.timeout.ms=660000"])
    assert verdict(longer) == WRONG
    assert verdict(longer, client=JAVA) == RIGHT


def test_a_report_has_to_find_it_and_a_log_without_events_is_asked_for_no_less() -> None:
    assert verdict(Heard([KILLED], [LOADED]), EVENTS) == UNKNOWN
    assert verdict(Heard([KILLED], [LOADED], ["its lag rises"]), EVENTS) == RIGHT
    assert verdict(Heard([KILLED], [], ["its lag rises"]), PLAIN) == UNKNOWN


def test_only_what_happened_later_counts() -> None:
    cause = {"code": "session_expired", "likely": "crash_or_network"}
    one = {"kind": "round", "cause": cause, "ended_at_ms": 7, "text": "x", "advice": "y"}
    assert heard_live([one], 7) == Heard()
    assert heard_live([one], 6) == Heard([KILLED], [], ["x", "y"])
    event = {"kind": "event", "type": "group_emptied", "cause": cause, "at_ms": 7, "text": "z"}
    assert heard_live([event], 6) == Heard([KILLED], [("group_emptied", NONE)], ["z"])


def an_outcome(number: int, name: str = "killed", error: str = "") -> Outcome:
    told = {"verdict": RIGHT, "why": [], "pairs": [], "events": [], "sentences": []}
    layers = {} if error else dict.fromkeys((LIVE, EVENTS, PLAIN), told)
    return Outcome(name, CONFLUENT.name, number, 1.0, layers, error)


def test_what_was_played_is_not_played_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    first = to_play([an_incident()], 3, read(path))
    assert [number for _, number in first] == [1, 2, 3]
    [*_] = run(first[:2], path, player=lambda _, number: an_outcome(number))
    with path.open("a") as file:
        file.write(json.dumps({"incident": "killed"})[:-4])  # broken off
    assert [number for _, number in to_play([an_incident()], 3, read(path))] == [3]


def test_what_could_not_be_played_is_played_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    [*_] = run([(an_incident(), 1)], path, player=lambda _, n: an_outcome(n, error="no settling"))
    assert to_play([an_incident()], 1, read(path))


def test_the_table_has_each_verdict_and_the_exit_code_says_whether_one_is_wrong(
    tmp_path: Path, capsys: Capture
) -> None:
    [incident] = chosen_of(INCIDENTS, CONFLUENT.name, "one of two is shut down")
    told: dict[str, Any] = {"pairs": [["member_left", NONE]], "events": [], "sentences": []}
    layers = dict.fromkeys((LIVE, EVENTS, PLAIN), told | {"verdict": WRONG, "why": []})
    good = Outcome(incident.name, incident.client.name, 1, 2.0, layers)
    path = tmp_path / "outcomes"
    words = ["incidents", "--show", "--resume", str(path)]
    [*_] = run([(incident, 1)], path, player=lambda *_: good)
    assert main(words) == 0  # judged again, by the truth of today

    wrong = layers[LIVE] | {"pairs": [["session_expired", NONE]]}
    bad = replace(good, layers=layers | {LIVE: wrong})
    [*_] = run([(incident, 1)], path, player=lambda *_: bad)
    capsys.readouterr()
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "X··" in shown
    assert "told session_expired/-" in shown


def test_a_play_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no server")

    monkeypatch.setattr(plays, "Stage", fails)
    assert play(an_incident(), 1).error == "ValueError: no server"


def test_there_are_enough_incidents_and_all_words_are_known() -> None:
    assert len({each.name for each in INCIDENTS}) >= 60
    assert len({each.key for each in INCIDENTS}) == len(INCIDENTS)
    for each in INCIDENTS:
        assert each.source
        assert each.truth.words
        assert {code for code, _ in each.truth.pairs} <= {*CauseCode, *TYPES}
        assert {reason for _, reason in each.truth.pairs} <= {*LIKELY, ANY, NONE}


def test_words_choose_clients_and_incidents() -> None:
    chosen = chosen_of(INCIDENTS, "confluent,java", "crash loop")
    assert [each.client.name for each in chosen] == [CONFLUENT.name, JAVA.name]
    assert main(["incidents", "--situations", "nonsense"]) == 1


@pytest.mark.clients
@pytest.mark.parametrize("name", ["one of two is shut down"])
def test_what_is_told_of_an_incident_is_true(name: str) -> None:
    [incident] = chosen_of(INCIDENTS, CONFLUENT.name, name)
    outcome = play(incident, 1)
    assert not outcome.error
    assert outcome.layers[LIVE]["why"] == outcome.layers[EVENTS]["why"] == []
    assert outcome.verdict(LIVE) == outcome.verdict(EVENTS) == RIGHT
    assert outcome.verdict(PLAIN) in {RIGHT, UNKNOWN}
