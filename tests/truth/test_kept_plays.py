"""What today's code infers from the records of kept plays beside Apache Kafka, against what its
coordinator logged: the first play of each situation, and all that were not told right.

    python -m tests.truth observed --kept                           the table
    python -m tests.truth observed --kept --timeline --situations ...   all that is known of some
"""

from collections import Counter
from pathlib import Path

from tests.truth.observed.catalogue import SITUATIONS
from tests.truth.observed.judging import RIGHT, UNKNOWN, WRONG
from tests.truth.observed.plays import KEPT, WHY, Outcome, inferred_again, keep, read, verdicts

MOST = {UNKNOWN: 35, WRONG: 2}
"""How many rebalances may be told so; a better rule lowers them."""


def test_rules_tell_no_less_of_kept_plays_and_nothing_more_that_is_false() -> None:
    known = {(each.name, each.client.name): each for each in SITUATIONS}
    told = Counter[str]()
    for outcome in read(KEPT):
        rounds = verdicts(inferred_again(outcome), known[outcome.key[:2]])[WHY].rounds
        told.update(each.verdict for each in rounds)
    assert told[RIGHT] > 0
    assert {name: told[name] for name in MOST} == MOST


def test_plays_are_kept_without_what_was_told(tmp_path: Path) -> None:
    path = tmp_path / "kept.xz"
    rows = {WHY: [{"kind": "round"}]}
    keep([Outcome("kill", "java", 1, 2.0, told=rows, lines=["one"])], path)
    keep([Outcome("kill", "java", 2, 2.0), Outcome("close", "java", 1, 2.0)], path)
    found = read(path)
    assert [each.key for each in found] == [
        ("close", "java", 1),
        ("kill", "java", 1),
        ("kill", "java", 2),
    ]
    assert (found[1].lines, found[1].told) == (["one"], {})
