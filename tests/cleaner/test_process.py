"""The process that compacts: what it leaves to others, and that it does what it is asked."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupkeeper.cleaner import supervision
from groupkeeper.cleaner.__main__ import LOWEST_PRIORITY
from groupkeeper.cleaner.process import CompactionHung, CompactionProcess, CompactionStopped
from groupkeeper.cleaner.supervision import Priority, Supervision
from groupkeeper.storage.compaction.compaction import CompactionJob
from groupkeeper.storage.compaction.pieces import SourceSegment
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.log.limits import Limits
from tests.support.batches import batch, values_of
from tests.support.served import Lines

LIMIT_S = 30.0


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """The process, which waits for its job."""
    command = [sys.executable, "-m", "groupkeeper.cleaner"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def job(folder: Path, *segments: bytes) -> CompactionJob:
    sources = []
    for base, data in enumerate(segments):
        (folder / f"{base:020d}.log").write_bytes(data)
        sources.append(SourceSegment(base, base + 1, len(data), None))
    return CompactionJob(str(folder), "5eed", tuple(sources), 0, 0, 0, 0, 1 << 20, Limits())


def test_it_compacts_what_it_is_asked(tmp_path: Path) -> None:
    compacted = CompactionProcess()(job(tmp_path, batch(0, b"old"), batch(1, b"new")))
    assert (compacted.records_read, compacted.records_kept) == (2, 1)
    written = tmp_path / "00000000000000000000.log.5eed.cleaned"
    assert values_of(written.read_bytes()) == [b"new"]


def test_damage_and_errors_of_the_system_are_told(tmp_path: Path) -> None:
    process = CompactionProcess()
    with pytest.raises(Corrupt, match=r"00000000000000000000\.log: at byte 0"):
        process(job(tmp_path, b"\0" * 100))
    asked = job(tmp_path, batch(0, b"value"))
    (tmp_path / "00000000000000000000.log").unlink()
    with pytest.raises(FileNotFoundError):
        process(asked)


def test_once_stopped_it_starts_none(tmp_path: Path) -> None:
    process = CompactionProcess()
    process.stop()
    with pytest.raises(CompactionStopped, match="is stopping"):
        process(job(tmp_path, batch(0, b"value")))


def test_what_it_was_doing_when_it_was_stopped_did_not_fail(tmp_path: Path) -> None:
    process = CompactionProcess()
    asked = job(tmp_path, *(batch(base, b"value") for base in range(2000)))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(process, asked)
        while process._process is None:
            assert not running.done()
        process.stop()
        with pytest.raises(CompactionStopped, match="is stopping"):
            running.result(LIMIT_S)


def test_one_that_stands_still_is_killed_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HUNG_S", 1.0)
    monkeypatch.setattr("groupkeeper.cleaner.process.LOOK_S", 0.05)
    process = CompactionProcess()
    asked = job(tmp_path, *(batch(base, b"value") for base in range(2000)))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(process, asked)
        while process._process is None:
            assert not running.done()
        stands = process._process
        stands.send_signal(signal.SIGSTOP)
        with pytest.raises(CompactionHung, match=rf"\(pid {stands.pid}\) made no progress for 1 s"):
            running.result(LIMIT_S)
    assert stands.returncode == -signal.SIGKILL
    monkeypatch.undo()
    assert process(asked).records_kept == 1


def test_one_that_starves_is_begun_anew_with_more_of_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    """As on a machine that is never idle: each process is held to have starved but the last."""
    begun: list[Priority] = []

    class Starving(Supervision):
        def is_starved(self, now: float) -> bool:
            return True

    class Noted(CompactionProcess):
        def _start(self, priority: Priority) -> "subprocess.Popen[bytes]":
            begun.append(priority)
            return super()._start(priority)

    monkeypatch.setattr("groupkeeper.cleaner.process.Supervision", Starving)
    monkeypatch.setattr("groupkeeper.cleaner.process.LOOK_S", 0.001)
    process = Noted()
    asked = job(tmp_path, batch(0, b"old"), batch(1, b"new"))
    assert process(asked).records_kept == 1
    assert begun == [Priority.IDLE, Priority.LOW, Priority.NORMAL]
    assert [line["priority"] for line in lines()] == ["low", "normal"]
    assert process(asked).records_kept == 1
    assert begun[3:] == [Priority.NORMAL], "the next one does not begin to starve again"


@pytest.mark.parametrize(("name", "nice"), [("low", LOWEST_PRIORITY), ("normal", 0)])
def test_a_higher_priority_is_what_it_is_called(name: str, nice: int) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    code = (
        f"import os; from groupkeeper.cleaner.__main__ import *; yield_to_the_server({name!r}); "
        "print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.getpriority(os.PRIO_PROCESS, 0))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", str(nice or before)]


def test_a_long_job_gives_signs_of_life(tmp_path: Path) -> None:
    code = "import groupkeeper.cleaner.__main__ as it; it.BEAT_S = 0.0; it.main()"
    asked = job(tmp_path, *(batch(base, b"value") for base in range(50)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=asked.to_json() + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    dots, _, answer = done.stdout.partition("{")
    assert dots == "." * 100, "each segment is read twice"
    assert answer.endswith("}\n")


def test_it_leaves_the_processor_to_the_server(waiting: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while os.sched_getscheduler(waiting.pid) != os.SCHED_IDLE:
        assert waiting.poll() is None
        assert time.monotonic() < deadline
    assert os.getpriority(os.PRIO_PROCESS, waiting.pid) == LOWEST_PRIORITY
    assert os.getsid(waiting.pid) == os.getsid(0)


def test_it_does_so_before_it_loads_anything_large() -> None:
    code = "import sys, groupkeeper.cleaner.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    large = {"json", "dataclasses", "crc32c", "groupkeeper.storage.compaction.compaction"}
    assert not large & {*loaded.stdout.split()}
