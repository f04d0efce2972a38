"""Whether what is told beside Apache Kafka is judged right. `python -m tests.truth observed` plays
the situations.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.libraries import CONFLUENT
from tests.truth.__main__ import main
from tests.truth.observed import broker_log
from tests.truth.observed.broker_log import GroupTruth, Reason, Rebalance
from tests.truth.observed.catalogue import MAIN, SITUATIONS
from tests.truth.observed.judging import (
    NOT_PLAYED,
    NOT_READ,
    RIGHT,
    UNKNOWN,
    WRONG,
    PlayVerdict,
    judge,
)
from tests.truth.observed.judging_epochs import judge_epochs
from tests.truth.observed.plays import (
    LAYERS,
    Outcome,
    ended_by,
    missing,
    read,
    run,
    to_play,
    verdicts,
)
from tests.truth.observed.situations import Situation
from tests.truth.observed.stage import REMOVED, STALLED, SUBSCRIBED, Deed

_TAIL = "11111111-2222-3333-4444-555555555555"
BEGUN = 1_000
LATER = 2_000
Row = dict[str, Any]


def a_reason(code: str, name: str = "beta", text: str = "", is_static: bool = False) -> Reason:
    return Reason(code, f"{name}-{_TAIL}", LATER, text, is_static)


def the_truth(first: Reason, *also: Reason, generation: int = 3) -> GroupTruth:
    made = Rebalance(generation, LATER, first, [first, *also], "stable")
    return GroupTruth({generation: made})


def who(name: str) -> Row:
    return {"member": f"{name}-{_TAIL}", "instance": None, "client_id": name}


def told(code: str, name: str | None = None, likely: str | None = None, **more: Any) -> Row:
    cause = {"code": code, "likely": likely, "who": name and who(name)}
    return {"kind": "round", "generation": 3, "outcome": "completed", "cause": cause, **more}


def judged(row: Row, truth: GroupTruth, *deeds: Deed, unknowable: str = "") -> PlayVerdict:
    return judge([row], truth, deeds, BEGUN, unknowable.split())


EXPIRED = the_truth(a_reason(broker_log.EXPIRED))
LEFT = the_truth(a_reason(broker_log.LEFT))


def test_the_reason_in_the_log_is_right_and_another_wrong() -> None:
    assert judged(told("session_expired", "beta"), EXPIRED).verdict == RIGHT
    assert judged(told("session_expired"), EXPIRED).verdict == RIGHT
    assert judged(told("member_left", "beta"), EXPIRED).verdict == WRONG
    assert judged(told("session_expired", "alpha"), EXPIRED).verdict == WRONG


def test_not_to_know_is_unknown_unless_nobody_can_know() -> None:
    assert judged(told("unknown"), EXPIRED).verdict == UNKNOWN
    assert judged(told("unknown"), EXPIRED, unknowable="session_expired").verdict == RIGHT
    assert judged(told("unknown"), EXPIRED, unknowable="member_left").verdict == UNKNOWN


def test_what_nobody_can_know_is_wrong_if_it_is_told_wrong() -> None:
    assert judged(told("member_left"), EXPIRED, unknowable="session_expired").verdict == WRONG


def test_a_rebalance_that_is_not_told_is_unknown() -> None:
    assert judge([], EXPIRED, (), BEGUN).verdict == UNKNOWN


def test_a_rebalance_that_was_none_is_wrong() -> None:
    row = told("member_left") | {"generation": 4}
    right = told("session_expired")
    assert judge([right, row], EXPIRED, (), BEGUN).verdict == WRONG


def test_a_rebalance_under_way_need_not_be_told() -> None:
    truth = the_truth(a_reason(broker_log.EXPIRED))
    truth.rebalances[4] = Rebalance(4, LATER, a_reason(broker_log.JOINED))
    assert judge([told("session_expired")], truth, (), BEGUN).verdict == RIGHT


def test_what_happened_before_the_beginning_counts_only_if_it_is_wrong() -> None:
    rows = [told("unknown"), told("session_expired") | {"generation": 4}]
    truth = the_truth(a_reason(broker_log.LEFT))
    truth.rebalances[3].at_ms = BEGUN - 1
    truth.rebalances[4] = Rebalance(4, LATER, a_reason(broker_log.EXPIRED), ended="stable")
    assert judge(rows, truth, (), BEGUN).verdict == RIGHT
    rows[0] = told("session_expired")
    assert judge(rows, truth, (), BEGUN).verdict == WRONG


def test_instance_ids_make_other_codes() -> None:
    static = the_truth(a_reason(broker_log.JOINED, is_static=True))
    assert judged(told("static_member_joined", "beta"), static).verdict == RIGHT
    assert judged(told("member_joined", "beta"), static).verdict == WRONG
    dynamic = the_truth(a_reason(broker_log.JOINED))
    assert judged(told("member_joined", "beta"), dynamic).verdict == RIGHT


def test_a_late_poll_may_be_told_only_if_there_was_one() -> None:
    row = told("member_left", "beta", likely="max_poll_exceeded")
    assert judged(row, LEFT).verdict == WRONG
    assert judged(row, LEFT, Deed(STALLED, "beta", BEGUN)).verdict == RIGHT
    assert judged(row, LEFT, Deed(STALLED, "alpha", BEGUN)).verdict == WRONG
    said = the_truth(a_reason(broker_log.LEFT, text="consumer poll timeout has expired."))
    assert judged(row, said).verdict == RIGHT


def test_what_the_log_has_no_word_for_is_known_from_the_deed() -> None:
    updated = the_truth(a_reason(broker_log.UPDATED))
    subscribed = Deed(SUBSCRIBED, "beta", BEGUN)
    assert judged(told("subscription_changed", "beta"), updated).verdict == WRONG
    assert judged(told("subscription_changed", "beta"), updated, subscribed).verdict == RIGHT
    removed = Deed(REMOVED, "beta", BEGUN)
    assert judged(told("member_removed_by_admin", "beta"), LEFT, removed).verdict == RIGHT
    assert judged(told("member_left", "beta"), LEFT, removed).verdict == WRONG


def test_more_causes_have_to_be_true_as_well() -> None:
    truth = the_truth(a_reason(broker_log.EXPIRED), a_reason(broker_log.JOINED, "gamma"))
    row = told("session_expired", more_causes=[{"code": "member_joined"}])
    assert judged(row, truth).verdict == RIGHT
    assert judged(row, EXPIRED).verdict == WRONG


def test_who_came_and_who_is_gone_has_to_be_true() -> None:
    truth = the_truth(a_reason(broker_log.EXPIRED), a_reason(broker_log.JOINED, "gamma"))
    gone = {"who": who("beta"), "cause": {"code": "session_expired"}}
    row = told("session_expired", added=[{"who": who("gamma")}], removed=[gone])
    assert judged(row, truth).verdict == RIGHT
    assert judged(row | {"added": [{"who": who("delta")}]}, truth).verdict == WRONG
    left = gone | {"cause": {"code": "member_left"}}
    assert judged(row | {"removed": [left]}, truth).verdict == WRONG
    unknown = gone | {"cause": {"code": "unknown"}}
    assert judged(row | {"removed": [unknown]}, truth).verdict == RIGHT
    assert judged(row | {"removed": [gone | {"who": who("alpha")}]}, truth).verdict == WRONG


def test_who_went_in_a_superseded_rebalance_is_gone_in_the_next() -> None:
    truth = the_truth(a_reason(broker_log.LEFT, "alpha"), generation=2)
    truth.rebalances[3] = Rebalance(3, LATER, a_reason(broker_log.LEFT), ended="stable")
    truth.rebalances[3].also = [a_reason(broker_log.LEFT)]
    gone = [{"who": who(name), "cause": {"code": "member_left"}} for name in ("alpha", "beta")]
    superseded = told("member_left") | {"generation": 2, "outcome": "superseded"}
    row = told("member_left", removed=gone)
    assert judge([superseded, row], truth, (), BEGUN).verdict == RIGHT
    assert judge([superseded | {"outcome": "completed"}, row], truth, (), BEGUN).verdict == WRONG


def test_sentences_that_are_false_are_wrong() -> None:
    row = told("session_expired", ended_at_ms=LATER, text="beta restarted.")
    assert judge([row], EXPIRED, (), BEGUN).verdict == RIGHT
    assert judge([row], EXPIRED, (), BEGUN, (), "restarted").verdict == WRONG
    early = row | {"ended_at_ms": BEGUN - 1}
    assert judge([early], EXPIRED, (), BEGUN, (), "restarted").verdict == RIGHT
    unread = row | {"text": f"Inferred: {NOT_READ}."}
    assert judge([unread], EXPIRED, (), BEGUN).verdict == WRONG


# -- consumer groups -------------------------------------------------------------------------------


OF_EPOCH = {"group_type": "consumer"}


def test_an_epoch_of_a_consumer_group_is_judged_by_the_lines_before_it() -> None:
    about = "[GroupId g] "
    lines = [
        f"1796032572079 {about}Member a joins the consumer group using the consumer protocol.",
        f"1796032572080 {about}Bumped group epoch to 1 with metadata hash 5.",
        f"1796032582080 {about}Member a fenced from the group because the member session expired.",
        f"1796032582080 {about}Bumped group epoch to 2 with metadata hash 5.",
    ]
    truth = broker_log.read(lines)["g"]
    about_a = {"who": {"member": "a"}}
    first = told("member_joined") | {"generation": 1, **OF_EPOCH, "started_at_ms": 1796032572080}
    first["cause"] |= about_a
    row = told("session_expired", removed=[about_a | {"cause": {"code": "session_expired"}}])
    second = row | {"generation": 2, **OF_EPOCH, "started_at_ms": 1796032582081}
    assert judge_epochs([first, second], truth, (), BEGUN).verdict == RIGHT
    assert judge_epochs([first], truth, (), BEGUN).verdict == UNKNOWN
    unknown = second | {"cause": {"code": "unknown"}, "removed": []}
    assert judge_epochs([first, unknown], truth, (), BEGUN).verdict == UNKNOWN
    for harm in (
        {"cause": {"code": "member_left"}},
        {"cause": {"code": "session_expired", "who": {"member": "b"}}},
        {"started_at_ms": 1796032572080},
        {"removed": [{"who": {"member": "b"}}]},
        {"removed": [about_a | {"cause": {"code": "member_left"}}]},
        {"added": [about_a]},
        {"generation": 3},
    ):
        assert judge_epochs([first, second | harm], truth, (), BEGUN).verdict == WRONG, harm
    joined = {"kind": "event", "type": "member_joined", "who": {"member": "b"}}
    assert judge_epochs([first, second, joined], truth, (), BEGUN).verdict == WRONG


def test_what_the_log_of_a_consumer_group_does_not_say_is_known_from_what_was_done() -> None:
    lines = [f"{LATER} [GroupId g] Bumped group epoch to 3 with metadata hash 5."]
    lines = [line.replace(str(LATER), "1796032582080") for line in lines]
    truth = broker_log.read(lines)["g"]
    deed = Deed(SUBSCRIBED, "beta", 1796032582000)
    row = told("subscription_changed") | {**OF_EPOCH, "started_at_ms": 1796032582080}
    assert judge_epochs([row], truth, (deed,), BEGUN).verdict == RIGHT
    other = row | {"cause": {"code": "topics_changed"}}
    assert judge_epochs([other], truth, (deed,), BEGUN).verdict == WRONG
    assert judge_epochs([other], truth, (), BEGUN).verdict == RIGHT


def test_what_ended_after_the_log_was_read_is_not_judged() -> None:
    rows = [told("session_expired", ended_at_ms=LATER), {"kind": "event", "type": "member_joined"}]
    assert ended_by(rows, LATER) == rows
    assert ended_by(rows, LATER - 1) == rows[1:]
    under_way = {**rows[0], "ended_at_ms": None, "started_at_ms": LATER}
    assert ended_by([under_way], LATER) == [under_way]
    assert ended_by([under_way], LATER - 1) == []


# -- plays -----------------------------------------------------------------------------------------


def a_situation(needs: tuple[tuple[str, str], ...] = ()) -> Situation:
    return Situation("killed", CONFLUENT, needs, lambda _: None)


def an_outcome(number: int, error: str = "", rows: tuple[Row, ...] = ()) -> Outcome:
    reason = f"removing member beta-{_TAIL} on heartbeat expiration."
    begins = f"with old generation 2 (reason: {reason})."
    lines = [
        f"{LATER + 1_700_000_000_000} Preparing to rebalance group g in state Stable {begins}",
        f"{LATER + 1_700_000_000_001} Stabilized group g generation 3 with 2 members.",
    ]
    layers = {layer: [*rows] for layer in LAYERS}
    about = {"group": "g", "begun_ms": BEGUN, "told": layers, "lines": lines, "error": error}
    return Outcome("killed", CONFLUENT.name, number, 1.0, **about)


def test_a_play_that_did_not_happen_is_neither_right_nor_wrong() -> None:
    outcome = an_outcome(1, rows=(told("session_expired", "beta"),))
    needs = (("session_expired", "beta"),)
    assert verdicts(outcome, a_situation(needs))["why"].verdict == RIGHT
    assert verdicts(outcome, a_situation((("member_left", ""),)))["why"].verdict == NOT_PLAYED
    failed = an_outcome(1, "AssertionError: too slow")
    assert verdicts(failed, a_situation(needs))["observer"].verdict == NOT_PLAYED


def test_what_happened_too_early_was_not_played() -> None:
    assert missing(a_situation((("session_expired", ""),)), EXPIRED, LATER) == []
    assert missing(a_situation((("session_expired", ""),)), EXPIRED, LATER + 1)


def test_what_was_played_is_not_played_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    jobs = to_play([a_situation()], 3, read(path))
    assert [number for _, number in jobs] == [1, 2, 3]
    errors = {1: "", 2: "too slow"}
    [*_] = run(jobs[:2], path, 2, lambda _, number, __: an_outcome(number, errors[number]))
    with path.open("a") as file:
        file.write(json.dumps({"situation": "killed"})[:-4])  # broken off
    assert [number for _, number in to_play([a_situation()], 3, read(path))] == [2, 3]


def test_who_must_be_alone_is_played_last(tmp_path: Path) -> None:
    alone = Situation("alone", CONFLUENT, (), lambda _: None, is_in_wave=True)
    played = []

    def player(each: Situation, number: int, _: object) -> Outcome:
        played.append(each.name)
        return an_outcome(number)

    [*_] = run([(alone, 1), (a_situation(), 1), (a_situation(), 2)], None, 2, player)
    assert played == ["killed", "killed", "alone"]


def test_the_table_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "outcomes"
    words = ["observed", "--show", "--resume", str(path), "--situations", "kill -9"]
    for code, expected in (("session_expired", 0), ("member_left", 1)):
        row = told(code, "beta")
        found = an_outcome(1, rows=(row,))
        line = {name: getattr(found, name) for name in found.__dataclass_fields__}
        path.write_text(json.dumps(line | {"situation": "kill -9"}) + "\n")
        assert main(words) == expected
    shown = capsys.readouterr().out
    assert "| kill -9 | XX |" in shown
    assert "| why, plays by hand | 0 | 0 | 1 | 0 |" in shown
    assert "told member_left of beta, true is session_expired of beta" in shown


def test_no_situation_has_such_words() -> None:
    assert main(["observed", "--situations", "nonsense"]) == 1


def test_situations_have_names_of_their_own() -> None:
    assert len({each.key for each in SITUATIONS}) == len(SITUATIONS) >= 150
    assert {each.name for each in SITUATIONS} > MAIN
