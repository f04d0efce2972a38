"""A start from a long `__consumer_offsets`, written beforehand: the same files for every target.

All partitions but the last hold offset commits of a few groups, in batches of a given size, the
last one holds nothing. While a server loads, a member of a group in the last partition beats and
commits, and in between all offsets are read back as they become readable.
"""

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from urllib.request import urlopen

from benchmarks import wire
from benchmarks.cases import LostCommitError
from benchmarks.crowd import Link
from benchmarks.members import Group, Member, form
from benchmarks.processes import cpu_seconds
from benchmarks.targets import Home, Server, create_topic, first_join, new_home
from groupkeeper.coordinator.placement import partition_of
from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.protocol.record_batch import encode_batch

PARTITIONS = 51
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS)}
GROUPS = 5
"""In each partition that has any."""
OFFSETS = 20
"""Partitions that each group has committed, over and over."""
READ_AT_ONCE = 10
_PAUSE_S = 0.002
_LOG = "00000000000000000000.log"
_HTTP = re.compile(r"http=(\S+)")
_BUCKET = re.compile(r'groupkeeper_loop_iteration_seconds_bucket\{le="([^"]+)"\} (\S+)')


@dataclass(frozen=True, slots=True)
class Backlog:
    """Segments by partition, and the newest offset of every group."""

    files: dict[int, Path]
    expected: dict[bytes, int]
    records: int


def groups_of(partition: int) -> Iterator[str]:
    """Ids of groups that live in it."""
    names = (f"backlog-{number}" for number in count())
    return (name for name in names if partition_of(name, PARTITIONS) == partition)


def write(folder: Path, records: int, batch: int) -> Backlog:
    """So many records in all, a few more to fill the last batches, `batch` in each."""
    folder.mkdir(parents=True)
    now = int(time.time() * 1000)
    each = -(-records // (PARTITIONS - 1))
    files: dict[int, Path] = {}
    expected: dict[bytes, int] = {}
    for partition in range(PARTITIONS - 1):
        names = list(islice(groups_of(partition), GROUPS))
        heads = [offset_key_head(name, wire.TOPIC.decode()) for name in names]
        keys = [offset_key(head, number) for head in heads for number in range(OFFSETS)]
        rounds = -(-each // len(keys))
        entries = (
            (key, offset_value(offset, -1, "", now, -1))
            for offset in range(1, rounds + 1)
            for key in keys
        )
        files[partition] = folder / str(partition)
        with files[partition].open("wb") as file:
            at = 0
            while records_of_batch := list(islice(entries, batch)):
                file.write(encode_batch(at, 0, now, records_of_batch))
                at += len(records_of_batch)
        expected |= {name.encode(): rounds for name in names}
    return Backlog(files, expected, len(files) * rounds * len(keys))


def start(name: str, base: Path, backlog: Backlog) -> dict[str, float]:
    """Figures of one start from it. Raises LostCommitError when an offset is not there."""
    server = _with_backlog(name, base, backlog)
    try:
        member = _joined(server)
        first = (time.monotonic() - server.started) * 1000
        beats, commits = _watched(server, member, backlog)
        took = (time.monotonic() - server.started) * 1000
        cpu = cpu_seconds(server.pid)
        figures = {
            "replay_ms": took,
            "cpu_s": cpu,
            "first_ms": first,
            "beat_p99_ms": _p99(beats),
            "beat_worst_ms": max(beats),
            "commit_p99_ms": _p99(commits),
            "commit_worst_ms": max(commits),
            "records": float(backlog.records),
        }
        iteration = _worst_iteration(server)
        return figures | ({} if iteration is None else {"iteration_ms": iteration})
    finally:
        server.stop(kill=True)


def _with_backlog(name: str, base: Path, backlog: Backlog) -> Server:
    """A server that starts from it, after a clean stop."""
    home: Home | Server = new_home(name, base)
    if name == "kafka":
        # Its broker serves only partitions that its metadata know.
        home = _stopped(Server(name, base, home, SETTINGS))
    _put(backlog, home.folder / ("log" if name == "kafka" else "data"))
    # Once unmeasured: whatever files a server keeps beside a log are then there.
    return Server(name, base, _stopped(Server(name, base, home, SETTINGS)), SETTINGS)


def _stopped(server: Server) -> Server:
    """In order, after it has served somebody."""
    try:
        server.wait(first_join)
        create_topic(server)
    finally:
        server.stop()
    return server


def _put(backlog: Backlog, data: Path) -> None:
    for partition, file in backlog.files.items():
        folder = data / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*"):
            if old.name != "partition.metadata":
                old.unlink()
        shutil.copyfile(file, folder / _LOG)


def _joined(server: Server) -> Member:
    """The member in the partition that holds nothing, once it has committed."""
    made: list[Group] = []

    def join(server: Server) -> None:
        group = Group(next(groups_of(PARTITIONS - 1)).encode())
        group.members.append(Member(group, Link(server.port), None))
        with contextlib.closing(Link(server.port)) as link:
            if error := wire.found(link.call(wire.find_coordinator(group.name))):
                raise wire.WrongAnswerError(f"FindCoordinator: error {error}")
        form([group])
        _committed(group.members[0])
        made.append(group)

    server.wait(join)
    return made[0].members[0]


def _watched(server: Server, member: Member, backlog: Backlog) -> tuple[list[float], list[float]]:
    """Milliseconds of every beat and commit until everything has been read back."""
    beat = member.heartbeat()
    beats: list[float] = []
    commits: list[float] = []
    pending = dict(backlog.expected)
    with contextlib.closing(Link(server.port)) as link:
        while pending:
            beats.append(_milliseconds(member.link, beat)[0])
            commits.append(_committed(member))
            for group in list(islice(pending, READ_AT_ONCE)):
                error, offsets = wire.fetched(link.call(wire.offset_fetch(group, OFFSETS)))
                offset = pending.pop(group)
                if error in wire.NOT_YET:
                    pending[group] = offset  # behind the others
                    time.sleep(_PAUSE_S)
                    break
                if error or offsets != dict.fromkeys(range(OFFSETS), offset):
                    raise LostCommitError(f"{server.name}, {group!r}: {error}, {offsets}")
    member.link.close()
    return beats, commits


def _committed(member: Member) -> float:
    """Milliseconds of a commit."""
    took, answer = _milliseconds(member.link, member.commit(1))
    if answer != wire.offset_commit_answer(1)[8:]:
        raise wire.WrongAnswerError(f"OffsetCommit: {answer.hex()}")
    return took


def _milliseconds(link: Link, request: wire.Request) -> tuple[float, bytes]:
    begun = time.perf_counter()
    answer = link.call(request)
    return (time.perf_counter() - begun) * 1000, answer


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _worst_iteration(server: Server) -> float | None:
    """Upper bound of the longest iteration of the event loop, as the server's metrics tell it."""
    found = _HTTP.findall(server.output())
    if not found:
        return None
    with urlopen(f"http://{found[-1]}/metrics", timeout=10) as answer:  # our own address
        counts = [(float(b), float(n)) for b, n in _BUCKET.findall(answer.read().decode())]
    every = counts[-1][1]
    return 1000 * next(bound for bound, number in counts if number == every)
