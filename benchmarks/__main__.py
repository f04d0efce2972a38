"""`python -m benchmarks`: measure, print, and write RESULTS.md."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.cases import LostCommitError
from benchmarks.hotloop import NoCompilerError
from benchmarks.processes import raise_file_limit
from benchmarks.run import ALL, Plan, execute
from benchmarks.targets import TARGETS, UnavailableError
from benchmarks.wire import WrongAnswerError

RESULTS = Path(__file__).with_name("RESULTS.md")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, one round: rough figures")
    parser.add_argument("--cases", type=_names(ALL), default=list(ALL), help=",".join(ALL))
    targets = list(TARGETS)
    parser.add_argument("--targets", type=_names(targets), default=targets, help=",".join(targets))
    parser.add_argument("--seconds", type=float, help="measured time per run (3; quick: 1)")
    parser.add_argument("--rounds", type=int, help="runs per case, the median counts (3; quick: 1)")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="where servers keep their data (the folder for temporary files)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="Markdown to write (a full run: benchmarks/RESULTS.md; others: none)",
    )
    return parser.parse_args()


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return parse


def main() -> int:
    options = _arguments()
    plan = Plan(options.targets, options.cases)
    plan.warm_up_s = {"kafka": 60.0}
    if options.quick:
        plan.seconds, plan.rounds = 1.0, 1
        plan.warm_up_s = {"kafka": 5.0, "groupkeeper": 1.0, "floor": 1.0}
        plan.replay_commits = 5_000
        plan.start_records = 50_000
    plan.seconds, plan.rounds = options.seconds or plan.seconds, options.rounds or plan.rounds
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="groupkeeper-bench-", dir=options.data_dir) as base:
        environment = report.environment(shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]))
        environment["Disk"] = report.disk(Path(base))
        try:
            results = execute(plan, Path(base))
        except (WrongAnswerError, LostCommitError, NoCompilerError, UnavailableError) as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 1
    text = report.markdown(results, plan, environment)
    print("\n" + text)
    full = plan.cases == list(ALL) and plan.targets == list(TARGETS) and not options.quick
    out = options.out or (RESULTS if full else None)
    if out:
        out.write_text(text, encoding="utf-8")
        print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
