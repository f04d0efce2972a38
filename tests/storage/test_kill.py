"""A process that commits is killed with SIGKILL again and again; what it reported must be there."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.store import Store
from tests.support.stored import values_in

ROOT = Path(__file__).parents[2]
NAMES = [f"__consumer_offsets-{number}" for number in range(3)]
LIMITS = Limits(segment_bytes=20_000, journal_bytes=60_000)

# Commits numbered values to three logs, and prints each number when it may be acknowledged.
CHILD = """
import os, sys
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.store import Store

store = Store(Files(), sys.argv[1], 0, Limits(segment_bytes=20_000, journal_bytes=60_000))
epoch = store.claim(0)
logs = [store.open_log(f"__consumer_offsets-{number}") for number in range(3)]
number = int(sys.argv[2])
while True:
    records = [(b"key", b"%d" % number)]
    store.commit([Append(log, epoch, 1_700_000_000_000, records) for log in logs])
    os.write(1, b"%d\\n" % number)
    number += 1
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_killed_process_reported_is_there(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first = 0
    for _ in range(4):
        reported = run_and_kill(tmp_path, first, lines=chance.randrange(1, 300))
        found = read_back(tmp_path)
        for numbers in found:
            assert numbers == list(range(len(numbers)))
            assert len(numbers) > reported
        first = max(len(numbers) for numbers in found)
        assert min(len(numbers) for numbers in found) == first


def run_and_kill(folder: Path, first: int, lines: int) -> int:
    command = [sys.executable, "-c", CHILD, str(folder), str(first)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    for _ in range(lines):
        child.stdout.readline()
    child.kill()
    reported = [
        int(line) for line in child.stdout.read().splitlines(keepends=True) if line[-1:] == b"\n"
    ]
    child.wait()
    child.stdout.close()
    return reported[-1] if reported else first + lines - 1


def read_back(folder: Path) -> list[list[int]]:
    store = Store(Files(), str(folder), 0, LIMITS)
    logs = [store.open_log(name) for name in NAMES]
    found = [[int(value or b"") for value in values_in(log)] for log in logs]
    store.close()
    return found
