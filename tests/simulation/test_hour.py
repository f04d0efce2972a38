"""An hour of an eight-member group under virtual time, with crashes on every side."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation import reserved
from tests.simulation.hour import EVERY_HOUR, Hour

ROOT = Path(__file__).parents[2]


RARE = {"swap completed by a start"}
"""What need not happen in each hour, but in one of them."""


def test_hours_of_crashes_break_no_promise() -> None:
    happened: Counter[str] = Counter()
    for seed in (1, 2, 5, 15):
        hour = Hour(seed)
        hour.run()
        assert hour.crashes > 20
        assert hour.checks > 3_000
        assert hour.ledger.live_checks > 800
        assert hour.rounds > (3 if hour.reserves else 10)
        assert not hour.reserves or all(hour.happened[kind] for kind in reserved.EVERY_HOUR)
        assert hour.clerk.looks > 800 and hour.clerk.deletions > 300
        assert [kind for kind in EVERY_HOUR if not hour.happened[kind]] in ([], [*RARE])
        happened.update(hour.happened)
    assert [kind for kind in EVERY_HOUR if not happened[kind]] == []


@pytest.mark.parametrize("seed", [3, 4])
def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed(seed: int) -> None:
    first, second = (_run_in_a_process(seed, hash_seed) for hash_seed in ("0", "4711"))
    assert len(first) > 5_000
    assert first == second


def _run_in_a_process(seed: int, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.hour", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=300,  # 20 s on a machine that does nothing else
        check=True,
    )
    return done.stdout.splitlines()
