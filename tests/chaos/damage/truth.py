"""What a server has promised, and what another one over the same directory says of it.

`Truth` is filled by `bases.py` with what was acknowledged; `Look` asks a running server for all of
it. What a difference means is `outcome.py`'s question.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import CorruptBatch, check_crc, decode_records, iter_batches
from tests.chaos.wire import Client
from tests.support.requests import fetch_request, heartbeat, list_request, records_request
from tests.support.wire import Address

OFFSETS_TOPIC = "__consumer_offsets"
CATALOG = "catalog"
TOPIC = 2
"""A resource type."""
FETCH_BYTES = 4 << 20
ASKED_TIMES = 4
"""Per partition, so many offsets are asked for by time and fetched from in the middle."""
NOT_SERVED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

Place = tuple[str, int]


@dataclass
class Group:
    """What one group was promised."""

    members: dict[str, tuple[str | None, bytes]] = field(default_factory=dict)
    """Instance id and assignment by member id."""
    generation: int = -1
    acknowledged: dict[Place, int] = field(default_factory=dict)
    sent: dict[Place, int] = field(default_factory=dict)


class Stored(NamedTuple):
    """An acknowledged record."""

    timestamp: int
    value: bytes


@dataclass
class Truth:
    """Everything that was acknowledged."""

    cluster_id: str = ""
    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """Id and number of partitions by name."""
    retention: dict[str, str] = field(default_factory=dict)
    """The setting `retention.ms` by topic."""
    groups: dict[str, Group] = field(default_factory=dict)
    records: dict[Place, dict[int, Stored]] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)
    """First offset kept, of partitions whose first records were deleted."""
    acknowledgements: int = 0
    offsets_partitions: int = 50

    def log_of(self, group_id: str) -> str:
        """The folder that a group is in."""
        return f"{OFFSETS_TOPIC}-{partition_of(group_id, self.offsets_partitions)}"


class Loss(NamedTuple):
    """Something that was promised and is not there, or that was deleted and is there again."""

    log: str
    """The folder that should hold it."""
    words: str
    offset: int = -1
    """Of a lost record of a topic."""


@dataclass
class Look:
    """What a server says of it all."""

    losses: list[Loss] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Folders of partitions that are not served."""
    checksums: list[Loss] = field(default_factory=list)
    """Records that came with a wrong checksum, so that whoever fetches them knows."""


def look(address: Address, truth: Truth) -> Look:
    """Ask for everything. Raises OSError and Gone if the server does not answer."""
    client = Client(address, timeout=10.0)
    try:
        looking = _Looking(client, truth)
        looking.catalog()
        looking.groups()
        for place in truth.records:
            looking.partition(place)
        return looking.found
    finally:
        client.close()


class _Looking:
    def __init__(self, client: Client, truth: Truth) -> None:
        self._client = client
        self._truth = truth
        self.found = Look()

    def _lost(self, log: str, words: str, offset: int = -1) -> None:
        self.found.losses.append(Loss(log, words, offset))

    # -- catalog ---------------------------------------------------------------------------------

    def catalog(self) -> None:
        truth = self._truth
        answer = self._client.call(
            10, MetadataRequest(topics=None, allow_auto_topic_creation=False)
        )
        there = {
            each.name: (each.topic_id, len(each.partitions))
            for each in answer.topics
            if not each.is_internal
        }
        if answer.cluster_id != truth.cluster_id:
            self._lost(CATALOG, "cluster id changed")
        for name, known in truth.topics.items():
            if name not in there:
                self._lost(CATALOG, f"topic {name} gone")
            elif there[name] != known:
                self._lost(CATALOG, f"topic {name} is another: {there[name]}, not {known}")
        for name in there.keys() - truth.topics.keys():
            self._lost(CATALOG, f"deleted topic {name} is back")
        for name in truth.retention.keys() & there.keys():
            self._config(name)

    def _config(self, name: str) -> None:
        wanted = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"]
        )
        answer = self._client.call(1, DescribeConfigsRequest(resources=[wanted]))
        values = [each.value for each in answer.results[0].configs]
        if values != [self._truth.retention[name]]:
            self._lost(CATALOG, f"retention.ms of {name} is {values}")

    # -- groups ----------------------------------------------------------------------------------

    def groups(self) -> None:
        truth, client = self._truth, self._client
        described = client.call(4, DescribeGroupsRequest(groups=list(truth.groups)))
        for each in described.groups:
            if each.error_code in NOT_SERVED:
                self.found.refused.add(self._truth.log_of(each.group_id))
            else:
                self._members(each)
        fetched = client.call(8, fetch_request(*truth.groups))
        for each in fetched.groups:
            if each.error_code in NOT_SERVED:
                self.found.refused.add(self._truth.log_of(each.group_id))
            else:
                self._offsets(each)
        listed = client.call(4, ListGroupsRequest())
        if not listed.error_code:  # the list of all is refused while one partition is
            there = {each.group_id for each in listed.groups}
            for group_id in there - truth.groups.keys():
                self._lost(self._truth.log_of(group_id), f"deleted group {group_id} is back")

    def _members(self, described: Any) -> None:
        group_id = described.group_id
        group = self._truth.groups[group_id]
        there = {
            each.member_id: (each.group_instance_id, bytes(each.member_assignment))
            for each in described.members
        }
        if there != group.members:
            words = f"members of {group_id}: {sorted(there)}, not {sorted(group.members)}"
            self._lost(self._truth.log_of(group_id), words)
            return
        for member_id, (instance_id, _) in group.members.items():
            request = heartbeat(member_id, group.generation, group_id, instance_id)
            error = self._client.call(3, request).error_code
            if error:
                self._lost(self._truth.log_of(group_id), f"heartbeat in {group_id}: error {error}")

    def _offsets(self, fetched: Any) -> None:
        group = self._truth.groups[fetched.group_id]
        log = self._truth.log_of(fetched.group_id)
        there = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in fetched.topics
            for each in topic.partitions
        }
        for place, offset in group.acknowledged.items():
            found, most = there.get(place, -1), group.sent.get(place, offset)
            if not offset <= found <= most:
                words = f"{fetched.group_id} {place[0]}-{place[1]}: {found}, acknowledged {offset}"
                self._lost(log, words)
        for place in there.keys() - group.sent.keys():
            self._lost(log, f"{fetched.group_id}: deleted offset of {place} is back")

    # -- records of topics -----------------------------------------------------------------------

    def partition(self, place: Place) -> None:
        topic, index = place
        log = f"{topic}-{index}"
        known = self._truth.records[place]
        start = self._truth.starts.get(place, 0)
        error, first = self._listed(place, EARLIEST_TIMESTAMP)
        if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return  # the topic was lost, and that is told already
        if error in NOT_SERVED:
            self.found.refused.add(log)
            return
        if error or first != start:
            self._lost(log, f"{log} begins at {first}, not {start} (error {error})", 0)
        there = self._fetched(place, start)
        if there is None:
            self.found.refused.add(log)
            return
        bad = {loss.offset for loss in self.found.checksums if loss.log == log}
        for offset, stored in known.items():
            if offset >= start and there.get(offset) != stored and offset not in bad:
                self._lost(log, f"record {offset} of {log} is {_shown(there.get(offset))}", offset)
        if not bad:
            self._in_the_middle(place, [offset for offset in known if offset >= start])

    def _in_the_middle(self, place: Place, offsets: list[int]) -> None:
        """By time and by offset, as indexes say where to look."""
        log = f"{place[0]}-{place[1]}"
        known = self._truth.records[place]
        for offset in offsets[:: max(1, len(offsets) // ASKED_TIMES)]:
            error, found = self._listed(place, known[offset].timestamp)
            if error or found != offset:
                self._lost(log, f"time of record {offset} leads to {found} ({error})", offset)
            there = self._fetched(place, offset, at_most=1)
            if there is not None and there.get(offset) != known[offset]:
                self._lost(log, f"record {offset} is not found from its offset", offset)

    def _listed(self, place: Place, timestamp: int) -> tuple[int, int]:
        """Error and offset."""
        answer = self._client.call(1, list_request(*place, timestamp))
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset

    def _fetched(self, place: Place, offset: int, at_most: int = 1000) -> dict[int, Stored] | None:
        """Records by offset; None if the partition is not served. At most so many requests."""
        there: dict[int, Stored] = {}
        for _ in range(at_most):
            answer = self._fetch(place, offset)
            if answer.error_code in NOT_SERVED:
                return None
            data = bytes(answer.records or b"")
            following = self._take_all(place, data, offset, there)
            if answer.error_code or following <= offset:
                return there
            offset = following
        return there

    def _take_all(self, place: Place, data: bytes, offset: int, there: dict[int, Stored]) -> int:
        """The offset behind the batches of an answer."""
        try:
            for header in iter_batches(data):
                offset = max(offset, header.next_offset)
                self._take(place, data, header, there)
        except CorruptBatch:
            log = f"{place[0]}-{place[1]}"
            self.found.checksums.append(Loss(log, "no batch", offset))
        return offset

    def _take(self, place: Place, data: bytes, header: Any, there: dict[int, Stored]) -> None:
        if not check_crc(data, header):
            log = f"{place[0]}-{place[1]}"
            for offset in range(header.base_offset, header.next_offset):
                self.found.checksums.append(Loss(log, "checksum", offset))
            return
        for record in decode_records(data, header):
            there[record.offset] = Stored(record.timestamp_ms, bytes(record.value or b""))

    def _fetch(self, place: Place, offset: int) -> Any:
        request = records_request(*place, offset, FETCH_BYTES)
        return self._client.call(11, request).responses[0].partitions[0]


def _shown(stored: Stored | None) -> str:
    return "gone" if stored is None else f"{stored.value[:20]!r}"
