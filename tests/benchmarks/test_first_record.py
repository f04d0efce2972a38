"""The benchmark from a start to the first record: the targets that are always there."""

import pytest

from benchmarks import first_record
from benchmarks.targets import UnavailableError


def test_a_record_is_consumed_from_our_own_targets() -> None:
    for name in ("fixture", "process"):
        accepts, consumed = first_record.measure(first_record.TARGETS[name][1])
        assert 0 < accepts < consumed


def test_the_table_has_medians_and_extremes() -> None:
    table = first_record.table({"fixture": [(5.0, 1_020.0), (6.0, 30.0), (7.0, 10.0)]})
    assert table.splitlines()[-1] == (
        "| `groupkeeper.testing.Broker`, in this process | 6 ms | 30 ms (10 to 1,020) | 3 |"
    )


def test_a_target_that_cannot_be_had_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("KCL", raising=False)
    monkeypatch.setattr(first_record, "hundred_tests", lambda: (1.0, "100 passed"))
    with pytest.raises(UnavailableError, match="no kcl on the path"):
        first_record.measure(first_record.TARGETS["kfake"][1])
    assert first_record.main(["--targets", "kfake", "--rounds", "1"]) == 0
    output = capsys.readouterr().out
    assert "without `kcl fake`: no kcl on the path" in output
    assert output.endswith(
        "100 tests with a fresh broker each: 1.0 s, as pytest says: 100 passed\n"
    )


def test_a_target_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        first_record.main(["--targets", "fixtures"])
    assert ended.value.code == 2
    assert "no such target: fixtures; there are fixture, process, kfake, kafka" in (
        capsys.readouterr().err
    )
