"""Other people's programs: found, run to their end or line by line, and ended by process group.

Nothing here knows what a program prints; `events.py` and the suites do.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.suites.suite import SuiteError

PREPARE_SECONDS = 900.0
_KILL_SECONDS = 5.0
_TAIL_LINES = 15


def missing(programs: Sequence[str]) -> list[str]:
    """Those that are not on the PATH."""
    return [program for program in programs if shutil.which(program) is None]


def call(
    command: Sequence[str | Path],
    folder: Path,
    env: Mapping[str, str] | None = None,
    limit_s: float = PREPARE_SECONDS,
) -> str:
    """Run a step of a preparation in its folder and return what it printed.

    Everything is also appended to prepare.log there. Raises SuiteError with the end of the output
    when the command fails or takes too long.
    """
    with Lines(command, folder, limit_s=limit_s, env=env, log="prepare.log") as lines:
        printed = list(lines)
    if lines.cut_off or lines.returncode:
        why = f"took over {limit_s:.0f} s" if lines.cut_off else f"exit code {lines.returncode}"
        end = "\n".join(f"    {line}" for line in printed[-_TAIL_LINES:])
        raise SuiteError(f"cannot be set up: {_words(command)} ({why})\n{end}".rstrip())
    return "\n".join(printed)


def install(folder: Path, packages: Sequence[str]) -> None:
    """Packages of Python into `python` of the folder, once. Raises SuiteError."""
    done, wanted = folder / "done", "\n".join(packages)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(folder / "python", ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    call([*pip, "install", "--no-deps", "--target", "python", *packages], folder)
    done.write_text(wanted, encoding="utf-8")


class Lines:
    """A program, as the lines that it prints on standard output and standard error.

    Used in a `with` block: leaving it ends the program and all that it started. `cut_off` tells
    whether the time limit ended it; `returncode` is there once the lines have come to their end.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        *,
        limit_s: float,
        env: Mapping[str, str] | None = None,
        log: str = "run.log",
    ) -> None:
        """`env` is added to this process's environment; `log` is a name in `folder`, or a path."""
        self._command = [str(word) for word in command]
        self._folder = folder
        self._env = {**os.environ, **(env or {})}
        self._log = folder / log
        self._timer = threading.Timer(limit_s, self._strike)
        self._process: subprocess.Popen[str] | None = None
        self.cut_off = False

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise SuiteError(f"cannot run {self._command[0]}: {error.strerror}") from error
        self._timer.daemon = True
        self._timer.start()
        return self

    def __iter__(self) -> Iterator[str]:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._log.open("a", encoding="utf-8") as log:
            print(f"$ {_words(self._command)}", file=log)
            for line in self._process.stdout:
                log.write(line)
                yield line.rstrip("\n")
        self._process.wait()

    def __exit__(self, *raised: object) -> None:
        assert self._process is not None
        self.end()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def end(self) -> None:
        """End the whole process group; it may hold more than the process that we started."""
        assert self._process is not None
        self._timer.cancel()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def terminate(self) -> None:
        """Ask the program to end; what it prints on the way is still read."""
        self._signal(signal.SIGTERM)

    def _strike(self) -> None:
        self.cut_off = True
        self.end()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(self._process.pid, number)


class Background:
    """A program beside others, whose lines are read; leaving the `with` block ends it."""

    def __init__(self, lines: Lines, hear: Callable[[str], None] = lambda line: None) -> None:
        """`hear` is given every line, on a thread."""
        self._lines = lines
        self._hear = hear
        self.said: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._lines.__enter__()
        self._reader.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._lines.end()
        self._reader.join()
        self._lines.__exit__()

    def _read(self) -> None:
        for line in self._lines:
            self._hear(line)
            with self._more:
                self.said.append(line)
                self._more.notify_all()

    def wait_for(self, pattern: str, seconds: float) -> str:
        """The first group of the pattern in a line, or the match. Raises SuiteError."""

        def found() -> str | None:
            hits = (re.search(pattern, line) for line in self.said)
            return next((hit[hit.lastindex or 0] for hit in hits if hit), None)

        with self._more:
            self._more.wait_for(lambda: found() is not None, seconds)
            hit = found()
        if hit is None:
            end = "\n".join(self.said[-_TAIL_LINES:])
            raise SuiteError(f"not said within {seconds:.0f} s: {pattern!r}\n{end}")
        return hit

    @property
    def has_ended(self) -> bool:
        return not self._reader.is_alive()

    def terminate(self) -> None:
        """Ask the program to end; what it prints on the way is still read."""
        self._lines.terminate()


def _words(command: Sequence[str | Path]) -> str:
    return " ".join(str(word) for word in command)
