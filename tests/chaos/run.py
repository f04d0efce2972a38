"""One run: attacks one after the other, repeated where chance may have spoilt them; what is shown.

A line for each attack; on a terminal also what happens now.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tests.chaos.target import Attack
from tests.chaos.trial import Figures, trial
from tests.chaos.verdict import COLUMNS, RIGHT, better, faults, may_be_chance, row
from tests.support.process import ROOT

WIDTHS = (24, 5, 4, 8, 7, 6, 14, 6, 0)

Say = Callable[[str], None]


class Run:
    """Plays attacks and shows what they did."""

    def __init__(
        self, console: Console, folder: Path, tries: int, fuzz_seconds: float, checkout: Path = ROOT
    ) -> None:
        """Data directories are made, and removed again, in `folder`. `checkout`: whose server is
        attacked; a copy with a mistake in it shows that an attack notices it.
        """
        self._checkout = checkout
        self._console = console
        self._folder = folder
        self._tries = tries
        self._fuzz_seconds = fuzz_seconds
        self._rows: list[tuple[Attack, Figures]] = []

    def play(self, attacks: Sequence[Attack]) -> int:
        """How many verdicts are bad. Raises ServerError."""
        begin = time.monotonic()
        self._line(COLUMNS)
        with self._status() as say:
            for number, attack in enumerate(attacks, 1):
                where = f"{number} of {len(attacks)}: {attack.name}"
                figures = self._tried(attack, lambda what, at=where: say(f"{at}: {what}"))
                self._rows.append((attack, figures))
                self._line(row(attack, figures), bad=bool(faults(attack, figures)))
        bad = sum(bool(faults(attack, figures)) for attack, figures in self._rows)
        words = "all good" if not bad else f"{bad} bad"
        self._print(f"{len(attacks)} attacks in {time.monotonic() - begin:.0f} s: {words}")
        return bad

    def _tried(self, attack: Attack, say: Say) -> Figures:
        best: Figures | None = None
        for number in range(1, self._tries + 1):
            figures = self._once(attack, number, say)
            best = figures if best is None else better(attack, best, figures)
            best.tries = number
            if not may_be_chance(faults(attack, figures)):
                break
        assert best is not None
        return best

    def _once(self, attack: Attack, number: int, say: Say) -> Figures:
        folder = self._folder / f"{attack.name}-{number}"
        try:
            return trial(attack, folder, self._fuzz_seconds, say, self._checkout)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _status(self) -> Iterator[Say]:
        """Where to say what happens now; nowhere without a terminal."""
        if not self._console.is_terminal:
            yield lambda _: None
            return
        with self._console.status("") as status:
            yield status.update

    def _line(self, cells: Sequence[str], bad: bool = False) -> None:
        padded = [
            cell.rjust(width) if name in RIGHT else cell.ljust(width)
            for name, cell, width in zip(COLUMNS, cells, WIDTHS, strict=True)
        ]
        self._print("  ".join(padded), "red" if bad else None)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
