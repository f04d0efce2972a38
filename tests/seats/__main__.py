"""Many lives of groups with policies, one seed after another, and which of them break a promise.

python -m tests.seats [HOW_MANY [FIRST_SEED]]    grace, from seed 0 on, on all processors
python -m tests.seats --all-policies ...         the same with all policies
python -m tests.seats [...] --trace SEED         what happens in one
"""

import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.seats.life import Life
from tests.seats.oracle import Broken, sums
from tests.seats.planned_life import PlannedLife

ALL = "--all-policies"
AT_ONCE = 20
"""How many seeds a process takes."""


KINDS: Final[Mapping[str, type[Life]]] = {"grace": Life, "all": PlannedLife}


def lived(seeds: Iterable[int], kind: str = "grace") -> tuple[dict[str, int], list[str]]:
    """What happened in these lives, and which of them broke a promise."""
    happened, broken = [], []
    for seed in seeds:
        life = KINDS[kind](seed)
        try:
            life.run()
        except Exception as error:  # noqa: BLE001  # the other seeds count, too
            broken.append(f"seed {seed}: {_told(error)}")
        happened.append(life.oracle.happened)
    return sums(happened), broken


def _told(error: Exception) -> str:
    """The words of a broken promise, or where an assertion is."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = "" if isinstance(error, Broken) else f" at {last.name}: {last.line}"
    return f"{type(error).__name__} {error}{where}"


def trace(seed: int, kind: str) -> int:
    life = KINDS[kind](seed)
    try:
        life.run()
    finally:
        print("\n".join(life.scene.trace))
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run seeds `first` to `first + many - 1`; 0 when all of them held."""
    kind = "all" if ALL in arguments else "grace"
    arguments = [each for each in arguments if each != ALL]
    if arguments[:1] == ["--trace"]:
        return trace(int(arguments[1]), kind)
    many, first = (int(each) for each in [*arguments, *["10000", "0"][len(arguments) :]])
    parts = [
        range(each, min(each + AT_ONCE, first + many))
        for each in range(first, first + many, AT_ONCE)
    ]
    broken: list[str] = []
    counts: list[dict[str, int]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(partial(lived, kind=kind), parts)
        for happened, failed in track(results, "Lives of groups", total=len(parts)):
            counts.append(happened)
            broken += failed
            for each in failed:
                print(each, flush=True)
    table = Table("in these lives", "times")
    for what, count in sorted(sums(counts).items()):
        table.add_row(what, f"{count:,}")
    Console().print(table)
    print(f"{many} lives from seed {first} on: {len(broken) or 'none'} broke a promise")
    return min(len(broken), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
