"""The harness itself: an attack from end to end, what makes a verdict bad, what can be asked for.

The attacks are not played here: `make chaos` does.
"""

import dataclasses
import io
from array import array
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.__main__ import _options
from tests.chaos.attacks.stops import _served
from tests.chaos.canary import Seen
from tests.chaos.catalogue import ATTACKS, FAMILIES
from tests.chaos.mutants import MUTANTS, Undefended
from tests.chaos.mutants import main as play_mutants
from tests.chaos.run import Run
from tests.chaos.target import Attack, Limits, Target
from tests.chaos.trial import Figures, trial
from tests.chaos.verdict import COLUMNS, better, faults, may_be_chance, row
from tests.support.process import ROOT, NotReady

ATTACK = Attack("any", "bytes", "nothing", play=None)  # type: ignore[arg-type]
GOOD = Figures(stall_ms=20, before_mib=35, peak_mib=60, after_mib=40, log_lines=10, seconds=2)


def words(**wrong: object) -> str:
    """What the verdict says about good figures with these changes."""
    return "; ".join(fault.words for fault in faults(ATTACK, dataclasses.replace(GOOD, **wrong)))


def test_an_attack_is_played_from_end_to_end(tmp_path: Path) -> None:
    attack = dataclasses.replace(
        ATTACKS["malformed"],
        limits=Limits(stall_ms=10_000),  # no matter how busy it is here
    )
    said: list[str] = []
    figures = trial(attack, tmp_path / "server", fuzz_seconds=0.0, say=said.append)
    assert faults(attack, figures) == []
    assert figures.words == "18 kinds"
    assert figures.beats > 10
    assert figures.stall_ms > 0
    assert figures.peak_mib >= figures.before_mib > 5
    assert figures.threads >= 1
    assert figures.descriptors > 5
    assert said == ["starting", "preparing", "playing", "settling"]


def test_good_figures_have_no_faults() -> None:
    assert faults(ATTACK, GOOD) == []
    assert row(ATTACK, GOOD)[-1] == "good"
    bad = dataclasses.replace(GOOD, stall_ms=900.0, words="3 closed")
    assert row(ATTACK, bad)[-1] == "BAD: stall 900 ms (3 closed)"


def test_the_server_is_not_blamed_for_a_core_that_it_did_not_get() -> None:
    assert words(stall_ms=363.0, waited_ms=360.0) == ""
    seen = Seen(
        begins=array("d", [1.0, 2.0, 3.0, 9.0]),
        seconds=array("d", [0.363, 0.04, 0.061, 5.0]),
        waits=array("d", [0.360, 0.0, 0.003, 0.0]),
    )
    assert seen.slowest(0.0, 4.0) == pytest.approx((61.0, 3.0))
    assert seen.slowest(0.0, 2.5) == pytest.approx((40.0, 0.0))
    assert seen.slowest(6.0, 7.0) == (0.0, 0.0)
    # Only the first would have been short with a core.
    assert seen.starved(0.0, 4.0, 0.05) == 1


def test_the_server_of_an_attack_runs_the_code_of_the_checkout(tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "groupkeeper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys; sys.exit('the code of the checkout')")
    nowhere = ("127.0.0.1", 0)
    target = Target(nowhere, nowhere, 0, tmp_path / "data", 0.0, package.parent)
    with pytest.raises(NotReady, match="the code of the checkout"), _served(target):
        pass


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stall_ms": 51.0}, "stall 51 ms"),
        ({"stall_ms": 81.0, "waited_ms": 30.0}, "stall 81 ms, 30 of them without a core"),
        ({"peak_mib": 35 + 65.0}, "memory +65 MiB, allowed 64"),
        ({"after_mib": 35 + 49.0}, "keeps 49 MiB, allowed 48"),
        ({"log_lines": 721}, "721 log lines, allowed 720"),
        ({"stalls": 2}, "2 iterations over 50 ms"),
        ({"tracebacks": 1}, "1 tracebacks in the log"),
        ({"errors": ["canary: Gone", "canary: Gone"]}, "canary: Gone"),
        ({"complaint": "not over"}, "not over"),
        ({"unready": "/healthz: 503"}, "/healthz: 503"),
        ({"stop_code": None, "stop_s": 15.0}, "stop: had to be killed after 15 s"),
        ({"stop_code": 1}, "stop: exit 1 after 0 s"),
        ({"dead": "killed", "stall_ms": 900.0}, "killed"),
    ],
)
def test_whatever_exceeds_its_limit_is_a_fault(wrong: dict[str, object], said: str) -> None:
    assert words(**wrong) == said


@pytest.mark.parametrize(
    ("wrong", "again"),
    [
        ({}, False),
        ({"stall_ms": 90.0}, True),
        ({"stall_ms": 900.0}, False),
        ({"stall_ms": 900.0, "waited_ms": 800.0}, True),
        ({"stall_ms": 90.0, "after_mib": 900.0}, False),
        ({"tracebacks": 1}, False),
    ],
)
def test_only_what_a_busy_machine_explains_is_played_again(
    wrong: dict[str, object], again: bool
) -> None:
    assert may_be_chance(faults(ATTACK, dataclasses.replace(GOOD, **wrong))) is again


def test_the_try_with_fewer_faults_counts_and_then_the_shorter_stall() -> None:
    slow = dataclasses.replace(GOOD, stall_ms=80)
    slower = dataclasses.replace(GOOD, stall_ms=90)
    assert better(ATTACK, slow, slower) is slow
    assert better(ATTACK, slower, slow) is slow
    assert better(ATTACK, slow, GOOD) is GOOD


def test_a_run_says_a_line_for_each_attack_and_how_many_are_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = iter([dataclasses.replace(GOOD, stall_ms=70.0), GOOD, GOOD])
    monkeypatch.setattr("tests.chaos.run.trial", lambda *_: next(played))
    out = io.StringIO()
    run = Run(Console(file=out, width=150), tmp_path, tries=3, fuzz_seconds=0.0)
    assert run.play([ATTACK, ATTACK]) == 0
    lines = out.getvalue().splitlines()
    assert lines[0].split() == " ".join(COLUMNS).split()
    assert [line.split()[:2] for line in lines[1:3]] == [["any", "2"], ["any", "1"]]
    assert lines[-1].endswith("all good")


def test_a_name_is_an_attack_or_a_family() -> None:
    assert [each.name for each in _options(["noise", "malformed"]).attacks] == [
        "malformed",
        "noise",
    ]
    assert {each.family for each in _options(["group-requests"]).attacks} == {"group requests"}
    assert len(_options([]).attacks) == len(ATTACKS)
    assert all(len(attack.about) <= 80 for attack in ATTACKS.values())
    assert len(FAMILIES) >= 7


def test_a_wrong_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        _options(["metadata-al"])
    assert refused.value.code == 2
    assert "did you mean metadata-all" in capsys.readouterr().err


@pytest.mark.parametrize("undefended", MUTANTS, ids=lambda each: each.mutant.name)
def test_a_mutant_fits_the_code_and_belongs_to_an_attack(
    undefended: Undefended, tmp_path: Path
) -> None:
    mutant = undefended.mutant
    file = tmp_path / mutant.path
    file.parent.mkdir(parents=True)
    sound = (ROOT / mutant.path).read_text(encoding="utf-8")
    file.write_text(sound, encoding="utf-8")
    mutant.apply(tmp_path)
    assert file.read_text(encoding="utf-8") != sound
    assert undefended.attack in ATTACKS
    assert undefended.said


@pytest.mark.parametrize(
    ("said", "word", "code"),
    [
        ("stall 700 ms; a compaction hangs, and no line", " noticed ", 0),
        ("stall 700 ms", " NOT NOTICED ", 1),  # it is bad for another reason
        ("", " NOT NOTICED ", 1),
    ],
)
def test_a_mutant_is_noticed_by_a_verdict_that_is_bad_for_its_reason(
    said: str,
    word: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tests.chaos.mutants.verdict_on", lambda *_: said)
    assert play_mutants(["hung-cleaner"]) == code
    out = capsys.readouterr().out
    assert word in out
    assert (said or "good") in out


def test_mutants_of_an_unknown_attack_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert play_mutants(["hung-cleaners"]) == 2
    assert "hung-cleaners" in capsys.readouterr().out
