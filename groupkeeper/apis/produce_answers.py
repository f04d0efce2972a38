"""Makes the parts of an answer to Produce."""

from typing import Final

from groupkeeper.exchange import NO_REPLY, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.appender import PendingAppend
from groupkeeper.topics.batches import RefusedByLog
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.record_check import RecordErrors
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.topics import Topics

STORAGE_ERROR: Final = Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

_NO_OFFSET: Final = -1


class AppendAnswers:
    """Makes the answers of appends that are done."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._failed = topics.failed

    def __call__(self, append: PendingAppend) -> PartitionProduceResponse:
        index, error, stored = append.partition.index, append.error, append.appended
        if stored is not None:
            return PartitionProduceResponse(
                index=index,
                base_offset=stored.base_offset,
                log_append_time_ms=stored.log_append_time,
                log_start_offset=stored.log_start_offset,
            )
        if isinstance(error, RefusedByLog):
            return log_error_answer(append.partition, RecordErrors(*error.refusal, []))
        if isinstance(error, Refused):
            return error_answer(index, error.refusal)
        assert error is not None, "an append ends with a result or an error"
        self._failed(append.partition.folder, error)
        if not isinstance(error, StorageError | OSError):
            return error_answer(index, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR))
        self._partitions.write_failed(append.partition.topic.name, index)
        return error_answer(index, STORAGE_ERROR)


def error_answer(index: int, refusal: Refusal) -> PartitionProduceResponse:
    error, message = refusal
    return PartitionProduceResponse(
        index=index, error_code=error, base_offset=_NO_OFFSET, error_message=message
    )


def log_error_answer(partition: TopicPartition, errors: RecordErrors) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        error_code=errors.error,
        base_offset=_NO_OFFSET,
        log_start_offset=partition.log.start_offset if partition.log is not None else _NO_OFFSET,
        record_errors=errors.errors,
        error_message=errors.message,
    )


def topic_answer(
    topic: TopicProduceData, answers: list[PartitionProduceResponse]
) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )


def failed_response(request: ProduceRequest) -> Response:
    refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    return response_of(
        request,
        [
            topic_answer(
                topic, [error_answer(data.index, refusal) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ],
    )


def response_of(request: ProduceRequest, results: list[TopicProduceResponse]) -> Response:
    return NO_REPLY if request.acks == 0 else ProduceResponse(responses=results)
