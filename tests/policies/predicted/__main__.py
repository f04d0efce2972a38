"""Foretells what checks of policies cost, from logs of plays with real clients, and compares.

    python -m tests.policies.predicted                     all plays, with each policy and without
    python -m tests.policies.predicted --clients java      of clients with one of these words
    python -m tests.policies.predicted --checks 2,21a      with these numbers

A play takes less than a minute. Its log and what was measured stay in the folder `--keep`, and what
is there is not played again. Exit code 1: a forecast is not near enough.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.policies.clients import Client
from tests.policies.predicted.forecasts import Forecast, forecasts, log_of
from tests.policies.predicted.plays import CLIENTS, MEASURED, PARTITIONS, PLAYS, Play, play
from tests.truth.foreign import make

_PLACE: Final = Path(__file__).parents[3] / ".suites" / "predicted"
_TRIES: Final = 2


def main(arguments: list[str]) -> int:
    """Play what is missing, and compare; 0 if all forecasts are near enough."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    words, numbers = options.clients.split(","), options.checks.split(",")
    chosen = [
        (each, client)
        for each in PLAYS
        for client in CLIENTS
        if (numbers == [""] or each.number in numbers)
        and any(word in client.name for word in words)
        and not client.library.unusable
    ]
    make(client.library for _, client in chosen)
    found = [row for pair in chosen for row in _compared(*pair, options.keep, console)]
    for line in _lines(found):
        console.print(line, markup=False)
    return 0 if found and all(each.is_met for each in found) else 1


def _compared(each: Play, client: Client, keep: Path, console: Console) -> list[Forecast]:
    logs = []
    for has_policy in (True, False):
        name = f"{each.number} {client.name} {'with' if has_policy else 'without'}"
        folder = keep / name.replace(" ", "-")
        if not _is_played(each, client, folder, has_policy):
            console.print(f"{name}: could not be played", markup=False)
            return []
        logs.append(log_of(folder, PARTITIONS))
    return forecasts(each.number, client.name, each.policy, *logs)


def _is_played(each: Play, client: Client, folder: Path, has_policy: bool) -> bool:
    for _ in range(_TRIES):
        if (folder / MEASURED).exists():
            break
        try:
            play(each, client, folder, has_policy=has_policy)
        except AssertionError as error:
            print(f"{folder.name}: {error}", file=sys.stderr)
    return (folder / MEASURED).exists()


def _lines(found: list[Forecast]) -> Iterator[str]:
    """The table, a line for each forecast."""
    head = f"{'check':6}{'client':41}{'log and policy':22}"
    yield f"{head}{'rebalances':12}{'measured':>9}{'predicted':>9}"
    for each in found:
        counts = f"{each.measured[0]} {each.predicted[0]}"
        told = "" if each.is_met else "  not met"
        yield (
            f"{each.number:6}{each.client:41}{each.what:22}{counts:12}"
            f"{each.measured[1]:9.1f}{each.predicted[1]:9.1f}{each.off:+8.1%}{told}"
        )


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.policies.predicted",
        description="Foretell what checks of policies cost, and compare.",
    )
    add = made.add_argument
    add("--clients", default="", metavar="WORD,...", help="only clients with such a word")
    add("--checks", default="", metavar="NUMBER,...", help="only these")
    add("--keep", type=Path, default=_PLACE, metavar="DIR", help="where logs of plays are")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
