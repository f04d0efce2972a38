"""The command `python -m tests.truth incidents`: plays incidents and prints their verdicts."""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.truth.foreign import make
from tests.truth.incidents.catalogue import INCIDENTS
from tests.truth.incidents.layers import LAYERS
from tests.truth.incidents.plays import (
    AT_ONCE,
    NOT_PLAYED,
    Outcome,
    judged_again,
    read,
    run,
    to_play,
)
from tests.truth.incidents.truths import Incident
from tests.truth.incidents.verdicts import RIGHT, UNKNOWN, VERDICTS, WRONG

_SHORT: Final = {RIGHT: "·", UNKNOWN: "?", WRONG: "X", NOT_PLAYED: "-"}
_TOLD: Final = 8
"""So many lines of what was told are shown of a wrong verdict."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m tests.truth incidents",
        description="Play incidents of which the cause is known with real clients, and judge what"
        " `groupkeeper why` and the analysis of the same log tell. Exit code 1: "
        "something is wrong.",
        epilog="In a cell stand the verdicts of `why`, of the analysis with events and of the"
        " analysis of the offsets log alone: · right, ? unknown, X wrong, - not played. Of several"
        " plays the worst verdict is shown.",
    )
    add = made.add_argument
    add("--plays", type=int, default=1, metavar="N", help="how often each is played (1)")
    add("--clients", default="", metavar="WORD,...", help="only clients with such a word")
    add("--situations", default="", metavar="WORD,...", help="only incidents with such a word")
    add("--resume", type=Path, metavar="FILE", help="JSON lines: outcomes; what is there is kept")
    add("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"plays at a time ({AT_ONCE})")
    add("--list", action="store_true", help="show the incidents and their truth, and play nothing")
    add("--show", action="store_true", help="show the outcomes of --resume, and play nothing")
    return made


def main(arguments: Sequence[str]) -> int:
    """Play what is chosen; 0 if nothing is wrong."""
    options = parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    chosen = chosen_of(INCIDENTS, options.clients, options.situations)
    if options.list:
        _list(chosen, console)
        return 0
    if not chosen:
        console.print("no incident has such words: --list shows all")
        return 1
    for client in {each.client for each in chosen if each.client.unusable}:
        console.print(f"left out: {client.name}: {client.unusable}")
    usable = [each for each in chosen if not each.client.unusable]
    known = {(each.name, each.client.name): each for each in usable}
    earlier = (
        [each for each in read(options.resume) if each.key[:2] in known] if options.resume else []
    )
    outcomes = {each.key: judged_again(each, known[each.key[:2]]) for each in earlier}
    if not options.show:
        outcomes |= _play(usable, options, outcomes.values(), console)
    show(list(outcomes.values()), console)
    is_wrong = any(each.verdict(layer) == WRONG for each in outcomes.values() for layer in LAYERS)
    return 1 if is_wrong or not any(each.layers for each in outcomes.values()) else 0


def chosen_of(incidents: Iterable[Incident], clients: str, names: str) -> list[Incident]:
    """The incidents with one of the words in their name, and one in the name of their client."""

    def fits(words: str, text: str) -> bool:
        return not words or any(word in text for word in words.split(",") if word)

    return [
        each for each in incidents if fits(clients, each.client.name) and fits(names, each.name)
    ]


def _play(
    incidents: Sequence[Incident],
    options: argparse.Namespace,
    done: Iterable[Outcome],
    console: Console,
) -> dict[tuple[str, str, int], Outcome]:
    jobs = to_play(incidents, options.plays, done)
    make({incident.client.name: incident.client for incident, _ in jobs}.values())
    began, played = time.monotonic(), dict[tuple[str, str, int], Outcome]()
    for outcome in run(jobs, options.resume, options.at_once):
        played[outcome.key] = outcome
        cell = "".join(_SHORT[outcome.verdict(layer)] for layer in LAYERS)
        about = f"{outcome.incident}, {outcome.client}, {outcome.number}: {outcome.error}"
        console.print(f"{len(played)}/{len(jobs)} {cell} {outcome.seconds} s {about}", markup=False)
    console.print(f"{len(played)} plays in {time.monotonic() - began:.0f} s")
    return played


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print the table, the counts, and each wrong verdict with what was told."""
    clients = sorted({each.client for each in outcomes})
    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for each in outcomes:
        cells[each.incident, each.client].append(each)
    table = Table("incident", *(each.split("-")[0] for each in clients), title="Incidents")
    for name in dict.fromkeys(each.incident for each in outcomes):
        table.add_row(name, *(_cell(cells[name, client]) for client in clients))
    console.print(table, markup=False)
    for layer in LAYERS:
        counts = Counter(each.verdict(layer) for each in outcomes)
        words = ", ".join(f"{counts[each]} {each}" for each in (*VERDICTS, NOT_PLAYED))
        console.print(f"{layer}: {words}")
    for each in outcomes:
        if each.error:
            console.print(
                f"\nnot played: {each.incident}, {each.client}: {each.error}", markup=False
            )
        for layer in LAYERS:
            if each.verdict(layer) == WRONG:
                _show_wrong(each, layer, console)


def _show_wrong(outcome: Outcome, layer: str, console: Console) -> None:
    about = outcome.layers[layer]
    told = ["/".join(each) for each in dict.fromkeys(map(tuple, about["pairs"] + about["events"]))]
    lines = [f"\nwrong: {outcome.incident}, {outcome.client}, play {outcome.number}, {layer}"]
    lines += [f"  {each}" for each in about["why"]]
    lines += [f"  told: {' '.join(told)}"]
    lines += [f"  | {each}" for each in dict.fromkeys(about["sentences"][-_TOLD:]) if each]
    console.print("\n".join(lines), markup=False)


def _cell(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    order = (NOT_PLAYED, *VERDICTS)
    worst = (max((each.verdict(layer) for each in outcomes), key=order.index) for layer in LAYERS)
    return "".join(_SHORT[each] for each in worst)


def _list(incidents: Sequence[Incident], console: Console) -> None:
    table = Table("incident", "clients", "truth", "needed", "source")
    for name in dict.fromkeys(each.name for each in incidents):
        same = [each for each in incidents if each.name == name]
        needs = " ".join("|".join("/".join(p) for p in each) for each in same[0].truth.needs)
        clients = "\n".join(each.client.name for each in same)
        table.add_row(name, clients, same[0].truth.words, needs, same[0].source)
    console.print(table, markup=False)
    console.print(
        f"{len({each.name for each in incidents})} incidents, {len(incidents)} with client"
    )
