"""CreateTopics: check each wish, create all that stand, say what became of each.

Not the creating itself (topic_admin.py). Source: Kafka's ``ControllerApis.createTopics`` and
``ReplicationControlManager.createTopics``; KIP-464 (defaults), KIP-525 (what was made), KIP-516
(ids).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from groupkeeper.apis import assignments
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
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
from groupkeeper.topics import configs
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import collision_key
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.topics.topic_admin import (
    MAX_PARTITIONS,
    TOO_MANY_PARTITIONS,
    UNWRITABLE,
    Refused,
)
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_DEFAULT: Final = -1
_REPLICAS: Final = 1
_CONFIGS: Final = 10
"""What it costs to list a topic's configs, in small things."""

_MAX_RECORDS: Final = 10_000
"""Kafka's controller makes all topics of a request in one batch, and this is its limit."""

_TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."


class CreateTopicsHandler:
    """Answers CreateTopics."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._admin = topics.admin
        self._node_id = node.node_id
        self._effective = topics.effective
        self._num_partitions = topics.settings.num_partitions
        self._response_tasks = topics.response_tasks

    def handle(
        self, request: CreateTopicsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """The response if nothing is tried, else None and the response later."""
        if request.timeout_ms <= 0:
            return (yield from _refuse_all(request, ErrorCode.REQUEST_TIMED_OUT, None))
        if sum((yield from each(request.topics, self._requested_count))) > MAX_PARTITIONS:
            code = ErrorCode.POLICY_VIOLATION
            return (yield from _refuse_all(request, code, TOO_MANY_PARTITIONS))
        self._response_tasks.start(self._create(request), reply_to, lambda: _broken(request))
        return None

    async def _create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        turns = self._response_tasks.turns
        await self._admin.await_deletion(requested.name for requested in request.topics)
        async with self._admin.changing:
            planned, results = await turns.run(self._plan(request.topics))
            if sum(map(_record_count, planned.values())) > _MAX_RECORDS:
                refusal = _refuse_all(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_RECORDS)
                return await turns.run(refusal)
            code = ErrorCode.NONE
            if planned and not request.validate_only:
                code = await self._admin.create(list(planned.values()))
        if code != ErrorCode.NONE:
            results.update((name, _refused(name, code, UNWRITABLE)) for name in planned)
        else:
            await turns.run(self._fill_in(planned.values(), results))
        return CreateTopicsResponse(topics=list(results.values()))

    def _plan(
        self, requested_topics: Sequence[CreatableTopic]
    ) -> Slices[tuple[dict[str, Topic], dict[str, CreatableTopicResult]]]:
        """The topics to create, and a result for every name in the order given; for those to
        create it is still to be filled in.
        """
        times = yield from counts(requested_topics, lambda requested: requested.name)
        planned: dict[str, Topic] = {}
        results: dict[str, CreatableTopicResult] = {}
        taken: dict[str, str] = {}
        capacity = self._admin.capacity()

        def plan(requested: CreatableTopic) -> None:
            results[requested.name] = _refused(requested.name, ErrorCode.NONE, None)
            try:
                if times[requested.name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                topic = self._checked(requested, taken)
                capacity.take(1, topic.partition_count)
            except Refused as refused:
                results[requested.name] = _refused(requested.name, refused.code, refused.message)
            else:
                planned[requested.name] = topic
                taken[collision_key(requested.name)] = requested.name

        yield from each(requested_topics, plan)
        return planned, results

    def _checked(self, requested: CreatableTopic, taken: dict[str, str]) -> Topic:
        """The topic as it would be made; raises UnwantedError. Checks in Kafka's order."""
        complaint = self._admin.name_complaint(requested.name)
        if complaint is None and collision_key(requested.name) in taken:
            f"Topic '{requested.name}' collides with topic: "
            f"{taken[collision_key(requested.name)]}"
        if complaint is not None:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)
        if requested.name in self._admin.catalog.by_name:
            raise Refused(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{requested.name}' already exists."
            )
        if self._admin.is_being_deleted(requested.name):
            raise Refused(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The deleted topic '{requested.name}' is not yet gone without a trace.",
            )
        try:
            own = configs.settled({config.name: config.value for config in requested.configs})
        except configs.InvalidConfigError as invalid:
            raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from None
        return self._admin.new_topic(requested.name, self._partition_count(requested), own)

    def _fill_in(
        self, topics: Iterable[Topic], results: dict[str, CreatableTopicResult]
    ) -> Slices[None]:
        """What was made. Topics with the same configs share one list of all in effect."""
        pace = Pace()
        told: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
        for topic in topics:
            own = frozenset(topic.configs.items())
            is_new = own not in told
            if is_new:
                told[own] = self._configs(topic)
            results[topic.name] = CreatableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_message=None,
                num_partitions=topic.partition_count,
                replication_factor=_REPLICAS,
                configs=told[own],
            )
            if pace.spent(_CONFIGS if is_new else 1):
                yield

    def _configs(self, topic: Topic) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=config.row.name, value=config.value, config_source=config.source
            )
            for config in self._effective.of(topic)
        ]

    def _partition_count(self, requested: CreatableTopic) -> int:
        if requested.assignments:
            return self._assigned_count(requested)
        wanted = requested.replication_factor
        if wanted != _DEFAULT and wanted <= 0:
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
        if wanted > _REPLICAS:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {wanted} time(s): The target replication "
                f"factor of {wanted} cannot be reached because only {_REPLICAS} broker(s) are "
                "registered.",
            )
        return count

    def _requested_count(self, requested: CreatableTopic) -> int:
        """How many partitions the topic would have; 0 if the wish makes no sense."""
        if requested.assignments:
            return len(requested.assignments)
        if requested.num_partitions == _DEFAULT:
            return self._num_partitions
        return max(requested.num_partitions, 0)

    def _assigned_count(self, requested: CreatableTopic) -> int:
        """A manual assignment can only say how many partitions there are."""
        for value, what in (
            (requested.replication_factor, "replication factor"),
            (requested.num_partitions, "numPartitions"),
        ):
            if value != _DEFAULT:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        complaint = self._misplaced(requested.assignments)
        if complaint is not None:
            raise Refused(assignments.INVALID_ASSIGNMENT, complaint)
        return len(requested.assignments)

    def _misplaced(self, given: Iterable[CreatableReplicaAssignment]) -> str | None:
        """What is wrong with a manual assignment, or None."""
        indexes: set[int] = set()
        for assignment in given:
            index = assignment.partition_index
            if index in indexes:
                return f"Found multiple manual partition assignments for partition {index}"
            indexes.add(index)
            complaint = assignments.complaint(assignment.broker_ids, self._node_id)
            if complaint is not None:
                return complaint
        if indexes != set(range(len(indexes))):
            return "partitions should be a consecutive 0-based integer sequence"
        return None


def _record_count(topic: Topic) -> int:
    """Records that Kafka's controller writes for a new topic."""
    return 1 + topic.partition_count + len(topic.configs)


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    shown = None if message is None else cut_text(message)
    return CreatableTopicResult(name=name, error_code=code, error_message=shown)


def _refuse_all(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> Slices[CreateTopicsResponse]:
    names = yield from counts(request.topics, lambda requested: requested.name)
    results = yield from each(names, lambda name: _refused(name, code, message))
    return CreateTopicsResponse(topics=results)


def _broken(request: CreateTopicsRequest) -> CreateTopicsResponse:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    names = dict.fromkeys(requested.name for requested in request.topics)
    return CreateTopicsResponse(
        topics=[_refused(name, code, "The server failed") for name in names]
    )
