"""`python -m benchmarks.loading`: what a start with full partitions does to one that is active.

Makes a data directory whose partitions have many records, starts a server on it, and beats and
commits in groups of a partition without records, which is active at once, until all are.
"""

import argparse
import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks import wire
from benchmarks.crowd import Link
from benchmarks.processes import cpu_seconds
from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log

ROOT = Path(__file__).parent.parent
PAUSE_S = 0.01
"""Between an answer and the next request."""
IDLE_S = 3.0
"""So long the same is asked after all is loaded, to see what the machine adds to the figures."""
OFFSETS = 50
"""Of each group so many are committed, over and over."""
_ANSWER_AT = 8
"""Where an answer begins, behind its size and its correlation id."""


def groups_in(partition: int, partitions: int, count: int) -> list[str]:
    """So many group ids that live in a partition."""
    names = (name for n in range(1 << 30) if partition_of(name := f"g{n}", partitions) == partition)
    return list(itertools.islice(names, count))


def fill(folder: Path, partition: int, options: argparse.Namespace) -> None:
    """A partition's log, closed as a clean stop does."""
    groups = groups_in(partition, options.partitions + 1, options.groups)
    heads = [offset_key_head(group, "topic") for group in groups]
    keys = [offset_key(head, number) for number in range(OFFSETS) for head in heads]
    log = open_log(Files(), str(folder / f"__consumer_offsets-{partition}"), Limits())
    wall = time.time_ns() // 1_000_000
    for first in range(0, options.records, 1000):
        batches = []
        for base in range(first, min(first + 1000, options.records), options.batch):
            records = [
                (keys[n % len(keys)], offset_value(n, -1, "", wall, -1))
                for n in range(base, base + options.batch)
            ]
            batches.append(encode_batch(base, 1, wall, records))
        log.append(b"".join(batches))
    log.close()


class Canary:
    """Asks one thing again and again, and notes how long each answer took."""

    def __init__(self, link: Link, request: wire.Request, expected: bytes) -> None:
        self._link = link
        self._request = request
        self._expected = expected[_ANSWER_AT:]
        self.seconds: list[float] = []
        self.wrong = 0
        self.stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self.stopped:
            began = time.perf_counter()
            answer = self._link.call(self._request)
            self.seconds.append(time.perf_counter() - began)
            self.wrong += answer != self._expected
            time.sleep(PAUSE_S)

    def stop(self) -> None:
        self.stopped = True
        self._thread.join()


def member_of(link: Link, group: bytes) -> tuple[bytes, int, bytes, None]:
    """Join a group alone: group, generation and member id."""
    wire.offered(link.call(wire.api_versions()))
    answer = wire.joined(link.call(wire.join_group(group, b"", None)))
    if answer.member and answer.error == wire.MEMBER_ID_REQUIRED:
        answer = wire.joined(link.call(wire.join_group(group, answer.member, None)))
    if answer.error:
        raise wire.WrongAnswerError(f"JoinGroup: error {answer.error}")
    who = (group, answer.generation, answer.member, None)
    link.call(wire.sync_group(who, [(answer.member, b"plan")]))
    return who


def get(http: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{http}{path}", timeout=30) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def iterations(http: str) -> list[tuple[str, int]]:
    """How many iterations of the loop there were, by upper bound in seconds; empty ones left
    out.
    """
    name = "groupkeeper_loop_iteration_seconds_bucket"
    found, before = [], 0
    for line in get(http, "/metrics")[1].splitlines():
        if line.startswith(name):
            count = int(float(line.rpartition(" ")[2]))
            bound = line.partition('le="')[2].partition('"')[0]
            if count > before:
                found.append((bound, count - before))
            before = count
    return found


def not_active(http: str) -> int:
    """How many partitions are not active yet."""
    return len(json.loads(get(http, "/readyz")[1])["not_active"])


def serve(folder: Path, partitions: int) -> tuple["subprocess.Popen[str]", int, str]:
    """A server that has begun to load: its process, its port, and the address of its pages."""
    command = [sys.executable, "-m", "groupkeeper", "serve", "--listen", "127.0.0.1:0"]
    command += ["--http", "127.0.0.1:0", "--data-dir", str(folder)]
    for setting in (
        "group.initial.rebalance.delay.ms=0",
        f"offsets.topic.num.partitions={partitions}",
    ):
        command += ["--set", setting]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = dict(word.partition("=")[::2] for word in process.stdout.readline().split())
    return process, int(said["kafka"].rpartition(":")[2]), said["http"]


def run(folder: Path, options: argparse.Namespace) -> None:
    process, port, http = serve(folder, options.partitions + 1)
    began = time.monotonic()
    try:
        with contextlib.closing(Link(port)) as one, contextlib.closing(Link(port)) as two:
            two.call(wire.create_topic(wire.TOPIC, 1))
            groups = groups_in(options.partitions, options.partitions + 1, 2)
            beater, committer = (
                member_of(one, groups[0].encode()),
                member_of(two, groups[1].encode()),
            )
            served = time.monotonic() - began
            group, generation, member, _ = committer
            beats = Canary(one, wire.heartbeat(*beater), wire.heartbeat_answer())
            commit = wire.offset_commit(group, generation, member, 1)
            commits = Canary(two, commit, wire.offset_commit_answer(1))
            first = loading = None
            while loading != 0:
                time.sleep(0.25)
                loading = not_active(http)
                if first is None and loading < options.partitions:
                    first = time.monotonic() - began
            took, cpu = time.monotonic() - began, cpu_seconds(process.pid)
            loaded = len(beats.seconds), len(commits.seconds)
            at_that_time = iterations(http)
            time.sleep(IDLE_S)
            beats.stop()
            commits.stop()
        print(f"both groups stable after {served:.2f} s, the first partition with records active ")
        print(f"after {first:.1f} s, all after {took:.1f} s, CPU {cpu:.2f} s")
        for name, canary, end in (("heartbeat", beats, loaded[0]), ("commit", commits, loaded[1])):
            print(f"{name}: {figures(canary.seconds[:end])}, {canary.wrong} wrong")
            print(f"  and then, with nothing to load: {figures(canary.seconds[end:])}")
        print("iterations:", ", ".join(f"{count} <= {at} s" for at, count in at_that_time))
    finally:
        process.terminate()
        process.wait(60)


def figures(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    at = {part: ordered[min(int(len(ordered) * part), len(ordered) - 1)] for part in (0.5, 0.99)}
    return (
        f"{len(ordered)} answers, median {at[0.5] * 1000:.2f} ms, p99 {at[0.99] * 1000:.1f} ms, "
        f"longest {ordered[-1] * 1000:.1f} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("--partitions", type=int, default=50, help="with records (50)")
    parser.add_argument("--records", type=int, default=20_000, help="in each (20000)")
    parser.add_argument("--batch", type=int, default=1, help="records in a batch (1)")
    parser.add_argument("--groups", type=int, default=20, help="in each (20)")
    parser.add_argument("--rounds", type=int, default=1, help="starts (1)")
    parser.add_argument("--made", type=Path, help="where the logs are made and kept (nowhere)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupkeeper-loading-") as temporary:
        folder = options.made or Path(temporary) / "made"
        for partition in range(options.partitions):
            if not (folder / f"__consumer_offsets-{partition}").exists():
                fill(folder, partition, options)
        for number in range(options.rounds):
            run(shutil.copytree(folder, Path(temporary) / str(number)), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
