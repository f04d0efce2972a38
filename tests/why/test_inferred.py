"""Inferred rounds in words: how sure they are, who did it, and no advice that records lack."""

from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.history.causes import CONFIDENCE
from groupkeeper.history.rounds import Folding, Round
from groupkeeper.history.rows import LOG
from groupkeeper.history.rows import Told as InferredTold
from groupkeeper.protocol.group_events import Event, decode, encode
from groupkeeper.why.advice import advice
from groupkeeper.why.entries import entry_json, entry_text
from groupkeeper.why.inferred import _ADVICE, _SENTENCES, is_first, sure_text
from groupkeeper.why.lines import line
from groupkeeper.why.texts import settings_in
from groupkeeper.why.words import headline, paragraph, trigger
from tests.support.told_events import NOON, Told, who

ANN, BEN = who("ann", client_id="ann"), who("ben", client_id="ben")
POD = who("pod-1", instance="pod")


def inferred(code: str, by: dict[str, Any] | None = None, **fields: Any) -> Round:
    """A round of three members, inferred."""
    cause = {"code": code, "likely": fields.pop("likely", None), "who": by, "evidence": {}}
    more = fields.pop("more", [])
    about = {"source": LOG, "confidence": CONFIDENCE.get(code, 0.5)}
    told = Told()
    told.started(cause, from_state=fields.pop("from_state", "Stable"))
    for each in more:
        told.added({"code": each})
    told.at(3_000).joined(("m1", 0), ("m2", 0))
    told.completed(moved=2)
    told.events = [each._replace(fields={**each.fields, **about}) for each in told.events]
    [only] = told.rounds()
    return replace(only, **fields)


def gone(*members: dict[str, Any], code: str, **evidence: Any) -> list[dict[str, Any]]:
    cause = {"code": code, "evidence": evidence}
    return [{"at_ms": NOON, "who": each, "cause": cause} for each in members]


def came(*members: dict[str, Any], kind: str = "dynamic") -> list[dict[str, Any]]:
    return [{"at_ms": NOON, "who": each, "kind": kind} for each in members]


@pytest.mark.parametrize(
    ("current", "said"),
    [
        (inferred("member_left", ANN), "Inferred, 97 %: ann (on 10.0.0.7) left."),
        (
            inferred("member_left", removed=gone(ANN, BEN, code="member_left")),
            "Inferred, 97 %: ann, ben left.",
        ),
        (
            inferred("member_left", ANN, more=["member_joined"], added=came(BEN, POD)),
            "Meanwhile ben, pod joined.",
        ),
        (
            inferred(
                "session_expired",
                ANN,
                removed=gone(ANN, code="session_expired", silent_ms=10_000),
                session_timeout_ms=10_000,
            ),
            (
                "ann (on 10.0.0.7) was removed: no heartbeat came within its session.timeout.ms of "
                "10000; the last commit was at 2025-11-22 11:59:50.000Z."
            ),
        ),
        (
            inferred("session_expired", removed=gone(ANN, BEN, code="session_expired")),
            "ann, ben were removed: no heartbeats came within their session.timeout.ms.",
        ),
        (
            inferred("member_joined", from_state="Empty", added=came(ANN, BEN)),
            "Inferred, 99 %: ann, ben joined the empty group.",
        ),
        (
            inferred("member_joined", ANN, away_ms=30_000),
            "joined; a client of this name was lost 30 s before.",
        ),
        (
            inferred("static_member_joined", added=came(POD, kind="static")),
            (
                "Inferred, 99 %: pod (member pod-1, client billing, on 10.0.0.7) joined with an "
                "instance id that the group did not have."
            ),
        ),
        (
            inferred("member_removed_by_admin", POD),
            "was removed before its session ended, by an administrator or by its application.",
        ),
        (
            inferred(
                "member_left",
                ANN,
                removed=[
                    each | {"cause": each["cause"] | {"likely": "max_poll_exceeded"}}
                    for each in gone(ANN, code="member_left")
                ],
            ),
            "left: probably no call of poll within max.poll.interval.ms.",
        ),
        (
            inferred("static_member_joined", from_state="Empty", added=came(POD, kind="static")),
            "joined with an instance id that the group did not have; the group was empty.",
        ),
        (
            inferred("static_member_returned_unready", POD),
            "restarted while the group was rebalancing, or a second client has its instance id.",
        ),
        (
            inferred("unknown", removed=gone(POD, code="unknown")),
            "and the records do not show why: removed after session.timeout.ms, or by an adm",
        ),
        (inferred("subscription_changed"), "several members rejoined with other topics."),
        (
            inferred("member_joined", ANN, more=["subscription_changed"]),
            "Meanwhile one or more members rejoined with other topics.",
        ),
        (
            inferred("member_joined", outcome="superseded"),
            "Inferred, 99 %: one or more members joined.",
        ),
        (inferred("unknown"), "Inferred: the records do not show the cause."),
        (
            inferred("unknown", from_state=None),
            "Inferred: the record before this one was not read, so the cause is not known.",
        ),
        (
            inferred("unknown", removed=gone(ANN, code="unknown")),
            "Inferred: ann is gone, and the records do not show why.",
        ),
        (
            inferred(
                "unknown",
                more=["member_joined"],
                removed=gone(ANN, BEN, code="unknown"),
                added=came(BEN, POD),
            ),
            "; ann, ben are gone, and the records do not show why; the records do not show which",
        ),
        (
            inferred("unknown", more=["member_joined"], added=came(BEN, POD)),
            "Inferred: ben, pod joined. 2",
        ),
        (
            inferred("member_joined", ANN, moved=0, partitions=1),
            "1 partition is assigned; none changed its owner.",
        ),
        (inferred("member_joined", ANN, from_state="Empty", partitions=0), "No partition was"),
        (inferred("quota_reached"), "the cause is quota_reached, which this command does not know"),
    ],
)
def test_sentences(current: Round, said: str) -> None:
    assert said in paragraph(current)


def test_an_epoch_that_took_no_time_says_nothing_of_consumption() -> None:
    """A record has the epoch of the first member at once; when its client reads is not known."""
    begun = {"group_type": "consumer", "from_state": "Empty"}
    took = inferred("member_joined", ANN, **begun, standstill_ms=1_000)
    assert "Consumption began after 1.0 s." in paragraph(took)
    at_once = inferred("member_joined", ANN, **begun, standstill_ms=0)
    assert "Consumption" not in paragraph(at_once)


def test_every_code_that_is_inferred_has_its_sentence_and_advice() -> None:
    assert _SENTENCES.keys() == _ADVICE.keys() == CONFIDENCE.keys() - {"unknown"}
    for code in CONFIDENCE:
        text = trigger(inferred(code, ANN))
        assert text.startswith("Inferred") and text.endswith("."), text


@pytest.mark.parametrize("code", ["join_timeout", "topics_changed"])
def test_causes_of_consumer_groups_have_sentences_and_advice(code: str) -> None:
    found = inferred(code, None, group_type="consumer")
    assert trigger(found).startswith("Inferred, 50 %: ")
    assert "does not know" not in paragraph(found)
    assert advice(found).endswith(".")


def test_no_advice_needs_what_records_lack() -> None:
    """No setting, whose cost is unknown, and nothing about heartbeats, connections and software."""
    for code in CONFIDENCE:
        for back_ms in (None, 30_000):
            for likely in (None, "max_poll_exceeded"):
                found = inferred(code, ANN, likely=likely, returned_ms=back_ms, away_ms=back_ms)
                text = advice(found)
                assert text.endswith(".") and "None" not in text
                assert settings_in(text) == []
                assert not {"heartbeats", "connection", "kill"} & {*text.split()}


def test_advice_names_what_is_known() -> None:
    found = inferred("member_left", ANN, returned_ms=12_000, rebalance_timeout_ms=60_000)
    assert advice(found) == (
        "It came back 12 s after its last commit. If it was not restarted, its log says whether "
        "its application called poll later than max.poll.interval.ms (60000 for this member) "
        "allows."
    )
    found = inferred("member_left", ANN, rebalance_timeout_ms=60_000)
    assert advice(found) == (
        "Nothing is wrong if it was meant to stop. If it was not, its log says whether its "
        "application called poll later than max.poll.interval.ms (60000 for this member) allows."
    )
    found = inferred("session_expired", ANN, returned_ms=40_000)
    assert advice(found).startswith("It was back 40 s after its last commit. Find what ended")
    found = inferred("member_joined", ANN, repeats=3, repeats_since_ms=9_000)
    assert "this is number 3 in a row, within 9.0 s." in advice(found)


def test_a_headline_has_the_only_known_time() -> None:
    assert headline(inferred("member_left", duration_ms=None)) == (
        "2025-11-22 12:00:03.000Z  rebalance to generation 1"
    )


def test_the_first_of_what_was_read() -> None:
    assert is_first(inferred("unknown", from_state=None))
    assert not is_first(inferred("unknown"))
    assert not is_first(inferred("member_left", from_state=None))


def test_how_sure() -> None:
    assert sure_text({"confidence": 0.97}) == "inferred, 97 %"
    assert sure_text({"confidence": 1.0}) == "inferred, 100 %"
    assert sure_text({}) == "inferred"


# -- the stored form -------------------------------------------------------------------------------


def event(**fields: Any) -> Event:
    return Event(1, 1, 0, NOON, 0, "g", "member_joined", 1, "Stable", 0, {"who": ANN, **fields})


def test_an_inferred_event_says_so_in_its_stored_form() -> None:
    told = InferredTold(7, event(), LOG, 0.99).stored()
    assert (told.fields["source"], told.fields["confidence"]) == ("log", 0.99)
    read = decode(b"g", encode(told))
    assert read == told
    folding = Folding()
    folding.add(read)
    [entry] = folding.rest()
    assert isinstance(entry, Event)
    assert line(entry).endswith("ann (on 10.0.0.7) joined (inferred, 99 %)")
    assert entry_json(entry)["confidence"] == 0.99
    assert not folding.unknown


def replaced(**fields: Any) -> Event:
    about = {"who": POD, "old_member": "pod-0", "quick": True, "away_ms": 937, **fields}
    return event()._replace(type="member_replaced", fields=about)


def test_of_an_inferred_replacement_nothing_says_that_it_was_a_restart() -> None:
    assert line(replaced()).endswith(
        "restarted after 937 ms and took the place of pod-0, without a rebalance"
    )
    assert line(replaced(source=LOG, confidence=0.99)).endswith(
        "pod (member pod-1, client billing, on 10.0.0.7) took the place of pod-0, 937 ms after its "
        "last commit, without a rebalance: a restart, or a second client with its instance id "
        "(inferred, 99 %)"
    )
    text = line(replaced(source=LOG, away_ms=None, quick=False))
    assert "took the place of pod-0, with a rebalance: a restart, or" in text


def test_an_event_of_a_coordinator_stays_as_it_is() -> None:
    assert InferredTold(7, event()).stored() is not None
    assert InferredTold(7, event()).stored() == event()
    assert "inferred" not in entry_text(event())


@pytest.mark.parametrize("confidence", ["high", -1, 2, None, True])
def test_a_confidence_that_is_none_is_not_believed(confidence: Any) -> None:
    folding = Folding()
    folding.add(event(source="log", confidence=confidence))
    assert folding.unknown == {"member_joined.confidence": 1}
