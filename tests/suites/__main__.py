"""`python -m tests.suites`: other projects' tests against our server, or against another broker.

Exit code 0: every test passed or is known to fail. 1: one failed that is not. 2: a suite could not
be run here.
"""

import argparse
import functools
import sys

from rich.console import Console

from tests.suites.catalogue import SUITES
from tests.suites.run import PLACE, Run
from tests.suites.verdict import OURS, RECORD, record

FAILED, CANNOT_RUN = 1, 2


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites",
        description="Other projects' tests against our server, or against another broker.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (all)")
    parser.add_argument("--list", action="store_true", help="say what each suite is")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="test this broker, not ours")
    parser.add_argument(
        "--broker", metavar="NAME", help='what to write that broker down as: "Apache Kafka 4.1.0"'
    )
    parser.add_argument("--verbose", action="store_true", help="say how every test ended")
    parser.add_argument("--write", action="store_true", help=f"record it in {RECORD.name}")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.suites if name not in SUITES]:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    if options.write and bool(options.bootstrap) != bool(options.broker):
        parser.error("--write needs a --broker NAME for a --bootstrap, and none without")
    return options


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    console = Console()
    say = functools.partial(console.print, highlight=False, markup=False, soft_wrap=True)
    if options.list:
        for suite in SUITES.values():
            say(f"{suite.name:14} {suite.about}")
        return 0
    run = Run(options.bootstrap, console, options.verbose)
    run.execute(SUITES[name] for name in options.suites or SUITES)
    if run.verdicts:
        console.print(run.table(options.broker or options.bootstrap or OURS))
    for verdict in run.verdicts:
        name = verdict.suite.name
        for line in verdict.suite.summary():
            say(f"{name}: {line}")
        for test in verdict.mended:
            say(f"{name}: {test} passes, and is on the list of known failures")
        if verdict.failed:
            say(f"{name}: what was said is in {PLACE / name}/run.log")
    if options.write:
        record(options.broker or OURS, run.verdicts)
    if any(verdict.failed for verdict in run.verdicts):
        return FAILED
    return CANNOT_RUN if run.errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
