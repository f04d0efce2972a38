"""Inferred causes have the words of stored events."""

from groupkeeper.history.inference import CONFIDENCE, MAX_POLL, UNKNOWN
from groupkeeper.protocol.group_event_words import CODES, LIKELY
from groupkeeper.protocol.group_events import CauseCode


def test_inferred_causes_have_the_codes_of_stored_ones() -> None:
    codes = CONFIDENCE.keys() - {UNKNOWN}
    assert codes <= CODES.keys()
    assert codes <= {each.value for each in CauseCode}
    assert MAX_POLL in LIKELY
