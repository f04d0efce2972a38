"""What `make bench-guard` makes of its figures, and which commits it can measure."""

import pytest

from benchmarks import guard
from benchmarks.run import LOADS
from benchmarks.targets import UnavailableError


def found(case, figure, *, anchor, again, now, floor=()):
    values = {"anchor": anchor, "anchor again": again, "now": now, "floor": floor}
    return {(target, case, figure): rounds for target, rounds in values.items() if rounds}


def test_a_ratio_is_of_speed_and_its_noise_that_of_the_anchor_against_itself():
    anchored = {"anchor": [100, 100, 900], "again": [100, 100, 100]}
    rates = found("heartbeat-50", "requests_per_s", **anchored, now=[50], floor=[200])
    times = found("storm-500", "cpu_us", anchor=[90], again=[110], now=[50])
    rate, cost = guard.sums(rates | times)
    assert (rate.row, rate.anchor, rate.now) == ("heartbeats, 50 connections", 100, 50)
    assert (rate.since_anchor, rate.noise, rate.of_floor) == (0.5, 1.0, 0.25)
    assert (cost.row, cost.now, cost.of_floor) == ("CPU for each group", 50, None)
    assert cost.since_anchor == pytest.approx((90 * 110) ** 0.5 / 50)
    assert cost.noise == pytest.approx(110 / 90)


@pytest.mark.parametrize(
    ("now", "verdict"), [(79, "faster"), (85, ""), (100, ""), (120, ""), (127, "slower")]
)
def test_a_difference_within_the_noise_says_nothing(now, verdict):
    [row] = guard.sums(
        found("restart-1", "cpu_us", anchor=[100 / 1.25**0.5], again=[100 * 1.25**0.5], now=[now])
    )
    assert row.noise == pytest.approx(1.25)
    assert row.verdict == verdict
    assert guard.table([row], "06eb576d").endswith(f"| {verdict} |")


@pytest.mark.parametrize(("rounds", "noise"), [(1, 1.25), (4, 1.25), (16, 1.25**0.5)])
def test_medians_of_runs_that_are_far_apart_are_not_exact(rounds, noise):
    anchor, again = [80, 100] * rounds, [100, 80] * rounds
    [row] = guard.sums(
        found("restart-1", "cpu_us", anchor=anchor[:rounds], again=again[:rounds], now=[90])
    )
    assert row.noise == pytest.approx(noise)


def test_each_target_begins_a_round(monkeypatch, tmp_path):
    began = []

    def first_of(targets, *_):
        began.append(next(iter(targets)))
        return iter(())

    monkeypatch.setattr(guard, "_round", first_of)
    guard.measure(dict.fromkeys("abc"), ["storm-500"], 4, 1.0, tmp_path)
    assert began == ["b", "c", "a", "b"]


def test_what_was_not_measured_has_no_row():
    assert guard.sums(found("restart-1", "cpu_us", anchor=[1], again=[1], now=())) == []
    assert guard.sums({}) == []


def test_every_case_exists():
    assert {*guard.CASES} - {guard.START} <= {*LOADS}


def test_a_commit_that_is_not_there_is_named():
    with pytest.raises(UnavailableError, match="commit 0123456789 cannot be measured"):
        guard.checkout("0123456789")


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--cases", "joins"], ["--seconds", "x"]])
def test_a_wrong_option_ends_with_exit_code_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        guard.main(words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
