"""Produce: appends the batches of a request to the logs of their partitions.

Batches are checked in batches.py, their records, where that is necessary, in record_check.py,
sequences of producers in producers.py; timestamps.py decides which time is stored. Files are
written on threads (appender.py); most requests are answered in the same call. Answers do not wait
for the disk, as in Kafka: with one replica, acks 1 and all are the same. Source: Kafka's
`KafkaApis.handleProduceRequest` and `ReplicaManager.appendRecords`.
"""

from typing import Final

from groupkeeper.apis.plain_produce import BY_ID_SINCE, FIRST_VERSION, PlainProduce
from groupkeeper.apis.produce_answers import (
    STORAGE_ERROR,
    AppendAnswers,
    error_answer,
    failed_response,
    log_error_answer,
    response_of,
    topic_answer,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import BatchHeader
from groupkeeper.protocol.restamp import restamped
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics.appender import AT_ONCE, Appends, PendingAppend
from groupkeeper.topics.batches import NO_TRANSACTIONS, RefusedByLog, check_batch
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.record_check import RecordErrors, RecordRules, check_records
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.slices import Pace, each, each_within, visit_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

# Cost of an append in items of a `Pace`, and bytes of a batch that cost one more.
_APPEND: Final = 10
_BYTES: Final = 8 * 1024


Sent = tuple[TopicPartition, PartitionProduceData]
"""A partition and the data sent for it."""

_Outcome = PartitionProduceResponse | PendingAppend
"""Outcome of a batch: an answer, or an append that may be under way."""

Outcomes = list[tuple[TopicProduceData, list[_Outcome]]]
"""Outcomes of all batches of a request, by topic."""

_Answers = dict[int, PartitionProduceResponse]
"""Answers that are known, by the id of the request's object."""


class ProduceHandler:
    """Answers Produce."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._topics_by_id = topics.catalog.by_id
        self._message_max_bytes = topics.settings.message_max_bytes
        self._batch_reader = topics.batch_reader
        self._appender = topics.appender
        self._response_tasks = topics.response_tasks
        self._wall_ms = topics.wall_ms
        self._answer = AppendAnswers(topics)
        self._plain = PlainProduce(topics)

    def handle(
        self, request: ProduceRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | Slices[Response | None] | None:
        """Return the response, NO_REPLY for acks 0, or None if logs or the disk take their time."""
        appends = Appends()
        append = self._plain.append_of(request, caller.api_version, appends)
        if append is None:
            return self._handle(request, caller, reply_to)
        self._appender.start((append,))
        if appends.done:
            return self._plain.response_of(request, append)
        work = self._append_rest(request, appends, [(request.topic_data[0], [append])])
        self._response_tasks.start(work, reply_to, lambda: failed_response(request))
        return None

    def _handle(
        self, request: ProduceRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        version = caller.api_version
        refusal = _refusal(request, version)
        if refusal is not None:
            refused = yield from each_within(
                request.topic_data,
                lambda topic: topic.partition_data,
                lambda topic, data: error_answer(data.index, refusal),
                topic_answer,
            )
            return response_of(request, refused)
        if version >= BY_ID_SINCE:
            yield from self._fill_in_names(request)
        unready, to_check = yield from self._unready(request)

        def failed() -> Response:
            return failed_response(request)

        if unready or to_check:
            work = self._prepare_and_append(request, version, unready, to_check)
            self._response_tasks.start(work, reply_to, failed)
            return None
        appends = Appends()
        outcomes = yield from self._start_all(request, version, {}, appends)
        if not appends.done:
            work = self._append_rest(request, appends, outcomes)
            self._response_tasks.start(work, reply_to, failed)
            return None
        return (yield from self._answers(request, outcomes))

    def _fill_in_names(self, request: ProduceRequest) -> Slices[None]:
        """Set the names of topics that are given by id; an unknown topic keeps none."""

        def fill_in(sent: TopicProduceData) -> None:
            topic = self._topics_by_id.get(sent.topic_id)
            sent.name = topic.name if topic is not None else ""

        yield from each(request.topic_data, fill_in)

    def _unready(self, request: ProduceRequest) -> Slices[tuple[list[TopicPartition], list[Sent]]]:
        """Return partitions to prepare before the append, and batches with records to check."""
        unready: dict[TopicPartition, None] = {}
        to_check: list[Sent] = []
        now = self._wall_ms()

        def look(topic: TopicProduceData, data: PartitionProduceData) -> None:
            partition = self._partitions.find(topic.name, data.index)
            if partition is None or partition.topic.internal:
                return  # it will be refused
            policy = partition.policy
            timestamp, in_doubt = policy.timestamps.expected(data.records, now)
            if not self._is_ready(partition, data.records, timestamp, policy.limits):
                unready[partition] = None
            if in_doubt or policy.compacts:
                to_check.append((partition, data))

        yield from visit_within(request.topic_data, lambda topic: topic.partition_data, look)
        return list(unready), to_check

    async def _prepare_and_append(
        self,
        request: ProduceRequest,
        api_version: int,
        unready: list[TopicPartition],
        to_check: list[Sent],
    ) -> Response:
        await self._partitions.prepare(unready)
        refused: _Answers = {}
        for partition, data in to_check:
            try:
                header = check_batch(data.records, api_version, self._limit(partition))
            except Refused:
                continue  # for the same reason as later
            errors = await self._check_records(partition, data, header)
            if errors is not None:
                refused[id(data)] = log_error_answer(partition, errors)
        appends, run = Appends(), self._response_tasks.turns.run
        outcomes = await run(self._start_all(request, api_version, refused, appends))
        return await self._append_rest(request, appends, outcomes)

    async def _check_records(
        self, partition: TopicPartition, data: PartitionProduceData, header: BatchHeader
    ) -> RecordErrors | None:
        assert data.records is not None, "check_batch refuses null"
        policy, now = partition.policy, self._wall_ms()
        _, in_doubt = policy.timestamps.expected(data.records, now)
        timestamps = policy.timestamps if in_doubt else None
        rules = RecordRules(partition.folder, policy.compacts, timestamps, now)
        result = await check_records(self._batch_reader, rules, data.records, header)
        if isinstance(result, RecordErrors):
            return result
        if in_doubt and result != header.max_timestamp:  # the header stated what is not so
            data.records, _ = restamped(data.records, header, result, log_append_time=False)
        return None

    def _is_ready(
        self,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        timestamp: int,
        limits: Limits,
    ) -> bool:
        """Return whether no preparation is needed; true also if the append will be refused."""
        if self._partitions.refuses_writes(partition):
            return True
        size = min(len(records or b""), self._message_max_bytes)
        return partition.may_append(size, timestamp, limits)

    async def _append_rest(
        self, request: ProduceRequest, appends: Appends, outcomes: Outcomes
    ) -> Response:
        """Return the response of a request whose appends have begun."""
        await appends.wait()
        return await self._response_tasks.turns.run(self._answers(request, outcomes))

    def _start_all(
        self, request: ProduceRequest, api_version: int, refused: _Answers, appends: Appends
    ) -> Slices[Outcomes]:
        """Check all batches but those that are refused already, and begin to append them."""
        pace, outcomes, ready = Pace(), Outcomes(), list[PendingAppend]()
        for topic in request.topic_data:
            of_topic: list[_Outcome] = []
            outcomes.append((topic, of_topic))
            for data in topic.partition_data:
                outcome: _Outcome | None = refused.get(id(data)) if refused else None
                if outcome is None:
                    outcome = self._checked(topic, data, api_version, appends)
                if isinstance(outcome, PendingAppend):
                    ready.append(outcome)
                of_topic.append(outcome)
                full = pace.spent(_APPEND + len(data.records or b"") // _BYTES)
                if full or len(ready) == AT_ONCE:
                    self._appender.start(ready)
                    ready = []
                if full:
                    yield
            if pace.spent():
                yield
        self._appender.start(ready)
        return outcomes

    def _checked(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        api_version: int,
        appends: Appends,
    ) -> _Outcome:
        try:
            return self._append_of(topic, data, api_version, appends)
        except RefusedByLog as refused:
            partition = self._partitions.find(topic.name, data.index)
            assert partition is not None, "its log has refused the batch"
            return log_error_answer(partition, RecordErrors(*refused.refusal, []))
        except Refused as refused:
            return error_answer(data.index, refused.refusal)

    def _append_of(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        api_version: int,
        appends: Appends,
    ) -> _Outcome:
        """Return the append of a batch that can be stored. Raises Refused."""
        by_id = api_version >= BY_ID_SINCE
        if by_id and not topic.name:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic.name in RESERVED:
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}"
            )
        partition = self._partitions.find(topic.name, data.index)
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if by_id and partition.topic.topic_id != topic.topic_id:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)  # made anew while its log was opened
        if partition.log is None or self._partitions.refuses_writes(partition):
            return error_answer(data.index, STORAGE_ERROR)
        header = check_batch(data.records, api_version, self._limit(partition))
        assert data.records is not None, "check_batch refuses null"
        records, timestamps = data.records, partition.policy.timestamps
        if timestamps.must_stamp(header):
            records, header = timestamps.stamped(records, header, self._wall_ms())
        return appends.add(partition, records, header)

    def _answers(self, request: ProduceRequest, outcomes: Outcomes) -> Slices[Response]:
        """Make the response, when all appends are done."""
        results = yield from each_within(
            outcomes,
            lambda outcome: outcome[1],
            lambda _, one: self._answer(one) if isinstance(one, PendingAppend) else one,
            lambda outcome, answers: topic_answer(outcome[0], answers),
        )
        return response_of(request, results)

    def _limit(self, partition: TopicPartition) -> int:
        """Return the largest batch that the topic accepts, in bytes."""
        limit = partition.topic.max_message_bytes
        return self._message_max_bytes if limit is None else limit


def _refusal(request: ProduceRequest, api_version: int) -> Refusal | None:
    """Return the refusal of the whole request, which every partition gets, or None."""
    if api_version < FIRST_VERSION:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION)
    if request.acks not in (-1, 0, 1):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        return NO_TRANSACTIONS
    return None
