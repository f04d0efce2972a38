"""`python -m benchmarks.scrapes`: how large `/metrics` is with many groups, how long a scrape
takes, and what heartbeats notice of it.

Starts a server, writes records, commits offsets of many groups that are all behind, and compares
heartbeats at a steady rate without and with scrapes one after the other. Once with the default
limit of series, once with series for every group.
"""

import argparse
import asyncio
import os
import statistics
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaProducer

from benchmarks import cases, report, wire
from benchmarks.crowd import Link
from benchmarks.hotloop import Outcome
from benchmarks.loop_times import iterations, longer_than
from benchmarks.members import stable_groups
from benchmarks.processes import GENERATOR_CORE, cpu_seconds, on_core, resident_mib
from benchmarks.targets import Server, create_topic, first_join

CONNECTIONS = 50
BEATS_PER_S = 2_000.0
RECORDS = 1_000
"""In each partition; groups have read some of them."""
EVERY_S = 2.0
"""Between the beginnings of two scrapes: a page is kept for a second after it was made."""
MOST_SERIES = 2**31 - 1


@dataclass(slots=True)
class Scrapes:
    """What Prometheus saw."""

    seconds: list[float] = field(default_factory=list)
    samples: int = 0
    size: int = 0


async def produce(port: int, partitions: int) -> None:
    """Records, in batches of ten."""
    producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
    await producer.start()
    try:
        for _ in range(RECORDS // 10):
            for partition in range(partitions):
                batch = producer.create_batch()
                for _ in range(10):
                    batch.append(key=None, value=bytes(50), timestamp=None)
                await producer.send_batch(batch, wire.TOPIC.decode(), partition=partition)
        await producer.flush()
    finally:
        await producer.stop()


def commit(port: int, groups: int, partitions: int) -> None:
    """An offset of each group in each partition, most of them different."""
    with closing(Link(port)) as link:
        for number in range(groups):
            request = wire.offset_commit(b"orders-%05d" % number, -1, b"", partitions)
            body, rows = bytearray(request.body), len(request.body) - 2
            for row in range(partitions):
                at = rows - (row + 1) * wire.COMMITTED_BYTES + wire.OFFSET_AT
                struct.pack_into(">q", body, at, (number * 7 + row * 131) % RECORDS)
            link.call(request._replace(body=bytes(body)))


def scraped_meanwhile(server: Server, work: threading.Thread) -> Scrapes:
    """Scrape, one after the other, until some work is done."""
    found = Scrapes()
    work.start()
    while work.is_alive():
        began = time.monotonic()
        text = server.metrics()
        found.seconds.append(time.monotonic() - began)
        found.size = len(text)
        found.samples = sum(not line.startswith("#") for line in text.splitlines())
        time.sleep(max(0.0, EVERY_S - found.seconds[-1]))
    return found


def measure(server: Server, options: argparse.Namespace) -> None:
    groups = stable_groups(server.port, CONNECTIONS, 10)
    beats = cases.beating([member for group in groups for member in group.members])
    server.metrics()  # imports what a first scrape needs
    quiet = beats.run(options.seconds, rate=BEATS_PER_S)
    before = iterations(server.metrics())
    used, rss = cpu_seconds(server.pid), resident_mib(server.pid)
    loud: list[Outcome] = []
    work = threading.Thread(
        target=lambda: loud.append(beats.run(options.seconds, rate=BEATS_PER_S))
    )
    found = scraped_meanwhile(server, work)
    used = cpu_seconds(server.pid) - used
    after = iterations(server.metrics())
    bounds = 0.005, 0.01, 0.02, 0.05
    longer = {bound: longer_than(bound, after) - longer_than(bound, before) for bound in bounds}
    print(
        f"  {found.samples} samples, {found.size / 1e6:.1f} MB; {len(found.seconds)} scrapes, "
        f"median {statistics.median(found.seconds):.2f} s, slowest {max(found.seconds):.2f} s; "
        f"{used / options.seconds:.2f} cores; {rss:.0f} -> {resident_mib(server.pid):.0f} MiB"
    )
    for name, outcome in (("without", quiet), ("with scrapes", loud[0])):
        p50, p99, p999 = (outcome.quantile_us(share) / 1000 for share in (0.5, 0.99, 0.999))
        print(f"  heartbeats {name:12}: p50 {p50:.2f} ms, p99 {p99:.2f}, p99.9 {p999:.2f}")
    told = ", ".join(f"over {bound * 1000:.0f} ms: {count}" for bound, count in longer.items())
    print(f"  iterations of the loop meanwhile, {told}", flush=True)
    with closing(Link(server.port)) as link:
        for group in groups:
            group.leave(link)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrapes", description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000, help="with offsets (10000)")
    parser.add_argument("--partitions", type=int, default=6, help="of each group (6)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of one measurement (20)")
    parser.add_argument("--data-dir", type=Path, help="where the data is (temporary files)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    with ExitStack() as stack:
        named = tempfile.TemporaryDirectory(prefix="groupkeeper-scrapes-", dir=options.data_dir)
        base = Path(stack.enter_context(named))
        stack.enter_context(on_core(GENERATOR_CORE))
        print(f"disk: {report.disk(base)}, load average {os.getloadavg()[0]:.1f}", flush=True)
        server = Server("groupkeeper", base)
        try:
            server.wait(first_join)
            create_topic(server)
            asyncio.run(produce(server.port, options.partitions))
            commit(server.port, options.groups, options.partitions)
            print(f"{options.groups} groups x {options.partitions} partitions")
            print("default metrics.max.series:")
            measure(server, options)
        finally:
            server.stop()
        server = Server("groupkeeper", base, server, {"metrics.max.series": str(MOST_SERIES)})
        try:
            server.wait(first_join)
            print(f"metrics.max.series = {MOST_SERIES}:")
            measure(server, options)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
