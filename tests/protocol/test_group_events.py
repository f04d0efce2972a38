"""The format of group events: written as compact JSON, read with everything kept, refused in one
line.
"""

import json
import re

import pytest

from groupkeeper.protocol.group_event_types import CAUSE, TYPES, WHO
from groupkeeper.protocol.group_event_words import CODES, EVIDENCE, LIKELY
from groupkeeper.protocol.group_events import ENVELOPE, CauseCode, Event, decode, encode

EVENT = Event(
    seq=3,
    epoch=2,
    node=1,
    at_ms=1_700_000_000_000,
    mono_ms=17,
    group="orders",
    type="group_created",
    state="Empty",
    fields={"who": None},
)


def damaged(**changes: object) -> bytes:
    """The event's value with other fields; None leaves one out."""
    whole = json.loads(encode(EVENT)) | changes
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def test_an_event_is_read_as_it_was_written() -> None:
    assert decode(b"orders", encode(EVENT)) == EVENT


def test_an_event_is_compact_json_that_begins_with_the_envelope() -> None:
    value = encode(EVENT)
    assert value.startswith(b'{"v":1,"seq":3,"epoch":2,"node":1,')
    assert list(json.loads(value)) == [*ENVELOPE, "who"]


def test_an_event_of_the_partition_has_no_group() -> None:
    loaded = EVENT._replace(group=None, type="coordinator_closed", fields={"why": "stopped"})
    assert decode(None, encode(loaded)) == loaded


def test_half_a_surrogate_pair_is_written() -> None:
    value = encode(EVENT._replace(group="a\ud800"))
    assert json.loads(value)["group"] == "a\ud800"


@pytest.mark.parametrize("member", ["m1", 'a "quoted" one', "a\ud800\n\\", "\u2028ü", "\x00\x7f"])
def test_text_of_clients_is_written_as_it_is(member: str) -> None:
    joined = [{"member": member, "after_ms": 5}, {"member": "m2", "after_ms": 1 << 63}]
    event = EVENT._replace(fields={"joined": joined, "none": [], "leader": member})
    assert decode(b"orders", encode(event)) == event


def test_unknown_types_and_fields_are_kept() -> None:
    event = decode(None, damaged(type="later", moon="full"))
    assert (event.type, event.fields["moon"]) == ("later", "full")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b"\xff", "not a group event: no JSON: "),
        (b"{", "not a group event: no JSON: "),
        (b"[" * 100_000, "not a group event: no JSON: "),
        (b"[]", "not a group event: no JSON object"),
        (damaged(v=2), "a group event of version 2; this reads version 1"),
        (damaged(seq=...), "a group event without seq"),
        (damaged(seq="3"), "a group event whose seq is no int"),
        (damaged(round=True), "a group event whose round is no int"),
        (damaged(group=7), "a group event whose group is no string or null"),
        (damaged(type=None), "a group event whose type is no string"),
    ],
)
def test_other_bytes_are_refused_in_one_line(value: bytes, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        decode(None, value)


def test_an_event_under_the_key_of_another_group_is_refused() -> None:
    with pytest.raises(ValueError, match="a group event of 'orders' under the key b'other'"):
        decode(b"other", encode(EVENT))


def test_every_cause_of_the_core_is_in_the_table() -> None:
    assert [*CauseCode] == [code for code in CODES if code != "policy"]


def test_every_meaning_is_one_sentence_or_two() -> None:
    words = [*CODES.values(), *LIKELY.values()]
    for sentence in [each.meaning for each in (*words, *TYPES.values())]:
        assert sentence[0].isupper() and sentence.endswith("."), sentence
    for fields in (ENVELOPE, WHO, CAUSE, *(each.fields for each in TYPES.values())):
        assert all(meaning.endswith(".") for _, meaning in fields.values())


def test_every_advice_names_a_setting_or_says_that_there_is_none() -> None:
    for code, word in (CODES | LIKELY).items():
        assert re.search(r"`[a-z]+(\.[a-z.]+)+`|no setting", word.advice), code


def test_no_field_hides_one_of_the_envelope() -> None:
    for name, each in TYPES.items():
        assert not each.fields.keys() & ENVELOPE.keys(), name
    assert EVIDENCE
