"""What `make parity` makes of the requests that lack rights and of the logins; they are played by
tests/apis/test_rights.py and tests/access/test_conversations.py.
"""

import json
from pathlib import Path

import pytest

from tests.parity.__main__ import RESULTS, _chosen, _options, kept
from tests.parity.secured import SECTIONS, differences


def test_rights_and_logins_are_compared_with_what_is_recorded() -> None:
    recorded = {"a": 1, "b": 2, "c": 3}
    assert differences(recorded, recorded) == []
    assert differences(recorded, {"a": 1, "b": 3, "c": 3}, frozenset("b")) == []
    told = differences(recorded, {"a": 1, "b": 3, "d": 4}, frozenset("a"))
    assert [each.partition(":")[0] for each in told] == ["c", "d", "a", "b"]


@pytest.mark.parametrize(("name", "least"), [("rights", 60), ("logins", 20)])
def test_the_figures_have_all_cases(name: str, least: int) -> None:
    """`make parity ARGS="rights logins --write"` keeps them."""
    cases = len(SECTIONS[name].recorded())
    assert cases >= least
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    assert [row[2:5] for row in rows if row[1] == name] == 2 * [3 * [str(cases)]]


def test_rows_that_are_kept_replace_those_of_their_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "RESULTS.json"
    results.write_text(json.dumps({"rows": [["k", "plain", "1"], ["k", "rights", "2"]]}))
    monkeypatch.setattr("tests.parity.__main__.RESULTS", results)
    rows = kept([("k", "rights", "3"), ("k", "logins", "4")])
    assert [[*row] for row in rows] == [
        ["k", "plain", "1"],
        ["k", "rights", "3"],
        ["k", "logins", "4"],
    ]


def test_sections_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, count, names in (
        (["rights"], 0, ["rights"]),
        (["leave-group", "logins"], 1, ["logins"]),
        (["-k", "leaves"], 1, []),
        ([], 1, ["rights", "logins"]),
    ):
        monkeypatch.setattr("sys.argv", ["make parity", *words])
        chosen, sections = _chosen(_options())
        assert (min(len(chosen), 1), sections) == (count, names)
