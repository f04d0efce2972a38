"""What policies cost groups that need none: 1,000 groups of 10 members with policies, and without.

    python -m benchmarks.policies
    python -m benchmarks.policies --groups 200 --rounds 9

The policies are grace, target size and preferred leaders (docs/policies.md). All groups are
settled, so that what is measured is what policies add to heartbeats and commits, and to the timers
between them. The server without policies takes part twice: how far its two figures are apart is the
noise.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks import cases
from benchmarks.processes import raise_file_limit
from benchmarks.sides import compare

SIZE: Final = 10
"""Members of a group."""
POLICIES: Final[Mapping[str, str]] = {
    "group.classic.scheduled.rebalance.max.delay.ms": "60000",
    "group.classic.reserve.on": "lost,left",
    "group.classic.target.group.size": "1000",
    "group.classic.leader.preference": "longest",
}


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.policies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=1_000, help="of ten members each (1000)")
    parser.add_argument("--rounds", type=int, default=5, help="medians are of so many (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of load in a run (3)")
    options = parser.parse_args()
    raise_file_limit()
    members = options.groups * SIZE
    loads = {"heartbeats": cases.heartbeats(members), "commits": cases.commits(members, 1)}
    print(f"{options.groups} groups of {SIZE}")
    with tempfile.TemporaryDirectory() as base:
        compare(POLICIES, loads, options.rounds, options.seconds, Path(base))
    return 0


if __name__ == "__main__":
    sys.exit(main())
