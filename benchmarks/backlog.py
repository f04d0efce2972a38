"""A start from a long `__consumer_offsets`, written beforehand: the same files for every target.

Most partitions hold offset commits of many groups, in batches of a given size and in several
segments; the last ones hold nothing. A server that was killed starts from it, as it is and after
compaction. While it loads, a member of a group in a partition without records beats and commits.
"""

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from random import Random

from benchmarks import wire
from benchmarks.cases import LostCommitError
from benchmarks.crowd import Link
from benchmarks.loop_times import Iterations, iterations, worst_ms
from benchmarks.members import Group, Member, form
from benchmarks.processes import cpu_seconds
from benchmarks.targets import Home, Server, create_topic, new_home
from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.recovery.manifest import ManifestFile

PARTITIONS = 50
"""That have records."""
EMPTY = 20
"""That have none: one for each start."""
OFFSETS = 20
"""Partitions that each group has committed."""
REPEATS = 10
"""How often each of them has been committed, on average."""
SEGMENTS = 10
"""Finished ones, of each partition."""
ACTIVE = 0.01
"""The share of the records that is in the segment behind them, which is not compacted."""
READ_AT_ONCE = 10
COMPACTING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0",
}
_COMPACTED_S = 600.0
_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True)
class Backlog:
    """Segments of each partition by base offset, and the newest offsets of every group."""

    segments: dict[int, dict[int, Path]]
    expected: dict[bytes, dict[int, int]]
    records: int

    @property
    def partitions(self) -> int:
        return len(self.segments) + EMPTY

    @property
    def settings(self) -> dict[str, str]:
        """Of a server that starts from it, and does not compact it."""
        partitions = str(self.partitions)
        return {"offsets.topic.num.partitions": partitions, "log.cleaner.enable": "false"}


def groups_of(partition: int, partitions: int) -> Iterator[str]:
    """Ids of groups that live in one of so many partitions."""
    names = (f"backlog-{number}" for number in count())
    return (name for name in names if partition_of(name, partitions) == partition)


def write(
    folder: Path, records: int, batch: int, partitions: int = PARTITIONS, repeats: float = REPEATS
) -> Backlog:
    """So many records in all, a few more to fill the last batches, `batch` in each; every offset is
    committed so often on average.
    """
    each = -(-records // partitions // batch) * batch
    made = Backlog({}, {}, each * partitions)
    for partition in range(partitions):
        made.segments[partition] = {}
        place = folder / str(partition)
        place.mkdir(parents=True)
        number = max(1, int(each / OFFSETS / repeats))
        names = list(islice(groups_of(partition, partitions + EMPTY), number))
        made.expected.update({name.encode(): {} for name in names})
        chance = Random(partition)  # noqa: S311  # the same in every run
        entries = _commits(names, each, chance, made.expected)
        for base, end in _segments(each, batch):
            file = made.segments[partition][base] = place / f"{base:020d}.log"
            with file.open("wb") as output:
                for at in range(base, end, batch):
                    now = int(time.time() * 1000)
                    output.write(encode_batch(at, 0, now, list(islice(entries, batch))))
    return made


def _commits(
    names: list[str], records: int, chance: Random, expected: dict[bytes, dict[int, int]]
) -> Iterator[tuple[bytes, bytes]]:
    """Each offset once, and then any of them; `expected` has the newest ones in the end."""
    places = [(name, number) for name in names for number in range(OFFSETS)]
    heads = {name: offset_key_head(name, wire.TOPIC.decode()) for name in names}
    now = int(time.time() * 1000)
    for offset in range(records):
        name, number = places[offset] if offset < len(places) else chance.choice(places)
        expected[name.encode()][number] = offset
        yield offset_key(heads[name], number), offset_value(offset, -1, "", now, -1)


def _segments(records: int, batch: int) -> list[tuple[int, int]]:
    """First offset and end of each, which are those of batches."""
    finished = int(records * (1 - ACTIVE))
    ends = [finished * number // SEGMENTS // batch * batch for number in range(SEGMENTS + 1)]
    return list(zip(ends, [*ends[1:], records], strict=True))


_starts: Counter[Path] = Counter()
"""Of each directory: every one has a member in a partition that no earlier one has written to."""


def prepare(name: str, base: Path, backlog: Backlog) -> Server:
    """A server that has started from it once and was stopped in order: the files that it keeps
    beside a log are there.
    """
    settings = backlog.settings
    home: Home | Server = new_home(name, base)
    if name == "kafka":
        # Its broker serves only partitions that its metadata know.
        home = _served(Server(name, base, home, settings))
    put(backlog, _data(home, name))
    return _served(Server(name, base, home, settings), lambda server: answered(server, backlog))


def _data(home: Home | Server, name: str) -> Path:
    return home.folder / ("log" if name == "kafka" else "data")


def compact(server: Server, backlog: Backlog) -> Server:
    """Let the server's own cleaner run until nothing is dirty but what the active segments hold.

    Returns the server, which was stopped in order.
    """

    def compacted(server: Server) -> None:
        deadline = time.monotonic() + _COMPACTED_S
        while not _is_compacted(server, backlog):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{server.name} has not compacted within {_COMPACTED_S:.0f} s")
            time.sleep(0.5)

    settings = {**backlog.settings, **COMPACTING}
    return _served(Server(server.name, server.folder.parent, server, settings), compacted)


def _is_compacted(server: Server, backlog: Backlog) -> bool:
    folder, first_dirty = _data(server, server.name), _OWN[server.name]
    reached = first_dirty(folder, backlog)
    return all(reached.get(each, 0) >= max(bases) for each, bases in backlog.segments.items())


def _of_groupkeeper(folder: Path, backlog: Backlog) -> dict[int, int]:
    return {
        partition: ManifestFile(
            Files(), str(folder / f"__consumer_offsets-{partition}")
        ).first_dirty
        for partition in backlog.segments
    }


def _of_kafka(folder: Path, _backlog: Backlog) -> dict[int, int]:
    """What its checkpoint says: `topic partition offset` in each line but the first two."""
    path = folder / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    rows = [line.split() for line in lines if line.startswith("__consumer_offsets ")]
    return {int(partition): int(offset) for _, partition, offset in rows}


_OWN: Mapping[str, Callable[[Path, Backlog], dict[int, int]]] = {
    "groupkeeper": _of_groupkeeper,
    "kafka": _of_kafka,
}
"""Up to where a target has compacted each partition."""


def log_mib(server: Server) -> float:
    """What the segments of the offsets log take."""
    files = _data(server, server.name).glob("__consumer_offsets-*/*.log")
    return sum(file.stat().st_size for file in files) / 2**20


def start(after: Server, backlog: Backlog, *, kill: bool = True) -> tuple[dict[str, float], Server]:
    """Figures of one start, and the server, which was killed afterwards, or stopped in order.

    Raises LostCommitError when an offset is not there.
    """
    server = Server(after.name, after.folder.parent, after, backlog.settings)
    try:
        server.wait(_iterations)
        before = _iterations(server)
        member = _joined(server, backlog)
        first = (time.monotonic() - server.started) * 1000
        watched = _watched(server, member, backlog)
        figures = {**watched, "first_ms": first, "records": float(backlog.records)}
        if before:
            figures["iteration_ms"] = worst_ms(before, _iterations(server))
        return figures | {"log_mib": log_mib(server)}, server
    finally:
        server.stop(kill=kill)


def _served(server: Server, what: Callable[[Server], None] = lambda server: None) -> Server:
    """Stop it in order, after it has found somebody's coordinator and done something."""
    try:
        server.wait(_found)
        create_topic(server)
        what(server)
    finally:
        server.stop()
    return server


def _found(server: Server) -> None:
    """A broker makes the offsets topic when it is asked for the first time."""
    with contextlib.closing(Link(server.port)) as link:
        if error := wire.found(link.call(wire.find_coordinator(b"anybody"))):
            raise wire.WrongAnswerError(f"FindCoordinator: error {error}")


def put(backlog: Backlog, data: Path) -> None:
    """Copy the segments to where a server expects them."""
    for partition, segments in backlog.segments.items():
        folder = data / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*"):
            if old.name != "partition.metadata":
                old.unlink()
        for segment in segments.values():
            shutil.copyfile(segment, folder / segment.name)


def _joined(server: Server, backlog: Backlog) -> Member:
    """A member in a partition that holds nothing, once it has committed."""
    partition = backlog.partitions - 1 - _starts[server.folder] % EMPTY
    _starts[server.folder] += 1
    made: list[Group] = []

    def join(server: Server) -> None:
        group = Group(next(groups_of(partition, backlog.partitions)).encode())
        group.members.append(Member(group, Link(server.port), None))
        with contextlib.closing(Link(server.port)) as link:
            if error := wire.found(link.call(wire.find_coordinator(group.name))):
                raise wire.WrongAnswerError(f"FindCoordinator: error {error}")
        form([group])
        _committed(group.members[0])
        made.append(group)

    server.wait(join)
    return made[0].members[0]


def _watched(server: Server, member: Member, backlog: Backlog) -> dict[str, float]:
    """Beat and commit until every partition answers, and until everything has been read back."""
    beat = member.heartbeat()
    beats: list[float] = []
    commits: list[float] = []
    took = []
    figures: dict[str, float] = {}
    with contextlib.closing(Link(server.port)) as link:
        for groups in (_one_of_each(backlog), backlog.expected):
            pending = list(groups)
            while pending:
                beats.append(_milliseconds(member.link, beat)[0])
                commits.append(_committed(member))
                if not _read(link, backlog, pending):
                    time.sleep(_PAUSE_S)
            took.append((time.monotonic() - server.started) * 1000)
            figures.setdefault("cpu_s", cpu_seconds(server.pid))
    member.link.close()
    return figures | {
        "answers_ms": took[0],
        "replay_ms": took[1],
        "beat_p99_ms": _p99(beats),
        "beat_worst_ms": max(beats),
        "commit_p99_ms": _p99(commits),
        "commit_worst_ms": max(commits),
    }


def _one_of_each(backlog: Backlog) -> list[bytes]:
    """A group of each partition."""
    found = {partition_of(name.decode(), backlog.partitions): name for name in backlog.expected}
    return list(found.values())


def answered(server: Server, backlog: Backlog) -> None:
    """Wait until every partition answers."""
    pending = _one_of_each(backlog)
    with contextlib.closing(Link(server.port)) as link:
        while pending:
            if not _read(link, backlog, pending):
                time.sleep(_PAUSE_S)


def _read(link: Link, backlog: Backlog, pending: list[bytes]) -> bool:
    """Read the offsets of the first few groups. False if one has to wait: it goes to the end."""
    for group in pending[:READ_AT_ONCE]:
        error, offsets = wire.fetched(link.call(wire.offset_fetch(group, OFFSETS)))
        pending.remove(group)
        if error in wire.NOT_YET:
            pending.append(group)
            return False
        if error or offsets != backlog.expected[group]:
            raise LostCommitError(f"{group!r}: {error}, {offsets}")
    return True


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


def _iterations(server: Server) -> Iterations:
    """Empty for other targets. Raises OSError before the server is ready."""
    return iterations(server.metrics()) if server.name == "groupkeeper" else {}
