"""CreateTopics: check each topic, create those that pass, report each result.

The catalog is changed in topic_admin.py. Source: Kafka's `ControllerApis.createTopics` and
`ReplicationControlManager.createTopics`; KIP-464 (defaults), KIP-525 (configs in the response),
KIP-516 (ids).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from groupkeeper.protocol.wire import cut_text
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import collision_key
from groupkeeper.topics.refusals import NOT_REFUSED, Refusal, Refused
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.topics.topic_admin import (
    MAX_PARTITIONS,
    TOO_MANY_PARTITIONS,
    UNWRITABLE,
    check_replicas,
)
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_DEFAULT: Final = -1
_REPLICAS: Final = 1
_CONFIGS: Final = 10
"""Cost of listing a topic's configs, in items of a `Pace`."""

_MAX_RECORDS: Final = 10_000
"""Kafka's controller creates all topics of a request in one batch, which has this limit."""

_TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."


class CreateTopicsHandler:
    """Answers CreateTopics."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._admin = topics.admin
        self._node_id = node.node_id
        self._effective = topics.effective
        self._num_partitions = topics.settings.num_partitions
        self._response_tasks = topics.response_tasks
        self._lines = AuditLines()

    def handle(
        self, request: CreateTopicsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Reply at once if nothing can be created; else return None and reply later."""
        if request.timeout_ms <= 0:
            return (yield from _refuse_all(request, Refusal(ErrorCode.REQUEST_TIMED_OUT)))
        if sum((yield from each(request.topics, self._requested_count))) > MAX_PARTITIONS:
            refusal = Refusal(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
            return (yield from _refuse_all(request, refusal))
        failed = partial(server_failed, request, caller.api_version)
        self._response_tasks.start(self._create(request, caller), reply_to, failed)
        return None

    async def _create(self, request: CreateTopicsRequest, caller: Caller) -> CreateTopicsResponse:
        turns = self._response_tasks.turns
        await self._admin.await_deletion(requested.name for requested in request.topics)
        async with self._admin.changing:
            planned, results = await turns.run(self._plan(request.topics))
            if sum(map(_record_count, planned.values())) > _MAX_RECORDS:
                refusal = Refusal(ErrorCode.POLICY_VIOLATION, _TOO_MANY_RECORDS)
                return await turns.run(_refuse_all(request, refusal))
            error = ErrorCode.NONE
            if planned and not request.validate_only:
                error = await self._admin.create(list(planned.values()))
                if error == ErrorCode.NONE:
                    shown = list(islice(planned, SHOWN))
                    self._lines.tell("topics created", caller.peer, shown, len(planned))
        if error != ErrorCode.NONE:
            refusal = Refusal(error, UNWRITABLE)
            results.update((name, _result(name, refusal)) for name in planned)
        else:
            await turns.run(self._fill_in(planned.values(), results))
        return CreateTopicsResponse(topics=list(results.values()))

    def _plan(
        self, topics: Sequence[CreatableTopic]
    ) -> Slices[tuple[dict[str, Topic], dict[str, CreatableTopicResult]]]:
        """Return the topics to create, and a result for every name, which `_fill_in` completes."""
        times = yield from counts(topics, lambda requested: requested.name)
        planned: dict[str, Topic] = {}
        results: dict[str, CreatableTopicResult] = {}
        taken: dict[str, str] = {}
        capacity = self._admin.capacity()

        def plan(requested: CreatableTopic) -> None:
            name = requested.name
            results[name] = _result(name, NOT_REFUSED)
            try:
                if times[name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                topic = self._checked(requested, taken)
                capacity.take(1, topic.partition_count)
            except Refused as refused:
                results[name] = _result(name, refused.refusal)
            else:
                planned[name] = topic
                taken[collision_key(name)] = name

        yield from each(topics, plan)
        return planned, results

    def _checked(self, requested: CreatableTopic, taken: dict[str, str]) -> Topic:
        """Return the topic to create. Raises Refused; checks in Kafka's order."""
        name = requested.name
        refusal = self._admin.check_name(name)
        if refusal is not None:
            raise Refused(*refusal)
        other = taken.get(collision_key(name))
        if other is not None:
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic: {other}"
            )
        if name in self._admin.catalog.by_name:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if self._admin.is_being_deleted(name):
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"Topic '{name}' is still being deleted.")
        own = self._effective.validated({config.name: config.value for config in requested.configs})
        return self._admin.new_topic(name, self._partition_count(requested), own)

    def _fill_in(
        self, topics: Iterable[Topic], results: dict[str, CreatableTopicResult]
    ) -> Slices[None]:
        """Complete the results. Topics with equal configs share one list of those in effect."""
        pace = Pace()
        listed: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
        for topic in topics:
            own = frozenset(topic.configs.items())
            is_new = own not in listed
            if is_new:
                listed[own] = self._configs(topic)
            results[topic.name] = CreatableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_message=None,
                num_partitions=topic.partition_count,
                replication_factor=_REPLICAS,
                configs=listed[own],
            )
            if pace.spent(_CONFIGS if is_new else 1):
                yield

    def _configs(self, topic: Topic) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(name=config.name, value=config.value, config_source=config.source)
            for config in self._effective.of(topic)
        ]

    def _partition_count(self, requested: CreatableTopic) -> int:
        if requested.assignments:
            return self._assigned_count(requested)
        replicas = requested.replication_factor
        if replicas != _DEFAULT and replicas <= 0:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        count = self._requested_count(requested)
        if count <= 0:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        if replicas > _REPLICAS:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replicas} time(s): The target replication "
                f"factor of {replicas} cannot be reached because only {_REPLICAS} broker(s) are "
                "registered.",
            )
        return count

    def _requested_count(self, requested: CreatableTopic) -> int:
        """Return the number of partitions of the topic; 0 if the number is invalid."""
        if requested.assignments:
            return len(requested.assignments)
        if requested.num_partitions == _DEFAULT:
            return self._num_partitions
        return max(requested.num_partitions, 0)

    def _assigned_count(self, requested: CreatableTopic) -> int:
        """Return the number of partitions, the only thing that a manual assignment can decide."""
        for value, what in (
            (requested.replication_factor, "replication factor"),
            (requested.num_partitions, "numPartitions"),
        ):
            if value != _DEFAULT:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        self._check_assignments(requested.assignments)
        return len(requested.assignments)

    def _check_assignments(self, assignments: Iterable[CreatableReplicaAssignment]) -> None:
        error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        indexes: set[int] = set()
        for assignment in assignments:
            index = assignment.partition_index
            if index in indexes:
                raise Refused(
                    error, f"Found multiple manual partition assignments for partition {index}"
                )
            indexes.add(index)
            check_replicas(assignment.broker_ids, self._node_id)
        if indexes != set(range(len(indexes))):
            raise Refused(error, "partitions should be a consecutive 0-based integer sequence")


def _record_count(topic: Topic) -> int:
    """Return the number of records that Kafka's controller writes for a new topic."""
    return 1 + topic.partition_count + len(topic.configs)


def _result(name: str, refusal: Refusal) -> CreatableTopicResult:
    error, message = refusal
    shown = None if message is None else cut_text(message)
    return CreatableTopicResult(name=name, error_code=error, error_message=shown)


def _refuse_all(request: CreateTopicsRequest, refusal: Refusal) -> Slices[CreateTopicsResponse]:
    names = yield from counts(request.topics, lambda requested: requested.name)
    results = yield from each(names, lambda name: _result(name, refusal))
    return CreateTopicsResponse(topics=results)
