"""`python -m tests.kills`: kill a server under real clients, again and again.

Exit code 0: all good. 1: something was lost, rebalanced or stuck, or too little was compacted.
2: it could not begin.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tests.clients.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3
from tests.kills import changes, observers, seats
from tests.kills.crowd import java_words
from tests.kills.run import NotSettled, Plan, Say, run, words
from tests.suites.suite import SuiteError

BAD, CANNOT_RUN = 1, 2
EVERY_SECONDS = 20.0
"""So often a line tells how far it is, where there is no terminal."""

DESCRIPTION = """\
Kill a server with kill -9 under mixed clients and restart it at once, over the same directory.

Consumers of aiokafka, confluent-kafka, kafka-python and, where there is a Java and Maven, Java's
client read and commit, static and dynamic members in groups of two; administrators set offsets;
groups of one member each commit as fast as they are answered; others commit once and never again,
and some of them are deleted; a producer produces. After every start the server is asked for
everything: no offset below what was acknowledged, no deleted group, the members, instance ids,
assignments and generation of before the first kill. Every client has to go on by itself. In the end
all acknowledged records are fetched, and all is asked for after a clean stop.
The server has tiny segments and compacts them all the time, and two kills of three wait for the
files of a compaction.

Exit code 0: all good. 1: something was lost, rebalanced or stuck, or too little was compacted.
2: it could not begin."""
EXAMPLES = """\
  python -m tests.kills                        200 kills, some five minutes
  python -m tests.kills 20 --seed 7            fewer, at other moments
  python -m tests.kills --checkout ../other    the server of another work tree
  python -m tests.kills --seats                in the middle of hand-overs of reserved seats
  python -m tests.kills --changes 1000         during changes of users and ACLs
  python -m tests.kills 100 --observer         an observer beside a server
  python -m tests.kills 20 --observer --brokers 9   beside Apache Kafka, whose brokers die, too
  python -m tests.kills --keep kept            keep the logs of all clients, and the directory"""


RED = ("LOST", "REBAL", "STUCK", "UNCLEAN")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kills",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kills", nargs="?", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=9, help="when they come (9)")
    parser.add_argument("--raw", type=int, default=10, help="groups without a library (10)")
    parser.add_argument("--once", type=int, default=400, help="groups that commit once (400)")
    parser.add_argument("--without-java", action="store_true", help="leave Java's client out")
    parser.add_argument(
        "--checkout", type=Path, default=None, help="work tree whose server is killed (this one)"
    )
    parser.add_argument(
        "--without-compaction", action="store_true", help="let the server keep its default settings"
    )
    parser.add_argument(
        "--seats", action="store_true", help="kill in the middle of hand-overs of reserved seats"
    )
    parser.add_argument(
        "--changes",
        type=int,
        metavar="COUNT",
        help="kill during so many changes of users and ACLs: nothing else is looked at",
    )
    parser.add_argument(
        "--observer", action="store_true", help="kill `groupkeeper observe` instead of a server"
    )
    parser.add_argument(
        "--ask", action="store_true", help="of --observer: let observers ask coordinators, too"
    )
    parser.add_argument(
        "--brokers",
        type=int,
        default=0,
        metavar="COUNT",
        help="of --observer: beside Apache Kafka, so many of whose brokers are killed (0)",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what is written")
    options = parser.parse_args(arguments)
    console = Console()
    if options.seats:
        return _seats(options, console)
    if options.changes is not None:
        return _changes(options, console)
    if options.observer:
        return _observer(options, console)
    java = None
    if not options.without_java:
        try:
            java = java_words()
        except SuiteError as error:
            _print(console, f"without Java's client: {error}")
    plan = Plan(
        options.kills,
        options.seed,
        raw=options.raw,
        once=options.once,
        java=java,
        checkout=options.checkout and options.checkout.resolve(),
        compacts=not options.without_compaction,
    )
    with tempfile.TemporaryDirectory(prefix="groupkeeper-kills-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _status(console) as say:
                report = run(plan, place, say)
        except (NotSettled, AssertionError) as error:
            _print(console, f"could not begin: {error}", "red")
            return CANNOT_RUN
    for line in words(report):
        _print(console, line, "red" if line.startswith(RED) else None)
    return BAD if report.bad else 0


def _seats(options: argparse.Namespace, console: Console) -> int:
    with tempfile.TemporaryDirectory(prefix="groupkeeper-kills-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _status(console) as say:
                libraries = (AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3)
                found = seats.run(options.kills, options.seed, place, say, libraries)
        except AssertionError as error:
            _print(console, f"stuck, or could not begin: {error}", "red")
            return CANNOT_RUN
    for line in seats.words(found):
        _print(console, line, "red" if line.startswith(RED) else None)
    return BAD if found.broken else 0


def _changes(options: argparse.Namespace, console: Console) -> int:
    with tempfile.TemporaryDirectory(prefix="groupkeeper-kills-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _status(console) as say:
                found = changes.run(options.changes, options.seed, place, say)
        except AssertionError as error:
            _print(console, f"could not begin: {error}", "red")
            return CANNOT_RUN
    for line in changes.words(found):
        _print(console, line, "red" if line.startswith(RED) else None)
    return BAD if found.wrong else 0


def _observer(options: argparse.Namespace, console: Console) -> int:
    plan = observers.Plan(options.kills, options.seed, options.brokers, asks=options.ask)
    with tempfile.TemporaryDirectory(prefix="groupkeeper-kills-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _status(console) as say:
                found = observers.run(plan, place, say)
        except AssertionError as error:
            _print(console, f"stuck, or could not begin: {error}", "red")
            return CANNOT_RUN
    for line in observers.words(found):
        _print(console, line, "red" if line.startswith(RED) else None)
    return BAD if found.wrong else 0


@contextmanager
def _status(console: Console) -> Iterator[Say]:
    if not console.is_terminal:
        yield _every(EVERY_SECONDS, lambda words: _print(console, words))
        return
    with console.status("") as status:
        yield status.update


def _every(seconds: float, say: Say) -> Say:
    """What is said, so often at most."""
    said = [-seconds]

    def sometimes(words: str) -> None:
        if time.monotonic() - said[0] >= seconds:
            said[0] = time.monotonic()
            say(words)

    return sometimes


def _print(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
