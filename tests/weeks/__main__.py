"""Make weeks of many groups with known causes: a data directory, and what really happened.

    python -m tests.weeks --groups 300 --days 14 --seed 7 --out weeks --shards 2

The folder then has `data/` for `groupkeeper analyze`, and the truth in `truth/*.parquet` and
`truth.json`. docs/testing.md says what is in it.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.weeks.shards import make
from tests.weeks.weeks import Size


def main(arguments: list[str]) -> int:
    """2 if the folder is not empty."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.weeks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=40, help="how many groups (%(default)s)")
    parser.add_argument("--days", type=float, default=2, help="how long (%(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="another one, other weeks (%(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that is new or empty")
    parser.add_argument("--shards", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--partitions", type=int, default=50, help="of __consumer_offsets (50)")
    parser.add_argument("--records", type=int, default=0, help="add commits up to so many records")
    parser.add_argument(
        "--transactional",
        type=float,
        default=0,
        help="chance that added ones are a transaction (%(default)s)",
    )
    parser.add_argument(
        "--segment-mib", type=float, default=4, help="size of segments (%(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.out.is_dir() and any(options.out.iterdir()):
        print(f"{options.out} is not empty: give another folder, or remove it", file=sys.stderr)
        return 2
    size = Size(
        groups=options.groups,
        days=options.days,
        seed=options.seed,
        shards=options.shards,
        partitions=options.partitions,
        segment_bytes=int(options.segment_mib * (1 << 20)),
        transactional=options.transactional,
    )
    began = time.monotonic()

    def progress(days: float) -> None:
        seconds = time.monotonic() - began
        print(f"\r{days:.2f} of {size.days} days, {seconds:.0f} s", end="", file=sys.stderr)

    tables = make(size, options.out, options.records, progress)
    print(
        f"\r{len(tables['rounds'])} rounds, {len(tables['incidents'])} incidents in {options.out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
