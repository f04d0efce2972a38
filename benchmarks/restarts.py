"""`python -m benchmarks.restarts`: how long a start takes after a clean stop, and after kill -9.

A process of its own commits records to a few partitions of `__consumer_offsets`, in rounds as the
server does, and ends in order or by kill -9. Then a server starts on a copy of what it left, until
every partition is active.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.loading import ROOT, get, groups_in, not_active, serve
from benchmarks.processes import cpu_seconds
from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.store import Store

OFFSETS = 50
"""Of each group so many are committed, over and over."""
AT_ONCE = 25
"""Batches of each partition in a round."""
POLL_S = 0.005
ENDS = {"stop": "after a clean stop", "kill": "after kill -9"}


def fill(folder: Path, options: argparse.Namespace) -> None:
    """Commit the records as a server does, and end as `options.fill` says."""
    beside = ThreadPoolExecutor(1)
    store = Store(Files(), str(folder), 0)
    store.write_back_on(beside.submit)
    partitions = range(options.partitions)
    epochs = [store.claim(number) for number in partitions]
    logs = [store.open_log(f"__consumer_offsets-{number}") for number in partitions]
    keys = []
    for number in partitions:
        groups = groups_in(number, options.partitions, options.groups)
        heads = [offset_key_head(group, "topic") for group in groups]
        keys.append([offset_key(head, each) for each in range(OFFSETS) for head in heads])
    wall = time.time_ns() // 1_000_000
    at = 0
    while at < options.records // options.partitions:
        appends = []
        for _ in range(AT_ONCE):
            for log, epoch, mine in zip(logs, epochs, keys, strict=True):
                records = [
                    (mine[n % len(mine)], offset_value(n, -1, "", wall, -1))
                    for n in range(at, at + options.batch)
                ]
                appends.append(Append(log, epoch, wall, records))
            at += options.batch
        assert not any(store.commit(appends))
    if options.fill == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    store.write_back_on(None)
    beside.shutdown()
    store.close()


def start(folder: Path, options: argparse.Namespace) -> tuple[float, float, int]:
    """Seconds until every partition is active, CPU seconds until then, and records replayed."""
    began = time.monotonic()
    process, _, http = serve(folder, options.partitions)
    try:
        while not_active(http):
            time.sleep(POLL_S)
        took, cpu = time.monotonic() - began, cpu_seconds(process.pid)
        lines = get(http, "/metrics")[1].splitlines()
        [records] = [line for line in lines if line.startswith("groupkeeper_replayed_records")]
        return took, cpu, int(float(records.rpartition(" ")[2]))
    finally:
        process.kill()
        process.wait()


def run(folder: Path, options: argparse.Namespace) -> None:
    figures: dict[str, list[tuple[float, float]]] = {end: [] for end in ENDS}
    for end in ENDS:
        process, _, _ = serve(folder / end, options.partitions)  # makes the directory
        process.terminate()
        process.wait(60)
        command = [sys.executable, "-m", "benchmarks.restarts", *sys.argv[1:], "--fill", end]
        subprocess.run([*command, "--folder", str(folder / end)], cwd=ROOT, check=end == "stop")
    for number in range(options.rounds):
        for end in ENDS:
            copy = shutil.copytree(folder / end, folder / f"{end}-{number}")
            took, cpu, records = start(copy, options)
            shutil.rmtree(copy)
            print(f"{end}: {took:.2f} s, CPU {cpu:.2f} s, {records} records", flush=True)
            figures[end].append((took, cpu))
    for end, words in ENDS.items():
        took, cpu = (median(each) for each in zip(*figures[end], strict=True))
        print(f"{words}: {took:.2f} s, CPU {cpu:.2f} s (median of {options.rounds})")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restarts", description=__doc__)
    parser.add_argument("--partitions", type=int, default=4, help="so many (4)")
    parser.add_argument("--records", type=int, default=1_000_000, help="in all (1000000)")
    parser.add_argument("--batch", type=int, default=1, help="records in a batch (1)")
    parser.add_argument("--groups", type=int, default=100, help="in each partition (100)")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each kind (3)")
    parser.add_argument("--fill", choices=[*ENDS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.folder, options)
        return 0
    with tempfile.TemporaryDirectory(prefix="groupkeeper-restarts-") as temporary:
        run(Path(temporary), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
