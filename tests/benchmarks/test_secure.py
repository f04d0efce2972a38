"""What is measured of access control and TLS is what happens."""

import random
from pathlib import Path

import pytest

from benchmarks import decisions, secure
from groupkeeper.access.acls import PatternKind


def test_the_acls_are_different_and_of_both_patterns() -> None:
    acls = list(decisions.acls(2_000, random.Random(0)))
    assert len({*acls}) == len(acls)
    prefixed = sum(acl.pattern == PatternKind.PREFIXED for acl in acls)
    assert prefixed == len(acls) / 4


def test_changes_leave_the_acls_as_they_were() -> None:
    bench = decisions.Bench(200, random.Random(0))
    before = {*bench.authorizer.acls}
    number = bench.authorizer.number
    bench.after_changes(100)
    assert {*bench.authorizer.acls} == before and bench.authorizer.number == number + 200


def test_it_prints_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decisions, "DECISION_US", 0.0)
    monkeypatch.setattr(decisions, "ACLS", 100)
    monkeypatch.setattr(decisions, "DECISIONS", 20)
    monkeypatch.setattr("sys.argv", ["secure", "--only", "decisions", "--rounds", "1"])
    assert secure.main() == 1
    printed = capsys.readouterr().out
    assert "after a change" in printed and "slower than promised: a decision: p50" in printed


def test_tls_is_compared_with_plain_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(secure, "HANDSHAKES", 20)
    monkeypatch.setattr(secure, "MEMBERS", 10)
    secure.measure_tls(tmp_path, 1, 0.2)
    printed = capsys.readouterr().out
    assert "heartbeats over TLS: " in printed
    assert "20 TLS connections from one second: all in after" in printed
    assert "iterations of the event loop over 20 ms; longest callback of" in printed
