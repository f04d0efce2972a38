"""A data directory whose logs were compacted, and what `kafka-dump-log` and ours say of its files.

The server is ours, with tiny segments, which it compacts while it is written to and keeps in its
archive. In the end there are compacted segments with tombstones that have a delete horizon, others
that end with an empty batch, raw ones in the archive, and those that take appends.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.recovery.manifest import ManifestFile
from tests.suites.suite import SuiteError
from tests.support.consumer import Member
from tests.support.process import Server
from tests.support.raw_batches import Kind, Written, raw_batch
from tests.support.requests import (
    batch_request,
    codes_of,
    commit_request,
    create_request,
    offset_delete_request,
)
from tests.support.wire import Client, connect

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.segment.bytes": "1024",
    "offsets.raw.retention.ms": "86400000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "4096",
}
READ = "orders"
"""Offsets of it are committed."""
TOPIC = "places"
"""It is compacted."""
GZIP = 1
ROUNDS = 30
COMPACTED_SECONDS = 120.0


def make(folder: Path) -> Path:
    """The directory, which nobody serves any more. Raises SuiteError if it does not get there."""
    server = Server(folder, SETTINGS)
    try:
        server.start()
        client = connect(server.kafka)
        _fill(client)
        client.close()
        _wait_until_compacted(server.data_dir)
    except (AssertionError, OSError) as error:
        raise SuiteError(f"no directory with compacted logs: {error} (see {server.log})") from error
    finally:
        server.stop()
    return server.data_dir


def _fill(client: Client) -> None:
    for request in (
        create_request(READ, partitions=9),
        create_request(TOPIC, cleanup_policy="compact"),
    ):
        _good([client.call(4, request).topics[0].error_code])
    for number in range(ROUNDS):
        for group in ("one", "two", "three", "four"):
            _commit(client, group, number)
        _produce(client, number)
        if number == ROUNDS // 3:
            places = [(READ, 1), (READ, 2)]
            _good(codes_of(client.call(0, offset_delete_request(places, "one"))).values())
            client.call(2, DeleteGroupsRequest(groups_names=["two"]))
        # A group of one static member, which is there already or joins.
        Member(client, f"member {number % 3}", "instance").settle(b"all")


def _commit(client: Client, group: str, number: int) -> None:
    if group == "two" and number > ROUNDS // 3:
        return  # it is deleted
    places = {(READ, partition): number for partition in range(3 if number % 2 else 9)}
    _good(codes_of(client.call(7, commit_request(places, group))).values())


def _produce(client: Client, number: int) -> None:
    """Some batches are compressed, and every fifth deletes a key."""
    value = None if number % 5 == 0 else b"somewhere"
    records = [Written(b"key %d" % key, value) for key in range(number % 4, 6)]
    data = raw_batch(0, records, Kind(codec=GZIP if number % 3 == 0 else 0))
    answer = client.call(7, batch_request(TOPIC, 0, data))
    _good([answer.responses[0].partition_responses[0].error_code])


def _good(codes: Iterable[int]) -> None:
    found = set(codes)
    assert found == {0}, f"error codes {found}"


def _wait_until_compacted(data_dir: Path) -> None:
    """All segments but those that take appends."""
    end = time.monotonic() + COMPACTED_SECONDS
    folders = [*data_dir.glob("__consumer_offsets-*"), *data_dir.glob(f"{TOPIC}-*")]
    while dirty := [folder.name for folder in folders if not _is_compacted(folder)]:
        assert time.monotonic() < end, f"not compacted: {dirty}"
        time.sleep(0.05)


def _is_compacted(folder: Path) -> bool:
    active = max(int(file.stem) for file in folder.glob("*.log"))
    return ManifestFile(Files(), str(folder)).first_dirty >= active > 0


_FILE = re.compile(r"Dumping (\S+)")
_FIELDS = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(r"\| offset: (\d+) .*?\bkey: (.*)")
_TYPE = re.compile(r'\{"type":"?(\d+)')
_COMPARED = (
    *("baseOffset", "lastOffset", "count", "producerId", "producerEpoch", "partitionLeaderEpoch"),
    *("isTransactional", "isControl", "CreateTime", "size", "compresscodec", "crc", "isvalid"),
)
_NO_VALUE = re.compile(r" payload: (<DELETE>|null)$")


@dataclass(slots=True)
class Dump:
    """What a tool says of segments."""

    batches: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    """By file; those of their fields that both tools tell."""
    records: Counter[str] = field(default_factory=Counter)
    """By file, type and whether it is a tombstone."""
    horizons: int = 0
    """Batches with a delete horizon; ours does not tell."""

    def add(self, lines: Iterable[str]) -> None:
        """All that a tool has printed."""
        file = ""
        for line in lines:
            if found := _FILE.match(line):
                file = found[1]
                self.batches[file] = []
            elif line.startswith("baseOffset:"):
                fields = dict(_FIELDS.findall(line))
                self.batches[file].append(tuple(fields[name] for name in _COMPARED))
                self.horizons += fields.get("deleteHorizonMs", "").startswith("OptionalLong[")
            elif found := _RECORD.match(line):
                type_ = _TYPE.match(found[2])
                kind = f"type {type_[1]}" if type_ else "record"
                self.records[f"{file}: {kind}{', no value' * _is_deleted(found[2])}"] += 1

    @property
    def empty(self) -> list[tuple[str, ...]]:
        """Batches without records."""
        at = _COMPARED.index("count")
        return [each for file in self.batches.values() for each in file if each[at] == "0"]

    def differences(self, other: "Dump") -> list[str]:
        """A line each."""
        found = [
            f"{file}: batches {mine} and {other.batches.get(file)}"
            for file, mine in self.batches.items()
            if other.batches.get(file) != mine
        ]
        kinds = self.records.keys() | other.records.keys()
        found += [
            f"{kind}: {self.records[kind]} and {other.records[kind]}"
            for kind in sorted(kinds)
            if self.records[kind] != other.records[kind]
        ]
        return found

    @property
    def kinds(self) -> Counter[str]:
        """How many records of each type there are in all files."""
        sums: Counter[str] = Counter()
        for kind, number in self.records.items():
            sums[kind.partition(": ")[2]] += number
        return sums


def _is_deleted(key_and_value: str) -> bool:
    """Of the records of a topic, Kafka's tool shows no payload if they have none."""
    return bool(_NO_VALUE.search(key_and_value)) or " payload: " not in key_and_value


def segments(data_dir: Path, pattern: str) -> list[Path]:
    """Those that hold something, or their indexes."""
    found = sorted(data_dir.glob(pattern))
    return [each for each in found if each.stat().st_size]


def wrong_index(lines: Iterable[str], dump: Dump) -> Iterator[str]:
    """What a check of indexes finds. Not told: for a batch without records, which has no time, the
    tool says that its entry is wrong, in files of Kafka's own cleaner as well.
    """
    empty = {each[_COMPARED.index("CreateTime")] for each in dump.empty}
    listed = list(lines)
    for at, line in enumerate(listed):
        if re.search(r"mismatch|out of order|rror|xception|corrupt", line):
            detail = listed[at + 1] if at + 1 < len(listed) else ""
            times = re.search(r"Index timestamp: (\d+), log timestamp: -1$", detail)
            if not (times and times[1] in empty):
                yield f"{line} {detail}".strip()
