"""A node that leads the partitions whose folders a test has, and serves their logs as a broker
does: whole batches but the last one, which may be cut off.
"""

from pathlib import Path
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
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
from groupkeeper.protocol.record_batch import HEADER_SIZE, read_header
from tests.client.stub import StubNode

LATEST = -1
Place = tuple[str, int]
Batch = tuple[int, int, bytes]
"""Its first offset, the one behind it, and its bytes."""


class LogNode(StubNode):
    """`logs` may be changed by a test, `errors` are answered first, one for each Fetch, and `ids`
    are those of topics.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = 1 << 20) -> None:
        super().__init__(0)
        self.logs: dict[Place, list[Batch]] = {}
        self.starts: dict[Place, int] = {}
        self.ids: dict[str, bytes] = {}
        self.errors: dict[Place, list[ErrorCode]] = {}
        self.topic_errors: dict[str, ErrorCode] = {}
        self.fetched: list[tuple[Place, int]] = []
        self._most_bytes = most_bytes
        for log in folder.glob("__*-*/") if folder else ():
            topic, _, number = log.name.rpartition("-")
            data = b"".join(each.read_bytes() for each in sorted(log.glob("*.log")))
            self.logs[topic, int(number)] = [*_batches(data)]
        self.answers |= {
            "Metadata": self._metadata,
            "ListOffsets": self._list_offsets,
            "Fetch": self._fetch,
        }

    def end(self, place: Place) -> int:
        log = self.logs[place]
        return log[-1][1] if log else self.starts.get(place, 0)

    def _metadata(self, request: Any) -> MetadataResponse:
        known = {topic for topic, _ in self.logs} | self.ids.keys()
        asked = sorted(known) if request.topics is None else [each.name for each in request.topics]
        topics = []
        for name in asked:
            missing = ErrorCode.NONE if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = self.topic_errors.get(name, missing)
            found = MetadataResponseTopic(
                name=name, error_code=error, topic_id=self.ids.get(name, bytes(16))
            )
            found.partitions = [
                MetadataResponsePartition(partition_index=number, leader_id=0)
                for topic, number in sorted(self.logs)
                if topic == name and not error
            ]
            topics.append(found)
        broker = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], topics=topics)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                place = topic.name, each.partition_index
                offset = self.end(place) if each.timestamp == LATEST else self.starts.get(place, 0)
                parts.append(ListOffsetsPartitionResponse(partition_index=place[1], offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    def _fetch(self, request: Any) -> FetchResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        place, start = (topic.topic, asked.partition), asked.fetch_offset
        self.fetched.append((place, start))
        data = PartitionData(partition_index=asked.partition)
        if self.errors.get(place):
            data.error_code = self.errors[place].pop(0)
        elif not self.starts.get(place, 0) <= start <= self.end(place):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            batches = [each for _, until, each in self.logs[place] if until > start]
            size = max(self._most_bytes, len(batches[0]) if batches else 0)
            data.records = b"".join(batches)[:size]
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, partitions=[data])]
        )


def _batches(data: bytes) -> list[Batch]:
    found, position = [], 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        found.append((header.base_offset, header.next_offset, data[position : header.end]))
        position = header.end
    return found
