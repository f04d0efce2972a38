"""The same requests at the same times have the same consequences, in every process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def trace_of_a_walk(hash_seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.wander", "7", "2000"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


def test_the_order_of_hash_tables_decides_nothing() -> None:
    first, second = trace_of_a_walk(1), trace_of_a_walk(2)
    assert first.count("\n") > 2_000
    assert first == second
