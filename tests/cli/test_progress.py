"""Progress of long work is shown to a person whose rows go elsewhere, and to nobody else."""

import sys

import pytest

from groupkeeper.cli.progress import counting

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("total", "errors", "output", "shown"),
    [
        (1000, True, False, True),
        (500, True, False, False),  # soon done
        (1000, False, False, False),
        (1000, True, True, False),  # the rows are progress enough
    ],
)
def test_who_sees_how_many_are_done(
    total: int,
    errors: bool,
    output: bool,
    shown: bool,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: errors, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: output, raising=False)
    with counting("groups", total, 500) as told:
        told(total)
    assert ("groups" in capsys.readouterr().err) is shown
