"""The command `python -m tests.truth advice`: follows advice, and prints what became of it."""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.truth.incidents import advised_cases
from tests.truth.incidents.advised import CASES, Result, followed, line, stored

AT_ONCE = 3


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m tests.truth advice",
        description="Play incidents, set what `groupkeeper why` proposes, play them again, and"
        " compare the partition-seconds that nobody read with those that were predicted. Exit code"
        " 1: something rose, or failed.",
    )
    add = made.add_argument
    add("--plays", type=int, default=3, metavar="N", help="plays without and with settings (3)")
    add("--cases", default="", metavar="WORD,...", help="only cases with such a word")
    add("--resume", type=Path, metavar="FILE", help="JSON lines: results; what is there is kept")
    add("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"cases at a time ({AT_ONCE})")
    add("--show", action="store_true", help="show the results of --resume, and play nothing")
    return made


def main(arguments: Sequence[str]) -> int:
    """Play what is chosen; 0 if nothing rose."""
    options = parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    words = [word for word in options.cases.split(",") if word]
    chosen = [each for each in CASES if not words or any(word in each.key for word in words)]
    results = {(each.case, each.client): each for each in stored(options.resume)}
    left = [each for each in chosen if (each.name, each.client.name) not in results]
    if not options.show:
        with ThreadPoolExecutor(options.at_once) as pool:
            for done in as_completed([pool.submit(followed, each, options.plays) for each in left]):
                result = done.result()
                results[result.case, result.client] = result
                if options.resume is not None:
                    with options.resume.open("a") as file:
                        file.write(line(result) + "\n")
                console.print(
                    f"{len(results)}/{len(chosen)} {result.case}, {result.client}:"
                    f" {result.verdict} {' | '.join(result.errors)}",
                    markup=False,
                )
    show(list(results.values()), console)
    bad = any(each.verdict in {"rose", "failed"} for each in results.values())
    return 1 if bad or not results else 0


def show(results: Sequence[Result], console: Console) -> None:
    """Print the table."""
    table = Table(
        *("incident", "client", "settings", "unread before", "after", "fell", "predicted", ""),
        title="Advice that was followed; partition-seconds, medians",
    )
    for each in sorted(results, key=lambda each: (each.case, each.client)):
        settings = " ".join(f"{key}={value}" for key, value in each.settings.items())
        before = " ".join(f"{x.unread_s:.0f}" for x in each.before)
        after = " ".join(f"{x.unread_s:.0f}" for x in each.after)
        fell = "" if each.fell_s is None else f"{each.fell_s:.1f}"
        predicted = "" if each.predicted_s is None else f"{each.predicted_s:.1f}"
        client = each.client.split("-")[0]
        row = (each.case, client, settings, before, after, fell, predicted, each.verdict)
        table.add_row(*row)
    console.print(table, markup=False)
    names = {each.case for each in results if each.settings and not each.errors}
    console.print(f"{len(names)} incidents with advice, {len(results)} with client")


__all__ = ["advised_cases", "main"]
