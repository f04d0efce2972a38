"""The engines run functions of these tests in other processes."""

import os
import signal
import sys
import time

import pyarrow as pa
import pytest

from groupkeeper.analytics.errors import EngineFailed
from groupkeeper.analytics.pipeline.engine import Engine


def here(number):
    return number, os.getpid()


def fails(number):
    raise OSError(28, "No space left on device", "/tmp/x")


def waits_for(path):
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    return path.exists()


def dies(number):
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(number):
    raise ValueError(f"not {number}")


def test_results_come_in_the_order_of_the_items_from_other_processes():
    with Engine(2) as engine:
        found = [*engine.map(here, range(20))]
        assert [number for number, _ in found] == [*range(20)]
        assert os.getpid() not in {process for _, process in found}
        assert {process for _, process in engine.map(here, [1])} == {os.getpid()}


def touches(path):
    path.touch()


def test_workers_begin_before_a_result_is_asked_for(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    with Engine(2) as engine:
        results = engine.map(touches, paths)
        assert all(map(waits_for, paths))
        assert [*results] == [None, None]


def imports_pandas(numbers):
    pa.array(numbers)
    return "pandas" in sys.modules


def test_workers_do_not_import_pandas_for_lists():
    with Engine(2) as engine:
        assert [*engine.map(imports_pandas, [[1], [2]])] == [False, False]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("function", "said"),
    [(fails, r"^No space left on device \(/tmp/x\)$"), (wrong, "^ValueError: not 1$")],
)
def test_what_fails_in_a_worker_is_one_line(function, said, workers):
    with Engine(workers) as engine, pytest.raises(EngineFailed, match=said):
        [*engine.map(function, [1, 2])]


def ends_in_silence(number):
    return signal.getsignal(signal.SIGINT) == signal.SIG_DFL


def test_ctrl_c_ends_a_worker_without_a_traceback():
    with Engine(2) as engine:
        assert all(engine.map(ends_in_silence, range(4)))


def test_a_worker_that_is_killed_is_told():
    with Engine(2) as engine, pytest.raises(EngineFailed, match="for want of memory"):
        [*engine.map(dies, [1, 2])]
