"""Many simulated hours, one seed after another, until one breaks a promise.

python -m tests.simulation.seeds [HOW_MANY [FIRST_SEED]]
python -m tests.simulation.seeds seats [HOW_MANY [FIRST_SEED]]    lives of reserved seats instead
"""

import sys
from collections import Counter

from rich.console import Console
from rich.progress import track
from rich.table import Table

from groupkeeper.observe import logs
from groupkeeper.observe.log_writer import Line
from tests.seats.__main__ import main as lives
from tests.simulation.hour import Hour


def errors_only(line: Line) -> None:
    """What becomes of the lines of a simulated server."""
    if line.level == "error":
        logs.pass_on(line)


def main(arguments: list[str]) -> int:
    """Run seeds `first` to `first + many - 1`; 0 when all of them held."""
    if arguments[:1] == ["seats"]:
        return lives(arguments[1:])
    many, first = (int(each) for each in [*arguments, *["20", "1"][len(arguments) :]])
    logs.keep_lines(errors_only)
    happened: Counter[str] = Counter()
    for seed in track(range(first, first + many), description="Simulated hours"):
        hour = Hour(seed)
        try:
            hour.run()
        except AssertionError:
            print("\n".join(hour.trace[-40:]))
            print(f"seed {seed} broke a promise; all of it: python -m tests.simulation.hour {seed}")
            raise
        happened += hour.happened
    table = Table("in these hours", "times")
    for what, count in sorted(happened.items()):
        table.add_row(what, f"{count:,}")
    Console().print(table)
    print(f"{many} hours from seed {first} on: every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
