"""Produce: append the batches of a request to their partitions' logs as they came.

Not the checks of one batch (batches.py) or of a producer's sequence (producers.py). Acknowledged
from the page cache, like Kafka's: acks 1 and all are the same with one replica.
Source: Kafka's ``KafkaApis.handleProduceRequest`` and ``ReplicaManager.appendRecords``.
"""

from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import NO_REPLY, ReplyTo, Response
from groupkeeper.topics.batches import (
    NO_TRANSACTIONS,
    TRANSACTIONS_REFUSED,
    RefusedError,
    check_batch,
)
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.opening import Opening
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Failed, Partitions
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.record_batch import BatchHeader
from storage.errors import StorageError

FIRST_VERSION: Final = 3
"""Older ones are advertised, because old librdkafka looks for them, but carry batches of other
formats."""

_NO_OFFSET: Final = -1


class Producing:
    """Answers Produce."""

    def __init__(
        self, partitions: Partitions, opening: Opening, message_max_bytes: int, failed: Failed
    ) -> None:
        self._partitions = partitions
        self._opening = opening
        self._message_max_bytes = message_max_bytes
        self._failed = failed

    def handle(self, request: ProduceRequest, caller: Caller, reply_to: ReplyTo) -> Response | None:
        """The response, NO_REPLY for acks 0, or None when logs have to be opened first."""
        version = caller.api_version
        refused = _refusal(request, version)
        if refused is not None:
            return _reply(request, refused)
        wanted = self._partitions.existing(
            (topic.name, data.index)
            for topic in request.topic_data
            if topic.name not in RESERVED
            for data in topic.partition_data
        )
        return self._opening.answer(
            (partition for partition in wanted if not partition.may_append),
            lambda: _reply(request, self._append_all(request, version)),
            reply_to,
            lambda: _reply(request, refuse_all(request, ErrorCode.UNKNOWN_SERVER_ERROR)),
        )

    def _append_all(self, request: ProduceRequest, api_version: int) -> ProduceResponse:
        response = ProduceResponse()
        for topic in request.topic_data:
            answers = [self._append(topic.name, data, api_version) for data in topic.partition_data]
            response.responses.append(
                TopicProduceResponse(name=topic.name, partition_responses=answers)
            )
        return response

    def _append(
        self, topic_name: str, data: PartitionProduceData, api_version: int
    ) -> PartitionProduceResponse:
        try:
            return self._append_checked(topic_name, data, api_version)
        except RefusedError as refused:
            return _refused(data.index, refused.code, refused.message)
        except StorageError as error:
            self._failed(f"{topic_name}-{data.index}", error)
            return _refused(data.index, ErrorCode.KAFKA_STORAGE_ERROR)

    def _append_checked(
        self, topic_name: str, data: PartitionProduceData, api_version: int
    ) -> PartitionProduceResponse:
        if topic_name in RESERVED:
            raise RefusedError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic_name}"
            )
        partition = self._partitions.find(topic_name, data.index)
        if partition is None:
            return _refused(data.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = partition.log
        if log is None:
            return _refused(data.index, ErrorCode.KAFKA_STORAGE_ERROR)
        limit = partition.topic.max_message_bytes
        if limit is None:
            limit = self._message_max_bytes
        header = check_batch(data.records, api_version, limit)
        assert data.records is not None, "check_batch refuses null"
        base_offset = _duplicate(partition, header)
        if base_offset is None:
            base_offset = partition.append(log, data.records, header)
        return PartitionProduceResponse(
            index=data.index, base_offset=base_offset, log_start_offset=log.start_offset
        )


def _duplicate(partition: Partition, header: BatchHeader) -> int | None:
    """Where the batch is stored already, or None; raises RefusedError if it does not fit."""
    if header.producer_id < 0:
        return None
    stored_at = partition.producers.duplicate_of(
        header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset_delta
    )
    if stored_at is None:
        code = partition.producers.check(
            header.producer_id, header.producer_epoch, header.base_sequence
        )
        if code != ErrorCode.NONE:
            raise RefusedError(
                code,
                f"Producer {header.producer_id} with epoch {header.producer_epoch} "
                f"and sequence {header.base_sequence} does not fit what was stored",
            )
    return stored_at


def _refusal(request: ProduceRequest, api_version: int) -> ProduceResponse | None:
    """What is wrong with the request as a whole is still answered partition by partition."""
    if api_version < FIRST_VERSION:
        return refuse_all(request, ErrorCode.UNSUPPORTED_VERSION)
    if request.acks not in (-1, 0, 1):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        return refuse_all(request, TRANSACTIONS_REFUSED, NO_TRANSACTIONS)
    return None


def refuse_all(
    request: ProduceRequest, code: ErrorCode, message: str | None = None
) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    _refused(data.index, code, message) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=_NO_OFFSET, error_message=message
    )


def _reply(request: ProduceRequest, response: ProduceResponse) -> Response:
    return NO_REPLY if request.acks == 0 else response
