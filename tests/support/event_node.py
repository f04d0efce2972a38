"""A node that has the events of a group `g`, the records of its offsets log, or neither."""

from collections.abc import Sequence
from typing import Any, Final

from groupkeeper.history.coverage import OFFSETS_LOG
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import TOPIC, Event, encode
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from tests.client.stub import StubNode
from tests.support.told_events import NOON
from tests.support.written_log import WrittenLog

TOPIC_AUTHORIZATION_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER: Final = "cluster-1"
PARTITIONS: Final = 3
IN_RESPONSE: Final = 4
"""Number of batches in a response."""


class EventNode(StubNode):
    """One node with the event topic, and a group `g` of a member without partitions."""

    def __init__(
        self, events: Sequence[Event] | None, setting: str | None = None, **more: str
    ) -> None:
        super().__init__(0, {"ConsumerGroupDescribe": None})
        self.records = [(b"g" if each.group else b"", each) for each in events or ()]
        self.raw: list[tuple[bytes, bytes | None]] = []
        self.has_topic = events is not None
        self.settings = {"group.events.enabled": setting, **more}
        self.state = "Stable"
        self.fetched: list[int] = []
        self.offsets: WrittenLog | None = None
        self.offsets_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        """Of the topic if there is no log, and of its Fetch if there is one."""
        self.answers |= {
            "Metadata": self._metadata,
            "FindCoordinator": self._find_coordinator,
            "ListOffsets": self._list_offsets,
            "Fetch": self._fetch,
            "DescribeGroups": self._describe_groups,
            "DescribeConfigs": self._describe_configs,
        }

    @property
    def log(self) -> list[tuple[bytes, bytes | None, int]]:
        """Key, value and time of each record."""
        events = ((key, encode(each), each.at_ms) for key, each in self.records)
        return [*events, *((key, value, NOON) for key, value in self.raw)]

    def _batches(self, topic: str) -> list[tuple[int, int, int, bytes]]:
        """Base offset, time, next offset and bytes of each batch."""
        if topic == TOPIC:
            return [
                (n, at, n + 1, encode_batch(n, 0, at, [(key, value)]))
                for n, (key, value, at) in enumerate(self.log)
            ]
        assert self.offsets is not None
        return self.offsets.placed

    def _has(self, offset: int) -> bool:
        """Whether an offset is one of the offsets log, or its end."""
        placed = self._batches(OFFSETS_LOG)
        return not placed or placed[0][0] <= offset <= placed[-1][2]

    def _metadata(self, request: Any) -> MetadataResponse:
        broker = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)
        partitions = [
            MetadataResponsePartition(partition_index=each, leader_id=0)
            for each in range(PARTITIONS)
        ]
        topics = []
        for each in request.topics or ():
            is_offsets = each.name == OFFSETS_LOG
            known = self.offsets is not None if is_offsets else self.has_topic
            error = self.offsets_error if is_offsets else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = ErrorCode.NONE if known else error
            found = MetadataResponseTopic(name=each.name, error_code=error)
            found.partitions = partitions if known else []
            topics.append(found)
        return MetadataResponse(brokers=[broker], cluster_id=CLUSTER, topics=topics)

    def _find_coordinator(self, request: Any) -> FindCoordinatorResponse:
        found = [
            Coordinator(key=each, node_id=0, host="127.0.0.1", port=self.port)
            for each in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        assert asked.partition_index == partition_of("g", PARTITIONS)
        batches = self._batches(topic.name)
        start, end = (batches[0][0], batches[-1][2]) if batches else (0, 0)
        later = [offset for offset, at, _, _ in batches if at >= asked.timestamp]
        offset = {-1: end, -2: start}.get(asked.timestamp, later[0] if later else -1)
        found = ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])]
        )

    def _fetch(self, request: Any) -> FetchResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        start = asked.fetch_offset
        self.fetched.append(start)
        found = [data for _, _, end, data in self._batches(topic.topic) if end > start]
        data = PartitionData(partition_index=asked.partition)
        data.records = b"".join(found[:IN_RESPONSE])
        if topic.topic == OFFSETS_LOG and self.offsets_error == TOPIC_AUTHORIZATION_FAILED:
            data.error_code, data.records = self.offsets_error, b""
        elif topic.topic == OFFSETS_LOG and not self._has(start):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, partitions=[data])]
        )

    def _describe_groups(self, request: Any) -> DescribeGroupsResponse:
        member = DescribedGroupMember(member_id="m1", client_id="billing", client_host="/10.0.0.7")
        members = [member] if self.state != "Dead" else []
        group = DescribedGroup(
            group_id="g", group_state=self.state, protocol_type="consumer", members=members
        )
        return DescribeGroupsResponse(groups=[group])

    def _describe_configs(self, request: Any) -> DescribeConfigsResponse:
        [asked] = request.resources
        configs = [
            DescribeConfigsResourceResult(name=name, value=self.settings[name])
            for name in asked.configuration_keys or ()
            if self.settings.get(name) is not None
        ]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])
