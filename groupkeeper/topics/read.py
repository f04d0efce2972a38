"""One look at the logs for one Fetch: what there is to read now, within the request's limits.

Not the waiting (fetch.py). Source: Kafka's ``ReplicaManager.readFromLog`` (KIP-74 for the limits).
"""

from dataclasses import dataclass
from typing import Final

from groupkeeper.topics.leader_epochs import check_leader_epoch
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Failed, Partitions
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from storage.errors import StorageError
from storage.log import Log

RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""Most record bytes of one response, so that reading them does not hold up the event loop; clients
come again."""

_READ_COMMITTED: Final = 1
_NO_OFFSET: Final = -1


@dataclass(slots=True)
class Look:
    """A response, and whether it should be sent without waiting for more."""

    response: FetchResponse
    size: int
    failed: bool


class Reader:
    """Reads for Fetch, without waiting and without opening anything."""

    def __init__(self, partitions: Partitions, max_bytes: int, failed: Failed) -> None:
        self._partitions = partitions
        self.max_bytes = min(max_bytes, RESPONSE_BYTES)
        self._failed = failed

    def look(self, request: FetchRequest) -> Look:
        """Partitions in their order: the first with data gives a batch, however large."""
        budget = min(request.max_bytes, self.max_bytes)
        look = Look(FetchResponse(), 0, False)
        for topic in request.topics:
            answer = FetchableTopicResponse(topic=topic.topic)
            for wanted in topic.partitions:
                data = self._read(topic.topic, wanted, budget - look.size, look.size == 0)
                if request.isolation_level != _READ_COMMITTED:
                    data.aborted_transactions = None
                look.size += len(data.records or b"")
                look.failed = look.failed or data.error_code != ErrorCode.NONE
                answer.partitions.append(data)
            look.response.responses.append(answer)
        return look

    def _read(
        self, topic_name: str, wanted: FetchPartition, budget: int, first: bool
    ) -> PartitionData:
        partition = self._partitions.find(topic_name, wanted.partition)
        if partition is None:
            return _error(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = partition.log
        if log is None:
            return _without_log(partition, wanted)
        code = check_leader_epoch(partition, wanted.current_leader_epoch)
        if code != ErrorCode.NONE:
            return _error(wanted, code)
        end = log.next_offset
        if not log.start_offset <= wanted.fetch_offset <= end:
            return _error(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            records = _bounded(log, wanted, budget, first)
        except (StorageError, OSError) as error:
            self._failed(partition.folder, error)
            partition.close()
            return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.start_offset,
            records=records,
        )


def _bounded(log: Log, wanted: FetchPartition, budget: int, first: bool) -> bytes:
    """What fits; the first batch of a response need not (KIP-74)."""
    limit = min(wanted.partition_max_bytes, budget)
    if limit <= 0 and not first:
        return b""
    records = log.read(wanted.fetch_offset, max(limit, 0))
    return records if first or len(records) <= limit else b""


def _without_log(partition: Partition, wanted: FetchPartition) -> PartitionData:
    if not partition.topic.internal:
        return _error(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if wanted.fetch_offset != 0:
        # The coordinator has closed it for a moment: whoever has read so far must not start again.
        return _error(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return PartitionData(
        partition_index=wanted.partition, last_stable_offset=0, log_start_offset=0, records=b""
    )


def _error(wanted: FetchPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition, error_code=code, high_watermark=_NO_OFFSET, records=b""
    )
