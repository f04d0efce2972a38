"""Every mutant still fits the code, and the tests that have to notice it exist."""

import ast
from pathlib import Path

import pytest

from tests.mutants import catalogue
from tests.mutants.advice import ADVICE_MUTANTS
from tests.mutants.events import EVENT_MUTANTS
from tests.mutants.examples import EXAMPLE_MUTANTS
from tests.mutants.mutant import Misplaced, Mutant
from tests.mutants.policies import POLICY_MUTANTS
from tests.mutants.replays import REPLAY_MUTANTS
from tests.mutants.seats import SEAT_MUTANTS

MUTANTS = (
    *catalogue.MUTANTS,
    *EVENT_MUTANTS,
    *EXAMPLE_MUTANTS,
    *ADVICE_MUTANTS,
    *SEAT_MUTANTS,
    *POLICY_MUTANTS,
    *REPLAY_MUTANTS,
)
ROOT = Path(__file__).parents[2]


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    names = [each.name for each in MUTANTS]
    assert len(names) == len(set(names)) >= 30


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant, tmp_path: Path) -> None:
    file = tmp_path / mutant.path
    file.parent.mkdir(parents=True)
    sound = (ROOT / mutant.path).read_text(encoding="utf-8")
    file.write_text(sound, encoding="utf-8")
    mutant.apply(tmp_path)
    assert file.read_text(encoding="utf-8") != sound


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_killers_are_tests(mutant: Mutant) -> None:
    assert mutant.killers
    for killer in mutant.killers:
        path, _, name = killer.partition("[")[0].partition("::")
        module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        assert name in {each.name for each in module.body if isinstance(each, functions)}


@pytest.mark.parametrize("text", ["", "twice = 1\ntwice = 1\n"])
def test_a_mutant_that_does_not_fit_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "some.py").write_text(text)
    with pytest.raises(Misplaced, match="times in some"):
        Mutant("odd", "some.py", "twice", "once", ()).apply(tmp_path)
