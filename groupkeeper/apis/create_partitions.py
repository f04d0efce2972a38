"""CreatePartitions: check each wish, grow the topics that can grow, say what became of each.

Not the growing itself (topic_admin.py). Source: Kafka's ``ControllerApis.createPartitions`` and
``ReplicationControlManager.createPartitions``; KIP-195.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from groupkeeper.apis import assignments
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.slices import counts, each
from groupkeeper.topics.topic_admin import (
    MAX_PARTITIONS,
    TOO_MANY_PARTITIONS,
    UNWRITABLE,
    Capacity,
    Refusal,
    Refused,
)
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_UNKNOWN: Final[Refusal] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
_TOO_LARGE: Final = f"A topic has at most {MAX_PARTITIONS} partitions."
_TWICE: Final[Refusal] = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


class CreatePartitionsHandler:
    """Answers CreatePartitions."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._admin = topics.admin
        self._node_id = node.node_id
        self._response_tasks = topics.response_tasks

    def handle(
        self, request: CreatePartitionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """The response if there is no time for anything, else None and the response later."""
        if request.timeout_ms <= 0:
            timed_out: Refusal = (ErrorCode.REQUEST_TIMED_OUT, None)
            results = yield from each(request.topics, lambda topic: _result(topic.name, timed_out))
            return CreatePartitionsResponse(results=results)
        self._response_tasks.start(
            self._grow(request),
            reply_to,
            lambda: _broken(request),
        )
        return None

    async def _grow(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        async with self._admin.changing:
            grown, results = await self._response_tasks.turns.run(self._plan(request.topics))
            if grown and not request.validate_only:
                code = await self._admin.change(list(grown.values()))
                for name in grown if code != ErrorCode.NONE else ():
                    results[name] = _result(name, (code, UNWRITABLE))
        return CreatePartitionsResponse(results=list(results.values()))

    def _plan(
        self, requested_topics: Sequence[CreatePartitionsTopic]
    ) -> Slices[tuple[dict[str, Topic], dict[str, CreatePartitionsTopicResult]]]:
        """The topics as they shall be, and one result for every name: as in Kafka, those that
        were named more than once come first.
        """
        times = yield from counts(requested_topics, lambda requested: requested.name)
        grown: dict[str, Topic] = {}
        results: dict[str, CreatePartitionsTopicResult] = {}
        asked = _Asked(self._admin.capacity())

        def refuse_repeated(name: str) -> None:
            if times[name] > 1:
                results[name] = _result(name, _TWICE)

        def plan(requested: CreatePartitionsTopic) -> None:
            if requested.name in results:
                return
            topic = self._admin.catalog.by_name.get(requested.name)
            refusal = _UNKNOWN if topic is None else self._refusal(requested, topic, asked)
            results[requested.name] = _result(requested.name, refusal)
            if topic is not None and refusal is None:
                grown[requested.name] = replace(topic, partition_count=requested.count)

        yield from each(times, refuse_repeated)
        yield from each(requested_topics, plan)
        return grown, results

    def _refusal(
        self, requested: CreatePartitionsTopic, topic: Topic, asked: "_Asked"
    ) -> Refusal | None:
        """Why the topic cannot grow so, checked in Kafka's order, or None."""
        additional = requested.count - topic.partition_count
        if additional <= 0:
            return ErrorCode.INVALID_PARTITIONS, _no_increase(requested, topic.partition_count)
        misplaced = self._misplaced(requested, additional)
        if misplaced is not None:
            return assignments.INVALID_ASSIGNMENT, misplaced
        if topic.internal:
            # Kafka would do it, and look for its groups in the wrong partitions from then on.
            fixed = (
                f"Topic '{requested.name}' is internal: its partitions were fixed when it was made."
            )
            return ErrorCode.INVALID_TOPIC_EXCEPTION, fixed
        if additional > asked.left:
            return ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS
        if requested.count > MAX_PARTITIONS:
            return ErrorCode.POLICY_VIOLATION, _TOO_LARGE
        return asked.take(additional)

    def _misplaced(self, requested: CreatePartitionsTopic, additional: int) -> str | None:
        """What is wrong with a manual assignment, or None."""
        if requested.assignments is None:
            return None
        if len(requested.assignments) != additional:
            return (
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(requested.assignments)} assignment(s) were specified."
            )
        complaints = (
            assignments.complaint(assignment.broker_ids, self._node_id)
            for assignment in requested.assignments
        )
        return next((complaint for complaint in complaints if complaint is not None), None)


class _Asked:
    """What one request may still add."""

    def __init__(self, capacity: Capacity) -> None:
        self.left = MAX_PARTITIONS
        self._capacity = capacity

    def take(self, partitions: int) -> Refusal | None:
        try:
            self._capacity.take(0, partitions)
        except Refused as refused:
            return refused.code, refused.message
        self.left -= partitions
        return None


def _no_increase(requested: CreatePartitionsTopic, count: int) -> str:
    if requested.count == count:
        return f"Topic already has {count} partition(s)."
    return (
        f"The topic {requested.name} currently has {count} partition(s); "
        f"{requested.count} would not be an increase."
    )


def _result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    code, message = refusal or (ErrorCode.NONE, None)
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


def _broken(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    broken: Refusal = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return CreatePartitionsResponse(
        results=[_result(topic.name, broken) for topic in request.topics]
    )
