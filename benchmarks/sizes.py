"""`python -m benchmarks.sizes`: what is on the disk, and how long starts take.

Prints the tables of "Sizes" in docs/storage.md. Everything is measured on files: those of a server
after commits and rebalances; those of one partition that gets its share of a day's commits, with
the times of that day; those that starts read.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random

from benchmarks import backlog, cases, report
from benchmarks.crowd import Crowd, Link, dial
from benchmarks.members import Group, form, stable_groups
from benchmarks.processes import GENERATOR_CORE, on_core
from benchmarks.targets import Server, create_topic, running
from groupkeeper.cleaner.plan import candidate
from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.settings.table import Settings
from groupkeeper.storage.compaction.compaction import CompactionJob, compact
from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.topics.effective_configs import EffectiveConfigs

SECTOR = 512
"""Rounds of a journal begin at one."""
REST_S = 0.5
"""After it all that was acknowledged is in the segments."""
LOGS = 50
"""Over which groups are spread, by default."""
DAY_S = 86_400
KEYS = 20_000
"""Offsets that are committed again and again, of all partitions together."""
SMALL_SEGMENT = 10 << 20
AT_ONCE = 1 << 16
"""Bytes that are appended to the log of a day at a time."""
MIB, GIB = 2**20, 2**30

Row = list[str]


def table(heads: Row, rows: Iterable[Row]) -> None:
    lines = [heads, ["---"] * len(heads), *rows]
    print("\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines), flush=True)


# ------------------------------------------------------------ requests


@dataclass(slots=True, frozen=True)
class Used:
    """Bytes of a data directory."""

    log: int
    events: int
    """Those of the requests; a member's commits make one more event a minute."""
    journal: int

    @classmethod
    def of(cls, server: Server) -> "Used":
        time.sleep(REST_S)
        data = server.folder / "data"
        log, events = (
            sum(file.stat().st_size for file in data.glob(f"{topic}-*/*.log"))
            for topic in ("__consumer_offsets", "__group_events")
        )
        # What follows the last round are zeros, written ahead of the next ones.
        ends = (len(file.read_bytes().rstrip(b"\0")) for file in (data / "journals").iterdir())
        return cls(log, events, sum(-(-end // SECTOR) * SECTOR for end in ends))


def requests(base: Path, commits: int, rebalances: int) -> Iterator[Row]:
    with running("groupkeeper", base) as server:
        create_topic(server)
        for connections, how in ((1, "alone"), (50, "50 at a time")):
            for partitions in (1, 20):
                groups = stable_groups(server.port, connections, 1)
                loop = cases.committing([group.members[0] for group in groups], partitions)
                made = _cost(server, lambda loop=loop: loop.run(600, limit=commits).answered)
                yield [f"a commit of {partitions}, {how}", *made]
                _leave(server, groups)
        for size in (3, 50):
            group = Group.of(dial(server.port, size))
            form([group])
            made = _cost(server, lambda group=group: _rebalanced(group, rebalances))
            yield [f"a rebalance of {size} members", *made]
            _leave(server, [group])


def _cost(server: Server, act: Callable[[], int]) -> Row:
    """Bytes for each of what an act does."""
    before = Used.of(server)
    number = act()
    after = Used.of(server)
    pairs = zip(astuple(before), astuple(after), strict=True)
    return [f"{(now - then) / number:,.0f}" for then, now in pairs]


def _rebalanced(group: Group, times: int) -> int:
    generations = 0
    for _ in range(times):
        Crowd().run(group.rebalance())
        generations += group.generations
    return generations


def _leave(server: Server, groups: list[Group]) -> None:
    with closing(Link(server.port)) as link:
        for group in groups:
            group.leave(link)
            group.close()


# ------------------------------------------------------------ a day


class Day:
    """The log of one partition over a day, with the times of that day, compacted as a server does.

    Each commit is a batch, as it is at rates at which they do not share rounds.
    """

    def __init__(
        self, folder: Path, per_s: float, partitions: int, now_ms: int, settings: Settings
    ) -> None:
        """`per_s`: commits in this log. `partitions`: of each commit. The day ends at `now_ms`."""
        self._settings = settings
        self._policy = EffectiveConfigs(self._settings).group_topic_policy
        folder.mkdir()
        name = f"{folder}/__consumer_offsets-0"
        self._log: Log = open_log(Files(), name, self._policy.limits)
        self._apart_ms = 1000 / per_s
        self._partitions = partitions
        self._now_ms = now_ms - DAY_S * 1000
        self.written = 0
        """Bytes: what there would be without compaction."""
        self.most = 0
        """The most that there ever was, between a compaction and the removal of what it read."""
        self.compactions = 0

    def run(self) -> int:
        """Bytes in the end."""
        data: list[bytes] = []
        finished = size = 0
        for batch in self._commits():
            data.append(batch)
            size += len(batch)
            if size >= AT_ONCE:
                self._append(data, size)
                data, size = [], 0
                if len(self._log.finished) != finished:
                    self._compact()
                    finished = len(self._log.finished)
        self._append(data, size)
        self._log.close()
        return _bytes(self._log.folder)

    def _append(self, data: list[bytes], size: int) -> None:
        self._log.append(b"".join(data))
        self.written += size

    def _commits(self) -> Iterator[bytes]:
        chance = Random(self._partitions)  # noqa: S311  # the same in every run
        groups = max(1, KEYS // LOGS // self._partitions)
        heads = [offset_key_head(f"group-{number}", "topic") for number in range(groups)]
        keys = [[offset_key(head, n) for n in range(self._partitions)] for head in heads]
        number = int(DAY_S * 1000 / self._apart_ms)
        for at in range(number):
            now_ms = self._now_ms + int(at * self._apart_ms)
            value = offset_value(at, -1, "", now_ms, -1)
            records = [(key, value) for key in chance.choice(keys)]
            yield encode_batch(at * self._partitions, 1, now_ms, records)

    def _compact(self) -> None:
        log = self._log
        found = candidate(log, self._policy, self._now_ms)
        if found is None:
            return
        self.compactions += 1
        job = CompactionJob(
            log.folder,
            "day",
            tuple(found.sources),
            log.first_dirty,
            self._now_ms,
            self._policy.delete_retention_ms,
            self._settings.producer_id_expiration_ms,
            self._settings.log_cleaner_dedupe_buffer_size,
            log.limits,
        )
        compacted = compact(Files(), job)
        self.most = max(self.most, _bytes(log.folder))
        swap = Swap(log, compacted)
        swap.prepare("day")
        swap.switch()
        swap.finish()


def _bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).iterdir())


def days(base: Path, rates: list[float]) -> Iterator[Row]:
    shapes = [(rate, partitions, Settings()) for rate in rates for partitions in (1, 20)]
    shapes.pop()  # the largest: it would take an hour
    shapes.append((rates[-1], 1, Settings(offsets_topic_segment_bytes=SMALL_SEGMENT)))
    for per_s, partitions, settings in shapes:
        folder = base / "day"
        day = Day(folder, per_s / LOGS, partitions, int(time.time() * 1000), settings)
        left = day.run()
        shutil.rmtree(folder)
        yield [
            f"{per_s:,.0f}/s of {partitions}",
            _size(settings.offsets_topic_segment_bytes),
            *map(_size, (day.written * LOGS, left * LOGS, max(day.most, left) * LOGS)),
            f"{day.compactions}",
        ]


def _size(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.1f} MiB"


# ------------------------------------------------------------ starts


def starts(base: Path, records: int, rounds: int) -> Iterator[Row]:
    empty = [cases.ready("groupkeeper", base)["ready_ms"] for _ in range(rounds)]
    yield ["nothing", "0", _ms(empty), "-"]
    for batch in (1, 20):
        folder = base / "backlog"
        written = backlog.write(folder, records, batch)
        server = backlog.prepare("groupkeeper", base, written)
        name = f"{written.records:,} records in batches of {batch}"
        yield [name, *_started(server, written, rounds)]
        server = backlog.compact(server, written)
        yield [f"{name}, compacted", *_started(server, written, rounds)]
        shutil.rmtree(folder)


def _started(server: Server, written: backlog.Backlog, rounds: int) -> Row:
    """After a clean stop, and after a kill."""
    size = f"{backlog.log_mib(server):.0f} MiB"
    cells = [size]
    for kill in (False, True):
        server = backlog.start(server, written, kill=kill)[1]  # so the next one follows such an end
        times = []
        for _ in range(rounds):
            figures, server = backlog.start(server, written, kill=kill)
            times.append(figures["answers_ms"])
        cells.append(_ms(times))
    return cells


def _ms(times: list[float]) -> str:
    return f"{statistics.median(times) / 1000:.2f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--only", choices=("requests", "days", "starts"), help="one table")
    parser.add_argument("--commits", type=int, default=5_000, help="of each kind (5000)")
    parser.add_argument("--rebalances", type=int, default=50, help="of each size (50)")
    parser.add_argument("--rates", default="1,100,5000", help="commits a second (1,100,5000)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of a start (1000000)")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each kind (3)")
    parser.add_argument("--data-dir", type=Path, help="where the data is (temporary files)")
    options = parser.parse_args()
    with ExitStack() as stack:
        named = tempfile.TemporaryDirectory(prefix="groupkeeper-sizes-", dir=options.data_dir)
        base = Path(stack.enter_context(named))
        stack.enter_context(on_core(GENERATOR_CORE))
        print(f"disk: {report.disk(base)}, load average {os.getloadavg()[0]:.1f}")
        if options.only in {None, "requests"}:
            heads = ["bytes for", "log", "events", "journal"]
            table(heads, requests(base, options.commits, options.rebalances))
        if options.only in {None, "days"}:
            rates = [float(rate) for rate in options.rates.split(",")]
            heads = ["commits", "segments", "not compacted", "compacted", "at most", "compactions"]
            table(heads, days(base, rates))
        if options.only in {None, "starts"}:
            heads = ["a start reads", "segments", "after a clean stop", "after kill -9"]
            table(heads, starts(base, options.records, options.rounds))
        print(f"\nload average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
