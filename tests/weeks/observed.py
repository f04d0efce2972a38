"""`python -m tests.weeks.observed`: whether an observer tells of weeks of groups what their server
stored of them.

Makes a log with known causes, serves it with `groupkeeper serve`, lets `groupkeeper observe` read
it, and holds the events of the one against those of the other: by the first cause of each
rebalance, and by the reason for which each membership ended. Exit code 1: too many are wrong or
unknown.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from groupkeeper.protocol.group_events import Event
from tests.analytics.precision import UNKNOWN, true_ends, true_rounds
from tests.support.process import Server
from tests.support.stored_events import events_on_disk
from tests.truth.observed.observers import Observer
from tests.weeks.shards import DATA, make
from tests.weeks.weeks import Size

RIGHT, WRONG = "right", "wrong"
SAME: Final = {
    ("rejoined_after_load", "leader_rejoined"),
    ("rejoined_after_load", "member_rejoined"),
}
"""Stored and inferred: Kafka's coordinator does not tell these apart."""
WRONG_MOST, UNKNOWN_MOST = 0.01, 0.1
READ_S: Final = 240.0
"""Within this all is read: before retention looks for the first time."""
PAUSE_S: Final = 0.3
Key = TypeVar("Key")
Verdicts = Counter[tuple[str, str]]
"""Counts by the true cause, and by what was told: RIGHT, UNKNOWN, or another cause."""


def judged(told: Mapping[Key, str], found: Mapping[Key, str]) -> Verdicts:
    """Judge causes by those that were stored. What is missing is unknown."""
    verdicts: Verdicts = Counter()
    for key, truth in told.items():
        got = found.get(key, UNKNOWN)
        if truth != UNKNOWN:
            verdicts[truth, RIGHT if got == truth or (truth, got) in SAME else got] += 1
    return verdicts


def causes(events: Iterable[Event]) -> dict[tuple[str, int], str]:
    """Group and generation -> the first cause of the rebalance."""
    rounds = true_rounds([*events])
    return {key: str((each.cause or {}).get("code")) for key, each in rounds.items()}


def table(verdicts: Verdicts) -> Iterator[str]:
    """The rows of a table, one for each cause, and one for all."""
    yield "| cause | right | unknown | wrong | told instead |"
    yield "|---|---|---|---|---|"
    for code in (*sorted({truth for truth, _ in verdicts}), ""):
        mine: Counter[str] = Counter()
        for (truth, got), count in verdicts.items():
            if code in ("", truth):
                mine[got] += count
        others = {got: count for got, count in mine.items() if got not in (RIGHT, UNKNOWN)}
        instead = ", ".join(f"{got} {count}" for got, count in sorted(others.items()))
        counts = f"{mine[RIGHT]} | {mine[UNKNOWN]} | {sum(others.values())}"
        yield f"| {code or 'all'} | {counts} | {instead} |"


def is_good(verdicts: Verdicts) -> bool:
    """Whether hardly any are wrong, and few are unknown."""
    unknown = sum(count for (_, got), count in verdicts.items() if got == UNKNOWN)
    right = sum(count for (_, got), count in verdicts.items() if got == RIGHT)
    wrong = verdicts.total() - right - unknown
    return wrong <= WRONG_MOST * verdicts.total() and unknown <= UNKNOWN_MOST * verdicts.total()


def compared(folder: Path, partitions: int) -> tuple[list[Event], list[Event]]:
    """Serve the log of a folder and observe it. Returns the events of the server, and those of the
    observer.
    """
    settings = {"log.cleaner.enable": "false", "offsets.retention.minutes": str(1 << 30)}
    server = Server(folder, settings | {"offsets.topic.num.partitions": str(partitions)})
    assert server.data_dir == folder / DATA
    observer = Observer("", folder / "observer")
    try:
        server.start()
        observer.bootstrap = server.bootstrap
        observer.start()
        until = time.monotonic() + READ_S
        while not observer.is_ready():
            assert time.monotonic() < until, observer.tail()
            time.sleep(PAUSE_S)
        observer.stop()
    finally:
        observer.kill()
        server.stop()
    stored, inferred = events_on_disk(server.data_dir), events_on_disk(observer.data)
    return [*chain(*stored.values())], [*chain(*inferred.values())]


def main(arguments: list[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.weeks.observed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--groups", type=int, default=24, help="how many groups (%(default)s)")
    add("--days", type=float, default=1, help="how long (%(default)s)")
    add("--seed", type=int, default=1, help="another one, other weeks (%(default)s)")
    add("--incidents", type=float, default=24, help="of each group in a day (%(default)s)")
    add("--every", type=float, default=15, help="seconds between two commits (%(default)s)")
    add("--partitions", type=int, default=8, help="of __consumer_offsets (%(default)s)")
    options = parser.parse_args(arguments)
    size = Size(
        groups=options.groups,
        days=options.days,
        seed=options.seed,
        partitions=options.partitions,
        incidents_a_day=options.incidents,
        sessions_s=(60, 60, 300, 600),
        rhythms_s=(options.every,),
        segment_bytes=1 << 28,
    )
    with tempfile.TemporaryDirectory(prefix="groupkeeper-weeks-") as name:
        make(size, Path(name))
        stored, inferred = compared(Path(name), options.partitions)
    rounds = judged(causes(stored), causes(inferred))
    ends = judged(true_ends(stored), true_ends(inferred))
    print(f"{len(stored)} events stored, {len(inferred)} inferred\n")
    print("\n".join(["First causes of rebalances:", "", *table(rounds)]))
    print("\n".join(["", "Ends of memberships:", "", *table(ends)]))
    return 0 if is_good(rounds) and is_good(ends) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
