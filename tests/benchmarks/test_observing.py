"""A small run of the benchmark of observers, and the broker that it needs."""

import pytest

from benchmarks import observing
from benchmarks.offsets_broker import Log


def test_a_log_returns_whole_pieces_from_an_offset_on() -> None:
    log = Log()
    for end in (2, 5, 6):
        log.append([b"%d" % end], end)
    assert log.read(0, 100) == b"256"
    assert log.read(2, 100) == b"56"
    assert log.read(0, 1) == b"2"
    assert log.read(6, 100) == b""


def test_pieces_are_read_for_the_first_time_once() -> None:
    log = Log()
    log.append([b"a"], 2)
    log.append([b"b"], 5)
    assert len([*log.ages(2, 0)]) == 1
    assert len([*log.ages(5, 0)]) == 1
    assert not [*log.ages(5, 0)]


@pytest.mark.slow
def test_a_small_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = "observing --groups 30 --members 2 --partitions 3 --records 3000 --rate 300 --seconds 2"
    monkeypatch.setattr("sys.argv", words.split())
    assert observing.main() == 0
    backlog, load = capsys.readouterr().out.splitlines()
    assert backlog.startswith("backlog: 3,030 records in ")
    assert " 0 records left, longest callback " in load
