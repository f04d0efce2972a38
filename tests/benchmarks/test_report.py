"""Ratios, and what is said about a run."""

import pytest

from benchmarks.report import View, markdown, ratio
from benchmarks.run import Plan, Results


@pytest.fixture
def results() -> Results:
    rates = {"groupkeeper": 60_000.0, "floor": 120_000.0, "kafka": 40_000.0}
    made = Results()
    made.figures["heartbeat-50"] = {
        name: {"requests_per_s": rate, "p99_us": 1000.0, "other_cores": 0.0}
        for name, rate in rates.items()
    }
    made.figures["ready"] = {"groupkeeper": {"ready_ms": 500.0, "idle_mib": 40.0}}
    return made


PLAN = Plan(["groupkeeper", "floor", "kafka"], ["heartbeat-50"])


@pytest.mark.parametrize(
    ("figure", "better", "worse"), [("requests_per_s", 200.0, 100.0), ("cold_ms", 100.0, 200.0)]
)
def test_a_ratio_above_one_is_always_good(figure, better, worse):
    assert ratio(figure, better, worse) == 2.0
    assert ratio(figure, worse, better) == 0.5


def test_rows_are_ratios_of_ours_over_theirs(results):
    assert "| heartbeats/s, 50 connections | 0.50 | 1.50 |" in markdown(results, PLAN, {})


def test_expectations_are_judged(results):
    text = markdown(results, PLAN, {})
    assert "over the bare responder | at least 0.6 | 0.5 | **no** |" in text
    assert "50 connections, over Kafka | at least 1 | 1.5 | yes |" in text
    assert "ready, milliseconds | at most 400 | 500 | **no** |" in text


def test_growth_is_that_of_the_worse_step(results):
    for size, cold in ((10, 2.0), (100, 10.0), (1000, 150.0)):
        results.figures[f"join-{size}"] = {"groupkeeper": {"cold_ms": cold}}
    assert View(results).growth("groupkeeper", "cold_ms") == pytest.approx(1.5)


def test_what_was_not_measured_is_not_shown(results):
    assert "commits/s" not in markdown(results, PLAN, {})


def test_a_missing_target_is_named_with_its_reason(results):
    results.missing["kafka"] = "no java on the path"
    assert "Without Kafka: no java on the path." in markdown(results, PLAN, {})


def test_a_disturbed_run_is_marked(results):
    results.figures["heartbeat-50"]["floor"]["other_cores"] = 0.5
    assert "heartbeat-50 (bare responder: 0.50 cores)" in markdown(results, PLAN, {})
