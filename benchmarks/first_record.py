"""How long a test waits for a broker: from its start to the first record that a consumer gets.

    python -m benchmarks.first_record            # a table; some five minutes with the JVM
    python -m benchmarks.first_record --rounds 1 --targets fixture,process

One run on one machine, target after target within each round. Every target is started from nothing
in the same way: start it, wait until its port accepts, produce a record to a new topic, consume it
as a member of a new group. Producer and consumer are aiokafka, in this process, the same for all.
A target that cannot be had is left out, with the reason. Then 100 tests of pytest run with a fresh
broker each.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from benchmarks import kafka, targets
from groupkeeper.testing import Broker

ROUNDS: Final = 5
TESTS: Final = 100
_READY_S: Final = 90.0
_PAUSE_S: Final = 0.002

_TEST = """
import pytest
from aiokafka import AIOKafkaConsumer
from groupkeeper.testing import Broker

@pytest.fixture
def broker():
    with Broker(topics={"orders": 1}) as broker:
        yield broker

@pytest.mark.parametrize("number", range(%d))
async def test_a_record_is_consumed(broker, number):
    broker.produce("orders", str(number))
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers,
                                group_id="billing", auto_offset_reset="earliest")
    async with consumer:
        record = await consumer.getone()
        assert record.value == str(number).encode()
        await consumer.commit()
    assert broker.committed("billing") == {("orders", 0): 1}
"""

# -- targets ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _fixture(_folder: Path) -> Iterator[str]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _running(command: list[str], port: int, folder: Path) -> Iterator[str]:
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=targets.ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _process(folder: Path) -> contextlib.AbstractContextManager[str]:
    port = targets.free_port()
    serve = ["serve", "--dev", "--memory", "--http", "off", "--listen", f"127.0.0.1:{port}"]
    return _running([sys.executable, "-m", "groupkeeper", *serve], port, folder)


def _kfake(folder: Path) -> contextlib.AbstractContextManager[str]:
    kcl = os.environ.get("KCL") or shutil.which("kcl")
    if kcl is None:
        raise targets.UnavailableError(
            "no kcl on the path, and KCL names none: `go install github.com/twmb/kcl@latest`"
        )
    port = targets.free_port()
    command = [kcl, "fake", "--ports", str(port), "--seed-topic", "orders:1"]
    return _running(command, port, folder)


@contextlib.contextmanager
def _kafka(folder: Path) -> Iterator[str]:
    """Its directory is formatted before, which is not counted."""
    port = targets.free_port()
    try:
        kafka.format_storage(port, folder)
    except kafka.NoKafkaError as error:
        raise targets.UnavailableError(str(error)) from None
    command = kafka.command(port, folder, {})
    _clock.start()
    with _running(command, port, folder) as servers:
        yield servers


Start = Callable[[Path], contextlib.AbstractContextManager[str]]
TARGETS: Final[dict[str, tuple[str, Start]]] = {
    "fixture": ("`groupkeeper.testing.Broker`, in this process", _fixture),
    "process": ("`groupkeeper serve --dev --memory`", _process),
    "kfake": ("`kcl fake`", _kfake),
    "kafka": (f"Apache Kafka {kafka.VERSION}, JVM", _kafka),
}


class _Clock:
    """When the present target was started."""

    def __init__(self) -> None:
        self.started = 0.0

    def start(self) -> None:
        self.started = time.monotonic()

    def ms(self) -> float:
        return (time.monotonic() - self.started) * 1000


_clock = _Clock()


# -- one target, once ------------------------------------------------------------------------------


async def _accepts(servers: str) -> None:
    host, _, port = servers.partition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            if _clock.ms() > _READY_S * 1000:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            writer.close()
            return


async def _first_record(servers: str) -> tuple[float, float]:
    """Milliseconds from the start until the port accepts, and until a record is consumed."""
    await _accepts(servers)
    accepts = _clock.ms()
    while True:
        try:
            async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait("orders", b"first")
            break
        except KafkaError:  # it accepts before it can answer
            if _clock.ms() > _READY_S * 1000:
                raise
            await asyncio.sleep(_PAUSE_S)
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        record = await asyncio.wait_for(consumer.getone(), _READY_S)
        consumed = _clock.ms()
    finally:
        await consumer.stop()
    if record.value != b"first":
        raise RuntimeError(f"another record was consumed: {record}")
    return accepts, consumed


def measure(start: Start) -> tuple[float, float]:
    """See `_first_record`. Raises UnavailableError."""
    with tempfile.TemporaryDirectory() as folder:
        _clock.start()
        with start(Path(folder)) as servers:
            return asyncio.run(_first_record(servers))


# -- 100 tests -------------------------------------------------------------------------------------


def hundred_tests() -> tuple[float, str]:
    """Seconds that pytest takes for them, start of the interpreter included, and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "test_fresh.py"
        module.write_text(_TEST % TESTS, encoding="utf-8")
        options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--rootdir", folder]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(module)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(targets.ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return took, done.stdout.strip().splitlines()[-1]


# -- all -------------------------------------------------------------------------------------------


def table(measured: dict[str, list[tuple[float, float]]]) -> str:
    """Medians, with the quickest and the slowest round."""
    lines = ["| broker | port accepts | first record consumed | rounds |", "|---|--:|--:|--:|"]
    for name, rounds in measured.items():
        accepts = statistics.median(each for each, _ in rounds)
        consumed = sorted(each for _, each in rounds)
        middle = (
            f"{statistics.median(consumed):,.0f} ms ({consumed[0]:,.0f} to {consumed[-1]:,.0f})"
        )
        lines.append(f"| {TARGETS[name][0]} | {accepts:,.0f} ms | {middle} | {len(rounds)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_record")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--targets", default=",".join(TARGETS), help="some of %(default)s")
    chosen = parser.parse_args(arguments)
    names = chosen.targets.split(",")
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    measured: dict[str, list[tuple[float, float]]] = {}
    for number in range(chosen.rounds + 1):
        for name in list(names):
            try:
                found = measure(TARGETS[name][1])
            except targets.UnavailableError as error:
                print(f"without {TARGETS[name][0]}: {error}", flush=True)
                names.remove(name)
                continue
            if number:  # the first round reads programs from the disk, and imports
                measured.setdefault(name, []).append(found)
    print(table(measured))
    took, last = hundred_tests()
    print(f"\n{TESTS} tests with a fresh broker each: {took:.1f} s, as pytest says: {last}")
    return 0


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # of brokers that are not ready yet
    sys.exit(main())
