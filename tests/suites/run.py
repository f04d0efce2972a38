"""One run: suites one after the other, each against a fresh server or against one given broker.

What is seen on the screen is said here; what the results mean is in `verdict.py`.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.suites.ours import serving
from tests.suites.process import missing
from tests.suites.suite import Outcome, Result, Suite, SuiteError, Target
from tests.suites.verdict import Verdict

PLACE = Path(__file__).parents[2] / ".suites"
_COLOURS = {Outcome.PASSED: "green", Outcome.SKIPPED: "yellow", Outcome.FAILED: "red"}


class Run:
    """`verdicts` holds the suites that ran, `errors` a text for each that could not."""

    def __init__(self, bootstrap: str | None, console: Console, verbose: bool = False) -> None:
        """`bootstrap`: the broker to test; a fresh server of ours for every suite if None."""
        self._bootstrap = bootstrap
        self._console = console
        self._verbose = verbose
        self._seconds: list[int] = []
        self.verdicts: list[Verdict] = []
        self.errors: list[str] = []

    def execute(self, suites: Iterable[Suite]) -> None:
        for suite in suites:
            try:
                self._execute(suite)
            except SuiteError as error:
                self.errors.append(f"{suite.name}: {error}")
                self._print(f"[red]{escape(self.errors[-1])}[/]")

    def _execute(self, suite: Suite) -> None:
        if without := missing(suite.needs):
            raise SuiteError(f"needs {' and '.join(without)}, not found on the PATH")
        folder = PLACE / suite.name
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        with self._console.status(f"{suite.name}: setting up") as status:
            suite.prepare(folder)
            status.update(f"{suite.name}: running")
            started = time.monotonic()
            verdict = Verdict(suite, ours=self._bootstrap is None)
            for result in self._results(suite, folder):
                self._say(suite, result, verdict.add(result))
                status.update(f"{suite.name}: {len(verdict.passed)} of {verdict.total} pass")
        self._seconds.append(round(time.monotonic() - started))
        self.verdicts.append(verdict)

    def _results(self, suite: Suite, folder: Path) -> Iterator[Result]:
        with contextlib.ExitStack() as stack:
            if self._bootstrap is None:
                target = stack.enter_context(serving(suite, folder))
            else:
                target = Target(self._bootstrap)
            yield from stack.enter_context(contextlib.closing(suite.run(target, folder)))

    def _say(self, suite: Suite, result: Result, expected: bool) -> None:
        if expected and not self._verbose:
            return
        told = "known" if expected and result.outcome is Outcome.FAILED else result.outcome
        self._print(f"[{_COLOURS[result.outcome]}]{told}[/] {suite.name} {escape(result.name)}")
        for line in result.detail.splitlines() if result.outcome is Outcome.FAILED else ():
            self._print(f"    {escape(line)}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def table(self, broker: str) -> Table:
        """One row per suite that ran."""
        table = Table("suite", title=broker, title_justify="left")
        for column in ("passed", "of", "known", "skipped", "unexpected", "seconds"):
            table.add_column(column, justify="right")
        for verdict, seconds in zip(self.verdicts, self._seconds, strict=True):
            counts = [len(verdict.passed), verdict.total, len(verdict.known)]
            counts += [len(verdict.skipped), len(verdict.failed), seconds]
            style = "red" if verdict.failed else None
            table.add_row(verdict.suite.name, *(str(count) for count in counts), style=style)
        return table
