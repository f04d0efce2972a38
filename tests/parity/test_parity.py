"""Every transcript, played on a server in memory under virtual time: it answers what is written.

That Apache Kafka answers the same is what `make parity` shows, over the wire.
"""

import re
from pathlib import Path

import pytest

from groupkeeper.coordinator.likely import COORDINATOR_STALLED
from groupkeeper.observe.fact_counters import EXPECTED
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_event_words import LIKELY
from groupkeeper.protocol.group_events import CauseCode, Event
from groupkeeper.protocol.registry import APIS
from tests.clients.libraries import LIBRARIES
from tests.parity import happened, virtual
from tests.parity.compare import difference
from tests.parity.conformance import FEATURES, KIPS, versions_played
from tests.parity.people import KEYS, names_of
from tests.parity.transcript import SHOWN_BY_TESTS, Transcript, load, reasons

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = load()
PLAYED = versions_played(TRANSCRIPTS)
GROUP_APIS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
    *("OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups", "FindCoordinator"),
)
DECISION = ROOT / "docs" / "decisions" / "003-differences-from-kafka.md"
IN_PROSE = {"told-protocol"}
"""Differences that decision 003 tells in a paragraph, not in a table."""
OF_WRONG_REQUESTS = {
    *("NONE", "UNKNOWN_SERVER_ERROR", "INVALID_GROUP_ID", "INVALID_SESSION_TIMEOUT"),
    *("INCONSISTENT_GROUP_PROTOCOL", "FETCH_SESSION_ID_NOT_FOUND"),
}
"""Errors that no client gets twice, so that their series need not exist before."""
_ANSWER = re.compile(r"<- (\w+): ([A-Z_]+)")
_KEYS = re.compile(r"\(`([a-z0-9-]+)`\)")
_MARK = re.compile(r"\(`([\w/.-]+)`\)$")
RUNS = [run for each in TRANSCRIPTS for run in each.runs()]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_transcript(transcript: Transcript) -> None:
    """In every version of its sweep, as one item."""
    told: list[str] = []
    for run in transcript.runs():
        played = virtual.play(run)
        lines = difference(run.commands(), run.expected(ours=True), played.lines)
        lines += happened.difference(run.commands(), run.events(), played.events, played.names)
        told += [run.name, *lines] if lines else []
    assert not told, "\n".join(told)


def test_titles_are_unique() -> None:
    names = [each.name for each in TRANSCRIPTS]
    assert len(set(names)) == len(names)


def test_every_difference_has_a_reason_and_every_reason_a_transcript_or_test() -> None:
    used = set().union(*(each.differences() for each in TRANSCRIPTS))
    assert used | set(SHOWN_BY_TESTS) == set(reasons())
    assert all((ROOT / test).is_file() for test in SHOWN_BY_TESTS.values())


def test_decision_003_names_each_difference_once_and_shows_each_row() -> None:
    """Behind what a row says is a key of differences.txt, or the test of what no answer tells."""
    text = DECISION.read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row != "| here"]
    marks = [found[1] if (found := _MARK.search(row)) else f"nothing: {row}" for row in rows]
    tests = {mark for mark in marks if mark.startswith("tests/")}
    assert all((ROOT / test).is_file() for test in tests)
    keys = [mark for mark in marks if mark not in tests]
    keys += [key for key in _KEYS.findall(text) if key in IN_PROSE]
    assert sorted(keys) == sorted(reasons())


def test_what_a_transcript_covers_has_a_row_in_the_table() -> None:
    covered = set().union(*(each.covers for each in TRANSCRIPTS))
    missing = sorted({each for each in covered if not each.startswith("KAFKA-")} - set(KIPS))
    assert not missing, f"add to KIPS in tests/parity/conformance.py: {', '.join(missing)}"


def test_kips_have_titles_and_features_the_clients_that_use_them() -> None:
    """The shape that docs/generate_conformance.py reads."""
    wrong = [kip for kip, title in KIPS.items() if not isinstance(title, str)]
    assert not wrong, f"KIPS has a title for each KIP, a str: {wrong}"
    known = {None, "everybody"}.union(*(each.can for each in LIBRARIES))
    for kip, users in FEATURES.items():
        assert kip in KIPS, f"{kip} of FEATURES is not in KIPS"
        assert isinstance(users, tuple) and len(users) == 2 and users[0] in known, (
            f"FEATURES[{kip!r}] is a pair: a feature in `can` of tests/clients/libraries.py, "
            "'everybody' or None; and a pattern of names of suites' tests, or None"
        )
        re.compile(users[1] or "")


def test_errors_that_members_get_have_their_series_from_the_start() -> None:
    answered = {
        (key, found[2])
        for run in RUNS
        for lines in run.expected(ours=True)
        for line in lines
        if (found := _ANSWER.search(line)) and (key := KEYS.get(found[1])) in EXPECTED
    }
    new = {(APIS[key].name, error) for key, error in answered if error not in EXPECTED[key]}
    new = {(name, error) for name, error in new if error not in OF_WRONG_REQUESTS}
    assert not new, f"add to EXPECTED in groupkeeper/observe/fact_counters.py: {sorted(new)}"


@pytest.mark.parametrize("api", GROUP_APIS)
def test_every_version_about_groups_is_played(api: str) -> None:
    oldest, newest = APIS[KEYS[api]].served
    assert PLAYED[api] == set(range(oldest, newest + 1))


EVENTS = [
    happened.parsed(line)
    for run in RUNS
    for lines in run.events()
    for line in lines
    if line != happened.NONE
]


def _written(name: str) -> set[str]:
    return {fields[name] for _, _, fields in EVENTS if name in fields}


OF_POLICIES = {
    *("seat_reserved", "seat_expired", "seat_revoked", "configs_changed", "window_over"),
    *(
        "expected_complete",
        "expected_missing",
        "policy_changed",
        "topics_changed",
        "rebalance_deferred",
        "standby_activated",
        "policy_refused",
        "assignment_changed",
    ),
}


def test_every_cause_every_guess_and_every_type_of_event_is_in_a_transcript() -> None:
    """But for `operator`: no request asks for such a rebalance, only the test bench does
    (tests/testing/test_group_control.py). Nor does a request stop the coordinator
    (tests/coordinator/test_stalls.py), and only observers lose history, and see groups of another
    type. Apache Kafka has no policies of groups, with which the transcripts could be compared
    (tests/coordinator/test_seats.py).
    """
    add = "play it in a transcript (causes.txt has most), with its `event:` lines"
    others = {COORDINATOR_STALLED, "history_lost", "group_converted", *OF_POLICIES}
    assert {kind for _, kind, _ in EVENTS} == set(TYPES) - others, add
    codes = {str(code) for code in CauseCode}
    assert _written("cause") == codes - {CauseCode.OPERATOR, *OF_POLICIES}, add
    assert _written("likely") == {*LIKELY, "null"}, add


def test_enough_transcripts_say_what_is_stored() -> None:
    telling = {run.transcript.name for run in RUNS if any(run.events())}
    assert len(telling) >= 40


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("group_created who=lea", ""),
        ("group_created who=fred", "+ group_created who=lea"),
        ("group_deleted who=lea", "+ group_created who=lea"),
        ("none", "+ group_created who=lea"),
        ("2 group_created who=lea", "- group_created who=lea"),
        ("group_created reason=null", "no such field"),
    ],
)
def test_an_event_line_that_is_not_true_is_a_difference(line: str, told: str) -> None:
    who = {"member": "", "client_id": "lea"}
    event = Event(0, 0, 0, 0, 0, "run.g", "group_created", fields={"who": who})
    lines = happened.difference(["join lea"], [[line]], [[event]], names_of("run.", 0))
    assert (told in "\n".join(lines)) if told else not lines
