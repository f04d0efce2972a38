"""Each cause has words, a family and an advice of its own, inferred ones too."""

from groupkeeper.history.causes import CONFIDENCE, MAX_POLL, UNKNOWN
from groupkeeper.protocol.group_event_words import CODES, FAMILIES, LIKELY
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.why.advice import ADVICE
from groupkeeper.why.words import _TRIGGERS


def test_inferred_causes_have_the_codes_of_stored_ones() -> None:
    codes = CONFIDENCE.keys() - {UNKNOWN}
    assert codes <= CODES.keys()
    assert codes <= {each.value for each in CauseCode}
    assert MAX_POLL in LIKELY


WITHOUT_CLIENT = (
    "group_shrunk",
    "assignment_lost",
    "seat_revoked",
    "window_over",
    "policy_changed",
    "topics_changed",
    "expected_complete",
    "expected_missing",
)


def test_each_cause_is_in_every_table() -> None:
    unknown = [*FAMILIES][-1]
    for code, word in CODES.items():
        assert word.family in FAMILIES and word.family != unknown, code
        assert word.briefly or code in WITHOUT_CLIENT, code
    assert {each.family for each in LIKELY.values()} <= {*FAMILIES, ""}
    assert _TRIGGERS.keys() == CODES.keys() == {*CauseCode}
    assert CODES.keys() <= ADVICE.keys()
