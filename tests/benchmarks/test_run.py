"""How often a case is run, and which runs count."""

import pytest

from benchmarks import run
from benchmarks.cases import Run
from benchmarks.processes import Cores


def disturbed_by(*others: float):
    """A load during whose runs other processes use so many cores, one after the other."""
    left = list(others)

    def load(server, seconds):
        return Run({"requests_per_s": 1.0 / len(left)}, Cores(1.0, 0.5, left.pop(0), seconds))

    return load


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    monkeypatch.setattr(run.time, "sleep", lambda seconds: None)


@pytest.mark.parametrize(
    ("others", "counts"),
    [((0.1, 0.0), 0.1), ((0.9, 0.1, 0.0), 0.1), ((0.9, 0.8, 0.7, 0.0), 0.7)],
    ids=["quiet", "quiet the second time", "never quiet"],
)
def test_a_disturbed_run_is_repeated_three_times_at_most(others, counts):
    assert run.undisturbed(disturbed_by(*others), None, 1.0).cores.others == counts


def test_medians_are_taken_figure_by_figure():
    runs = [{"a": 1.0, "b": 30.0}, {"a": 3.0, "b": 10.0}, {"a": 2.0, "b": 20.0}]
    assert run._medians(runs) == {"a": 2.0, "b": 20.0}


def test_an_unknown_target_is_left_out_with_its_reason(monkeypatch, tmp_path):
    def missing(name):
        raise run.UnavailableError("no java on the path")

    monkeypatch.setattr(run, "available", missing)
    results = run.execute(run.Plan(["kafka"], []), tmp_path)
    assert results.missing == {"kafka": "no java on the path"}
