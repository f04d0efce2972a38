"""Damage after damage, each on a fresh copy of a directory; what is shown, and what is kept."""

import argparse
import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import Progress

from tests.chaos.damage.bases import RECIPES, Base, make
from tests.chaos.damage.harm import KINDS, PLACES, Damage, draw
from tests.chaos.damage.outcome import BAD, VERDICTS, Outcome, tried
from tests.chaos.server import ServerError
from tests.support.process import ROOT

DAMAGES = 400
SEED = 9
AT_A_TIME = 2

DESCRIPTION = """\
Damage data directories, and see whether a server that starts over them loses anything in silence.

Six directories are made by real servers under load, ended by kill -9 or in order. Each damage (a
bit flipped, a file cut, 512 bytes zeroed, a file or folder removed) is done to a fresh copy of one;
a server starts over it and is asked for everything that was acknowledged: offsets, members,
generations, topics, records. What it may come to:

""" + "\n".join(
    f"  {name:10} {'BAD: ' if name in BAD else ''}{words}" for name, words in VERDICTS.items()
)


@dataclass(frozen=True)
class Trial:
    """One damage and its outcome."""

    number: int
    base: Base
    damage: Damage
    outcome: Outcome

    def __str__(self) -> str:
        where = f"{self.number:4}  {self.outcome.verdict:10} {self.base.recipe.name}: "
        return f"{where}{self.damage}\n        {self.outcome.words}".rstrip()


@dataclass(frozen=True)
class Plan:
    """What is tried. `only`: these numbers; none for all."""

    damages: int = DAMAGES
    seed: int = SEED
    only: Sequence[int] = ()
    keep: Path | None = None
    checkout: Path = ROOT

    @property
    def numbers(self) -> Sequence[int]:
        return self.only or range(1, self.damages + 1)


def play(plan: Plan, folder: Path, console: Console) -> int:
    """How many are bad. Directories are made in `folder`. Raises ServerError."""
    begun = time.monotonic()
    bases = _bases(plan, folder, console)
    trials = []
    with _progress(console, len(plan.numbers)) as progress:
        for trial in _trials(plan, bases, folder):
            trials.append(trial)
            progress()
            if trial.outcome.bad:
                console.print(
                    str(trial), style="red", highlight=False, markup=False, soft_wrap=True
                )
    _show(trials, console)
    bad = sum(trial.outcome.bad for trial in trials)
    took = time.monotonic() - begun
    words = f"{bad} bad" if bad else "none bad"
    line = f"{len(trials)} damages, seed {plan.seed}, in {took:.0f} s: {words}"
    console.print(line, highlight=False, markup=False)
    return bad


def _bases(plan: Plan, folder: Path, console: Console) -> list[Base]:
    """One for each recipe, and each is whole before anything is done to it. Raises ServerError."""
    bases = []
    for number, recipe in enumerate(RECIPES):
        place = folder / f"base-{number}"
        base = make(recipe, place, Random(f"{plan.seed} {recipe.name}"), plan.checkout)
        copied = _copy(base, folder / "whole")
        outcome = tried(base, None, copied, plan.checkout)
        shutil.rmtree(copied)
        if outcome.words:
            raise ServerError(f"{recipe.name}: not whole without any damage: {outcome.words}")
        files = sum(path.is_file() for path in base.data.rglob("*"))
        line = f"{recipe.name}: {base.truth.acknowledgements} commits acknowledged, {files} files"
        console.print(line, highlight=False, markup=False)
        bases.append(base)
    return bases


def _copy(base: Base, to: Path) -> Path:
    to.mkdir(parents=True)
    shutil.copytree(base.data, to / "data")
    return to


def _trials(plan: Plan, bases: Sequence[Base], folder: Path) -> Iterator[Trial]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield from pool.map(lambda number: one(plan, bases, folder, number), plan.numbers)


def one(plan: Plan, bases: Sequence[Base], folder: Path, number: int) -> Trial:
    """The damage of this number; with the same seed always of the same kind and place."""
    base = bases[number % len(bases)]
    place = _copy(base, folder / f"trial-{number}")
    try:
        damage = draw(place / "data", Random(f"{plan.seed} {number}"))
        if plan.keep is not None:
            kept = plan.keep / f"{plan.seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place / "data", kept / "damaged")
        outcome = tried(base, damage, place, plan.checkout)
        if plan.keep is not None:
            _settle_kept(kept, place, outcome, keep=outcome.bad or bool(plan.only))
        return Trial(number, base, damage, outcome)
    finally:
        shutil.rmtree(place)


def _settle_kept(kept: Path, place: Path, outcome: Outcome, *, keep: bool) -> None:
    """The damaged directory, the server's lines and the verdict; nothing of what is good."""
    if not keep:
        shutil.rmtree(kept)
        return
    shutil.copy(place / "server.log", kept)
    (kept / "verdict.txt").write_text(f"{outcome.verdict}: {outcome.words}\n")


@contextlib.contextmanager
def _progress(console: Console, total: int) -> Iterator[object]:
    if not console.is_terminal:
        yield lambda: None
        return
    with Progress(console=console) as bar:
        task = bar.add_task("damaging", total=total)
        yield lambda: bar.advance(task)


def _show(trials: Sequence[Trial], console: Console) -> None:
    """A row for each place and kind: what came of it after a kill, and after a clean stop."""
    console.print("\n" + table(trials), highlight=False, markup=False, soft_wrap=True)
    total = Counter(trial.outcome.verdict for trial in trials)
    console.print()
    for verdict, words in VERDICTS.items():
        if total[verdict]:
            line = f"{total[verdict]:4} {verdict}: {words}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    for trial in trials:
        if trial.outcome.verdict in {"noticed", "tail", "checksum"}:
            console.print(str(trial), highlight=False, markup=False, soft_wrap=True)


def table(trials: Sequence[Trial]) -> str:
    """Markdown."""
    rows = ["| place | damage | after kill -9 | after a clean stop |", "|---|---|---|---|"]
    for place in PLACES:
        for kind in KINDS:
            mine = [t for t in trials if (t.damage.place, t.damage.kind) == (place, kind)]
            if mine:
                cells = [
                    _counts([t.outcome for t in mine if t.base.recipe.killed is killed])
                    for killed in (True, False)
                ]
                rows.append(f"| {place} | {kind} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def _counts(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    cells = [
        f"**{counts[verdict]} {verdict}**" if verdict in BAD else f"{counts[verdict]} {verdict}"
        for verdict in VERDICTS
        if counts[verdict]
    ]
    return ", ".join(cells) or "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("damage")
    group.add_argument(
        "--damages", type=int, default=DAMAGES, metavar="N", help=f"so many ({DAMAGES})"
    )
    group.add_argument("--seed", type=int, default=SEED, help=f"what they are drawn from ({SEED})")
    group.add_argument(
        "--only", type=_numbers, default=(), metavar="N,...", help="the damages of these numbers"
    )
    group.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep what was bad: directory, lines, verdict"
    )
    group.add_argument(
        "--checkout", type=Path, default=ROOT, help="work tree whose server is tried (this one)"
    )


def plan_of(options: argparse.Namespace) -> Plan:
    return Plan(
        damages=options.damages,
        seed=options.seed,
        only=options.only,
        keep=options.keep,
        checkout=options.checkout.resolve(),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))
