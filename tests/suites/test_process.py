import sys
from pathlib import Path

import pytest

from tests.suites.checks import wait_for
from tests.suites.process import Lines, call, missing
from tests.suites.suite import SuiteError

# A program that ignores a polite request, with a child that does as well.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, as there are two who write
time.sleep(60)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def gone(pid: int) -> bool:
    """Whether a process has ended; it may be a zombie until somebody waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_programs_that_are_not_there_are_named() -> None:
    assert missing(["sh", "no-such-program", "nor-this"]) == ["no-such-program", "nor-this"]


def test_lines_come_as_they_are_printed_and_are_logged(tmp_path: Path) -> None:
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"
    with Lines(python(code), tmp_path, limit_s=30) as lines:
        assert list(lines) == ["one", "two"]
        assert (lines.returncode, lines.cut_off) == (3, False)
    assert (tmp_path / "run.log").read_text().endswith("\none\ntwo\n")


def test_the_time_limit_ends_the_program(tmp_path: Path) -> None:
    with Lines(python("import time; time.sleep(60)"), tmp_path, limit_s=0.1) as lines:
        assert list(lines) == []
        assert lines.cut_off


def test_what_does_not_end_when_asked_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.suites.process._KILL_SECONDS", 0.2)
    with Lines(python(STUBBORN), tmp_path, limit_s=60) as lines:
        printed = iter(lines)
        pids = [int(next(printed)) for _ in range(2)]
    wait_for(lambda: all(gone(pid) for pid in pids), "the end of both")


def test_leaving_early_ends_the_program(tmp_path: Path) -> None:
    with Lines(
        python("import os, time; print(os.getpid()); time.sleep(60)"),
        tmp_path,
        limit_s=60,
        env={"PYTHONUNBUFFERED": "1"},
    ) as lines:
        pid = int(next(iter(lines)))
    assert gone(pid)


def test_a_step_of_a_preparation_returns_what_it_printed(tmp_path: Path) -> None:
    code = "import os; print(os.environ['WORD'], os.getcwd())"
    assert call(python(code), tmp_path, env={"WORD": "here"}) == f"here {tmp_path}"


def test_a_step_that_fails_says_what_and_how_it_ended(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"cannot be set up: .*\(exit code 4\)\n    why"):
        call(python("print('why'); raise SystemExit(4)"), tmp_path)


def test_a_step_that_takes_too_long_says_so(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"\(took over 0 s\)"):
        call(python("import time; time.sleep(60)"), tmp_path, limit_s=0.1)


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="cannot run no-such-program: No such file"):
        call(["no-such-program"], tmp_path)
