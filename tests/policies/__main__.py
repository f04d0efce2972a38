"""Plays checks of policies with real clients: all of them, or those that are chosen.

    python -m tests.policies                         all, as `make suites ARGS=policies` does
    python -m tests.policies --clients java,franz    of clients with one of these words
    python -m tests.policies --checks 2,3a           with these numbers
    python -m tests.policies --write                 and record them; others keep what they had

Exit code 1: something is not as it has to be.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.policies.catalogue import CHECKS
from tests.policies.plays import AT_ONCE, Outcome, read, run, to_play
from tests.policies.recording import keep
from tests.policies.table import lines
from tests.suites.policies import Policies
from tests.truth.foreign import make

_PLACE: Final = Path(__file__).parents[2] / ".suites" / "policies"


def main(arguments: list[str]) -> int:
    """Play what is chosen; 0 if all is as it has to be."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    words, numbers = options.clients.split(","), options.checks.split(",")
    chosen = [
        each
        for each in CHECKS
        if any(word in each.client.name for word in words)
        and (numbers == [""] or each.number in numbers)
        and not each.client.library.unusable
    ]
    options.resume.parent.mkdir(parents=True, exist_ok=True)
    names = {each.key for each in chosen}
    outcomes: dict[str, Outcome] = {each.name: each for each in read(options.resume)}
    outcomes = {name: each for name, each in outcomes.items() if name in names}
    left = to_play(chosen, outcomes.values())
    make(each.client.library for each in left)
    for number, outcome in enumerate(run(left, options.resume, options.logs, options.at_once), 1):
        outcomes[outcome.name] = outcome
        told = outcome.fault or "ok"
        console.print(
            f"{number}/{len(left)} {outcome.name}: {told} ({outcome.seconds} s)", markup=False
        )
    if options.write:
        keep(Policies(), outcomes.values())
    told = {each.name: each.fault for each in outcomes.values()}
    console.print("\n".join(lines(told)), markup=False)
    return 1 if not told or any(told.values()) else 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.policies", description="Play checks of policies with real clients."
    )
    add = made.add_argument
    add("--clients", default="", metavar="WORD,...", help="only clients with such a word")
    add("--checks", default="", metavar="NUMBER,...", help="only these")
    add("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"plays at a time ({AT_ONCE})")
    place = _PLACE / "chosen.jsonl"
    add("--resume", type=Path, default=place, metavar="FILE", help="what passed is not repeated")
    add("--write", action="store_true", help="record the outcomes in RESULTS.json")
    add("--logs", type=Path, metavar="DIR", help="keep the files of what failed here")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
