"""Data directories with damage, and what repairs them: the vocabulary of the repair's tests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.repair.logs import target_of
from groupkeeper.repair.survey import Survey, survey
from groupkeeper.repair.writing import Wishes, write
from groupkeeper.storage.locks import NodeLocks
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, offsets_of
from tests.support.cleaned import compact_log
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import list_request, produce_request, records_request
from tests.support.served import Served, settle
from tests.support.stored import cut_file, write_file

PARTITIONS = 4
SETTINGS = (
    f"offsets.topic.num.partitions={PARTITIONS}",
    "offsets.topic.segment.bytes=3000",
    "log.segment.bytes=2000",
)
"""Segments so small that every log has several."""

GROUPS = [f"group-{number}" for number in range(8)]
TOPICS = {"orders": 6, "payments": 6}
CLUSTER = "a new cluster id"


def live(served: Served, flushes: int = 30) -> None:
    """Groups that commit, one of them with a member, and records in two partitions."""
    settle(served.client(), "members", group_instance_id="reader-1")
    live_on(served, flushes)


def live_on(served: Served, flushes: int) -> None:
    """More commits and records."""
    client = served.client()
    for number in range(flushes):
        for group_id in GROUPS[: 3 + number % 6]:
            assert client.commit(number, group_id) == 0
        for topic, partition in (("orders", 0), ("payments", 2)):
            produce(client, topic, partition, b"%d " % number + bytes(60))
    served.advance(1)


def compact(served: Served) -> None:
    """Stop the server, compact the logs of its groups, and start it again."""
    served.stop()
    files = FakeFiles(served.disk)
    for index in range(PARTITIONS):
        log = open_log(files, f"data/__consumer_offsets-{index}", Limits(segment_bytes=3_000))
        compact_log(log)
        log.close()
    served.start()
    served.settled()


def commit_late(served: Served, offset: int) -> None:
    """Commits of all groups in one iteration: until an idle moment only the journal has them."""
    clients = [served.client() for _ in GROUPS]
    pairs = zip(clients, GROUPS, strict=True)
    served.at_once({client: client.commit_frame(offset, group) for client, group in pairs})
    assert [client.committed() for client in clients] == [0] * len(GROUPS)


def produce(client: Any, topic: str, partition: int, value: bytes) -> None:
    request = produce_request(topic, partition, value, time=TIME)
    answer = client.call(9, request).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer


@dataclass
class Seen:
    """What clients see of a directory."""

    groups: dict[str, tuple[int, dict[tuple[str, int], int]]] = field(default_factory=dict)
    """Number of members and committed offsets by group."""
    messages: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """The offsets of the messages of each partition that has some."""
    topics: dict[str, int] = field(default_factory=dict)


def seen(served: Served) -> Seen:
    """Ask for everything."""
    client, found = served.client(), Seen()
    metadata = client.call(12, MetadataRequest(topics=None))
    found.topics = {each.name: len(each.partitions) for each in metadata.topics}
    listed = client.call(4, ListGroupsRequest())
    assert listed.error_code == 0
    ids = [group.group_id for group in listed.groups]
    for described in client.call(5, DescribeGroupsRequest(groups=ids)).groups:
        offsets = client.fetched(described.group_id)
        found.groups[described.group_id] = len(described.members), offsets
    for topic, count in found.topics.items():
        for index in range(count if not topic.startswith("__") else 0):
            offsets = fetched(client, topic, index)
            if offsets:
                found.messages[topic, index] = offsets
    return found


def fetched(client: Any, topic: str, index: int) -> list[int]:
    """The offsets of all messages of a partition."""
    offsets: list[int] = []
    at = first_offset(client, topic, index)
    while True:
        [found] = client.call(11, records_request(topic, index, at)).responses[0].partitions
        assert found.error_code == 0, found
        more = [offset for offset in offsets_of(found.records or b"") if offset >= at]
        if not more:
            return offsets
        offsets += more
        at = more[-1] + 1


def first_offset(client: Any, topic: str, index: int) -> int:
    request = list_request(topic, index, EARLIEST_TIMESTAMP)
    [found] = client.call(1, request).topics[0].partitions
    assert found.error_code == 0, found
    return int(found.offset)


# -- repair ----------------------------------------------------------------------------------------


def looked(disk: FakeDisk, path: str = "data") -> Survey:
    """A survey, which changes nothing."""
    before = disk.calls
    files = FakeFiles(disk)
    target = target_of(files, path)
    locks = NodeLocks(files, target.data_dir)
    found = survey(files, target, lambda what, size: None)
    locks.close()
    assert disk.calls == before, disk.trace[before:]
    assert files.open_paths == []
    return found


def repaired(disk: FakeDisk, path: str = "data") -> tuple[Survey, str]:
    """What `groupkeeper repair --write` does: what it found, and the folder of the originals."""
    files = FakeFiles(disk)
    target = target_of(files, path)
    locks = NodeLocks(files, target.data_dir)
    found = survey(files, target, lambda what, size: None)
    if not found.is_damaged:
        locks.close()
        return found, ""
    stamp = f"time{disk.calls}"
    wishes = Wishes(stamp, 1_700_000_000_000, CLUSTER, "the report")
    originals = write(files, found, locks, wishes)
    locks.close()
    return found, originals


# -- damage ----------------------------------------------------------------------------------------


def files_in(disk: FakeDisk, *folders: str) -> list[str]:
    """The files in folders of the data directory that are not empty."""
    paths = [
        f"data/{folder}/{name}" for folder in folders for name in disk.children(f"data/{folder}")
    ]
    return [path for path in paths if disk.contents(path)]


def spoil(disk: FakeDisk, path: str, how: str, random: Random) -> None:
    """Flip a bit, cut, zero a sector, or remove a file."""
    size = len(disk.contents(path))
    if how == "remove":
        FakeFiles(disk).remove(path)
    elif how == "flip":
        disk.flip(path, random.randrange(size), 1 << random.randrange(8))
    elif how == "cut":
        cut_file(disk, path, random.randrange(size))
    else:
        start = random.randrange(size)
        write_file(disk, path, bytes(min(512, size - start)), start)


Damage = Callable[[FakeDisk], None]
