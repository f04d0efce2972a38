"""What `groupkeeper why` says of situations that a whole server was in."""

import re

import pytest

from groupkeeper.history.rounds import Round
from groupkeeper.why.advice import advice
from groupkeeper.why.lines import line
from groupkeeper.why.words import headline, paragraph
from tests.support.situations import SITUATIONS, Situation, told


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.title)
def test_the_causes_are_right_and_an_advice_names_a_setting_and_a_number(
    situation: Situation,
) -> None:
    entries = told(situation)
    rounds = [each for each in entries if isinstance(each, Round)]
    for each in entries:
        print(headline(each) + "\n  " + paragraph(each) if isinstance(each, Round) else line(each))
    causes = ["/".join(filter(None, (each.cause["code"], each.cause["likely"]))) for each in rounds]
    assert causes == situation.causes
    for each in rounds:
        assert each.outcome == "completed"
        assert re.search(r"\b[a-z]+(\.[a-z]+)+[ =(]", advice(each))
        assert re.search(r"\b\d+\b", advice(each))
