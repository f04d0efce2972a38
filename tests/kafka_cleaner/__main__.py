"""`python -m tests.kafka_cleaner [LOGS]`: random logs, cleaned by Apache Kafka and compacted by us.

Needs Java and Maven, which fetches Kafka's jars into `.suites/` once. `--write` makes the files in
`tests/fixtures/kafka-cleaner` anew. Exit code 1: a batch differed.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.kafka_cleaner import fixture
from tests.kafka_cleaner.kafka import KafkaCleaner
from tests.kafka_cleaner.rounds import DifferenceError, compare, jobs
from tests.parity.brokers import NEWEST, class_path

FIXTURE_SEEDS = (4, 7)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_cleaner")
    parser.add_argument("logs", nargs="?", type=int, default=20, help="how many logs (20)")
    parser.add_argument("--seed", type=int, default=0, help="of the first log (0)")
    parser.add_argument("--write", action="store_true", help="write the fixture")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as place,
        KafkaCleaner(class_path(NEWEST), Path(place)) as kafka,
    ):
        if options.write:
            return _write(kafka)
        return _compare(kafka, range(options.seed, options.seed + options.logs))


def _compare(kafka: KafkaCleaner, seeds: range) -> int:
    batches = different = 0
    for seed in seeds:
        try:
            batches += sum(compare(job, *kafka.clean(job)) for job in jobs(seed))
        except DifferenceError as error:
            different += 1
            print(f"seed {seed}: {error}")
    print(f"{len(seeds)} logs, {batches} batches of Kafka's, {different} logs differ")
    return 1 if different else 0


def _write(kafka: KafkaCleaner) -> int:
    for old in fixture.names():
        shutil.rmtree(fixture.PLACE / old)
    for seed in FIXTURE_SEEDS:
        for number, job in enumerate(jobs(seed), 1):
            fixture.write(f"log-{seed}-round-{number}", job, *kafka.clean(job))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
