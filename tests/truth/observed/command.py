"""The command `python -m tests.truth observed`: plays situations beside Apache Kafka and prints
whether what is told of them is true.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.truth.foreign import make
from tests.truth.observed.broker_log import GroupTruth
from tests.truth.observed.broker_log import read as read_lines
from tests.truth.observed.catalogue import MAIN, SITUATIONS
from tests.truth.observed.chances import BY_CHANCE
from tests.truth.observed.cluster import Cluster
from tests.truth.observed.feeder import Feeder
from tests.truth.observed.judging import (
    NOT_PLAYED,
    RIGHT,
    UNKNOWN,
    VERDICTS,
    WRONG,
    PlayVerdict,
    RoundVerdict,
)
from tests.truth.observed.observers import Observer
from tests.truth.observed.plays import (
    AT_ONCE,
    KEPT,
    LAYERS,
    WHY,
    Job,
    Outcome,
    inferred_again,
    keep,
    missing,
    play,
    read,
    run,
    to_play,
    verdicts,
)
from tests.truth.observed.situations import Situation
from tests.truth.observed.stage import Admin, Site
from tests.truth.observed.timeline import timeline
from tests.truth.play import KAFKA_PYTHON

_SHORT: Final = {"right": "·", "unknown": "?", "wrong": "X", "not played": "-"}
Judged = tuple[Outcome, Situation, dict[str, PlayVerdict]]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m tests.truth observed",
        description="Play situations with real clients beside Apache Kafka, and judge what"
        " `groupkeeper observe` and `groupkeeper why` tell by what the coordinator has logged."
        " Exit code 1: something is wrong.",
        epilog="In a cell stand the verdicts of the observer and of `why`: · right, ? unknown,"
        " X wrong, - not played. Of several plays the worst is shown.",
    )
    add = made.add_argument
    add("--plays", type=int, default=1, metavar="N", help="how often each is played (1)")
    add("--brokers", type=int, default=1, metavar="N", help="brokers of the cluster (1)")
    add("--clients", default="", metavar="WORD,...", help="only clients with such a word")
    add("--situations", default="", metavar="WORD,...", help="only situations with such a word")
    add("--main", action="store_true", help="only situations that people ask about most")
    add("--resume", type=Path, metavar="FILE", help="JSON lines: outcomes; what is there is kept")
    add("--at-once", type=int, default=AT_ONCE, metavar="N", help=f"plays at a time ({AT_ONCE})")
    add("--list", action="store_true", help="show the situations, and play nothing")
    add("--show", action="store_true", help="show the outcomes of --resume, and play nothing")
    add("--again", action="store_true", help="--show what today's code infers from the records")
    add("--kept", action="store_true", help="the same of the plays that are in the repository")
    add("--keep", action="store_true", help="add first plays of --resume, and those not told right")
    add("--timeline", action="store_true", help="--show all that is known of each chosen play")
    return made


def main(arguments: Sequence[str]) -> int:
    """Play what is chosen; 0 if nothing is wrong."""
    options = parser().parse_args(arguments)
    chosen = [each for each in chosen_of(SITUATIONS, options) if not each.client.unusable]
    if options.list:
        for each in chosen:
            print(each.key, " ".join(":".join(pair) for pair in each.needs))
        return 0
    if not chosen:
        print("no situation has such words: --list shows all")
        return 1
    known = {(each.name, each.client.name): each for each in chosen}
    earlier = read(KEPT) if options.kept else read(options.resume) if options.resume else []
    outcomes = {each.key: each for each in earlier if each.key[:2] in known}
    if options.keep:
        keep([each for each in outcomes.values() if _is_worth(each, known[each.key[:2]])], KEPT)
        return 0
    if options.again or options.kept:
        outcomes = {key: inferred_again(each) for key, each in outcomes.items()}
    elif not (options.show or options.timeline):
        jobs = to_play(chosen, options.plays, outcomes.values())
        outcomes |= {each.key: each for each in _play(jobs, options)}
    judged = [
        (each, known[each.key[:2]], verdicts(each, known[each.key[:2]]))
        for each in outcomes.values()
    ]
    if options.timeline:
        for outcome, _, _ in judged:
            about = f"{outcome.situation}, {outcome.client}, play {outcome.number}"
            print("\n".join(["", about, *timeline(outcome)]))
    print(markdown(judged))
    is_wrong = any(one.verdict == WRONG for _, _, found in judged for one in found.values())
    return 1 if is_wrong or not judged else 0


def _is_worth(outcome: Outcome, situation: Situation) -> bool:
    """Whether a test learns from a play: it is the first one of its kind, or not told right."""
    verdict = verdicts(inferred_again(outcome), situation)[WHY].verdict
    return verdict != NOT_PLAYED and (outcome.number == 1 or verdict != RIGHT)


def chosen_of(situations: Iterable[Situation], options: argparse.Namespace) -> list[Situation]:
    """The situations with one of the words in their name, and one in the name of their client."""

    def fits(words: str, text: str) -> bool:
        return not words or any(word in text for word in words.split(",") if word)

    return [
        each
        for each in situations
        if fits(options.clients, each.client.name)
        and fits(options.situations, each.name)
        and (each.name in MAIN or not options.main)
    ]


def _play(jobs: Sequence[Job], options: argparse.Namespace) -> Iterator[Outcome]:
    make({each.client.name: each.client for each, _ in jobs}.values())
    make([KAFKA_PYTHON])
    began, done = time.monotonic(), 0
    with _site(options.brokers) as site:
        for outcome in run(jobs, options.resume, options.at_once, partial(play, site)):
            done += 1
            [situation] = {each for each, number in jobs if _is_of(outcome, each, number)}
            cell = "".join(_SHORT[each.verdict] for each in verdicts(outcome, situation).values())
            about = f"{outcome.situation}, {outcome.client}, {outcome.number} {outcome.error}"
            print(f"{done}/{len(jobs)} {cell} {outcome.seconds} s {about}", flush=True)
            yield outcome
    print(f"{done} plays in {time.monotonic() - began:.0f} s\n")


def _is_of(outcome: Outcome, situation: Situation, number: int) -> bool:
    return outcome.key == (situation.name, situation.client.name, number)


@contextmanager
def _site(brokers: int) -> Iterator[Site]:
    """A cluster, an observer beside it, and records for all topics."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupkeeper-kafka-")))
        cluster = Cluster(folder, brokers)
        stack.callback(cluster.stop)
        cluster.start()
        observer = Observer(cluster.bootstrap, folder)
        stack.callback(observer.stop)
        observer.start()
        feeder = Feeder(cluster.bootstrap, folder / "feeder.log")
        stack.callback(feeder.stop)
        admin = Admin(cluster.bootstrap)
        admin.start(folder / "admin.log")
        stack.callback(admin.kill)
        yield Site(cluster, observer, feeder, admin)


# -- the table -------------------------------------------------------------------------------------


def markdown(judged: Sequence[Judged]) -> str:
    """The tables: situations by client, counts of plays and rebalances, and all that is wrong."""
    return "\n".join([*_cells(judged), "", *_counts(judged), "", *_wrong(judged)])


def _cells(judged: Sequence[Judged]) -> list[str]:
    clients = sorted({outcome.client for outcome, _, _ in judged})
    lines = [
        "| situation | " + " | ".join(each.rsplit("-", 1)[0] for each in clients) + " |",
        "|---" * (len(clients) + 1) + "|",
    ]
    for name in sorted({outcome.situation for outcome, _, _ in judged}):
        cells = []
        for client in clients:
            found = [v for o, _, v in judged if (o.situation, o.client) == (name, client)]
            order = (NOT_PLAYED, *VERDICTS[:3])
            worst = [
                max((each[layer].verdict for each in found), key=order.index)
                for layer in LAYERS
                if found
            ]
            cells.append("".join(_SHORT[each] for each in worst))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _counts(judged: Sequence[Judged]) -> list[str]:
    lines = ["| layer | " + " | ".join(VERDICTS) + " |", "|---|---|---|---|---|"]
    for layer in LAYERS:
        for words, chosen in (
            ("plays by hand", [each for each in judged if not _is_by_chance(each)]),
            ("plays by chance", [each for each in judged if _is_by_chance(each)]),
        ):
            plays = Counter(found[layer].verdict for _, _, found in chosen)
            lines.append(_row(f"{layer}, {words}", plays))
        rounds = Counter(one.verdict for _, _, found in judged for one in found[layer].rounds)
        lines.append(_row(f"{layer}, rebalances", rounds))
    return lines


def _is_by_chance(each: Judged) -> bool:
    return each[1].name.startswith(BY_CHANCE)


def _row(name: str, counts: Mapping[str, int]) -> str:
    return f"| {name} | " + " | ".join(str(counts[each]) for each in VERDICTS) + " |"


def _wrong(judged: Sequence[Judged]) -> list[str]:
    """What was wrong or unknown, and what was not played, with what was told."""
    lines = []
    for outcome, situation, found in judged:
        truth = read_lines(outcome.lines).get(outcome.group, GroupTruth())
        about = f"{outcome.situation}, {outcome.client}, play {outcome.number}"
        if outcome.error or found[LAYERS[0]].verdict == NOT_PLAYED:
            lacks = ", ".join(missing(situation, truth, outcome.begun_ms))
            lines.append(f"* not played: {about}: {outcome.error or f'not logged: {lacks}'}")
        layers: dict[str, list[str]] = {}
        for layer in LAYERS:
            for one in found[layer].rounds:
                if one.verdict == WRONG or (one.counts and one.verdict == UNKNOWN):
                    layers.setdefault(_line(one, about), []).append(layer)
        lines += [f"{line} ({' and '.join(told_by)})" for line, told_by in layers.items()]
    return sorted(lines)


def _line(one: RoundVerdict, about: str) -> str:
    why = "; ".join(dict.fromkeys(one.why))
    return (
        f"* {one.verdict}: {about}, generation {one.generation}: told {one.told}, true is"
        f" {one.true}{f': {why}' if why else ''}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
