"""Applies one mutant after the other to a copy of the tree, and says which test notices it.

    python -m tests.mutants                    all of them
    python -m tests.mutants tombstone swap     those whose names contain a word
    python -m tests.mutants --hour             and whether the simulated hour notices them
    python -m tests.mutants --list

The tier of that test is printed, too: `make test` runs the short one, `make test-all` both.
First the tests have to pass without a mutant. Exit code 1: a mutant survived.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.mutants import catalogue
from tests.mutants.advice import ADVICE_MUTANTS
from tests.mutants.events import EVENT_MUTANTS
from tests.mutants.examples import EXAMPLE_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.policies import POLICY_MUTANTS
from tests.mutants.replays import REPLAY_MUTANTS
from tests.mutants.seats import SEAT_MUTANTS
from tests.tiers import is_long

MUTANTS = (
    *catalogue.MUTANTS,
    *EVENT_MUTANTS,
    *EXAMPLE_MUTANTS,
    *ADVICE_MUTANTS,
    *SEAT_MUTANTS,
    *POLICY_MUTANTS,
    *REPLAY_MUTANTS,
)
ROOT = Path(__file__).parents[2]
TREE = ("coordinator", "protocol", "storage", "groupkeeper", "tests", "benchmarks", "examples")
FILES = ("pyproject.toml",)
LIMIT_S = 600
"""A mutant may let a test hang: that is noticed, too."""
HOUR = "tests/simulation/test_hour.py::test_hours_of_crashes_break_no_promise"


def copy_tree(to: Path) -> None:
    """What the tests need, without compiled files: sources change within a second."""
    without = shutil.ignore_patterns("__pycache__", ".*")
    for name in TREE:
        shutil.copytree(ROOT / name, to / name, symlinks=True, ignore=without)
    for name in FILES:
        shutil.copy(ROOT / name, to / name)


def failed_test(tree: Path, tests: Sequence[str]) -> str:
    """The first of these tests that fails in a tree; "" if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT_S} s"
    if done.returncode == 0:
        return ""
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failures:
        raise SystemExit(f"pytest could not be run:\n{done.stdout}{done.stderr}")
    return failures[0].split()[1]


def tier(test_id: str) -> str:
    """The tier that a test is in: `make test` or `make test-all`."""
    if "::" not in test_id:  # none, or a time limit
        return "-"
    return "long" if is_long(test_id) else "short"


def killed_by(mutant: Mutant, tree: Path, tests: Sequence[str]) -> str:
    """The first test that notices a mutant, the short tier first; "" if none does."""
    file = tree / mutant.path
    sound = file.read_text(encoding="utf-8")
    mutant.apply(tree)
    try:
        return next(
            filter(None, (failed_test(tree, [test]) for test in sorted(tests, key=is_long))), ""
        )
    finally:
        file.write_text(sound, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Try the mutants; 0 if all of them are noticed."""
    words = [each for each in arguments if not each.startswith("--")]
    chosen = [each for each in MUTANTS if not words or any(word in each.name for word in words)]
    if "--list" in arguments:
        print("\n".join(f"{each.name}: {each.path}" for each in chosen))
        return 0
    hour = "--hour" in arguments
    table = Table("mutant", "in", "noticed by", "tier", *["by the hour"] * hour)
    survivors, long = 0, []
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        task = progress.add_task("Mutants", total=len(chosen) + 1)
        tests = dict.fromkeys(test for each in chosen for test in each.killers)
        if failed := failed_test(tree, [*tests, HOUR] if hour else [*tests]):
            raise SystemExit(f"{failed} fails without a mutant")
        for mutant in chosen:
            progress.update(task, advance=1, description=mutant.name)
            by_test = killed_by(mutant, tree, mutant.killers)
            by_hour = killed_by(mutant, tree, [HOUR]) if hour else ""
            survivors += not (by_test or by_hour)
            long += [mutant.name] * (tier(by_test) == "long")
            row = [by_test.rpartition("/")[2] or "-", tier(by_test)]
            row += [by_hour.rpartition("/")[2] or "-"] * hour
            table.add_row(mutant.name, mutant.path, *row)
    console = Console()
    console.print(table)
    console.print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")
    console.print(f"by the long tier only: {', '.join(long) or 'none'}")
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
