"""CreatePartitions: check each topic, add partitions where that is possible, report each result.

The catalog is changed in topic_admin.py. Source: Kafka's `ControllerApis.createPartitions` and
`ReplicationControlManager.createPartitions`; KIP-195.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from groupkeeper.refused_rows import refused, server_failed
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.refusals import NOT_REFUSED, Refusal, Refused
from groupkeeper.topics.slices import counts, each
from groupkeeper.topics.topic_admin import (
    MAX_PARTITIONS,
    TOO_MANY_PARTITIONS,
    UNWRITABLE,
    check_replicas,
)
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_TOO_LARGE: Final = f"A topic has at most {MAX_PARTITIONS} partitions."
_DUPLICATE: Final = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


class CreatePartitionsHandler:
    """Answers CreatePartitions."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._admin = topics.admin
        self._node_id = node.node_id
        self._response_tasks = topics.response_tasks
        self._lines = AuditLines()

    def handle(
        self, request: CreatePartitionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Reply at once if the timeout leaves no time; else return None and reply later."""
        if request.timeout_ms <= 0:
            error = ErrorCode.REQUEST_TIMED_OUT
            return (yield from refused(request, caller.api_version, error))
        failed = partial(server_failed, request, caller.api_version)
        self._response_tasks.start(self._grow(request, caller), reply_to, failed)
        return None

    async def _grow(
        self, request: CreatePartitionsRequest, caller: Caller
    ) -> CreatePartitionsResponse:
        async with self._admin.changing:
            grown, results = await self._response_tasks.turns.run(self._plan(request.topics))
            if grown and not request.validate_only:
                error = await self._admin.change(list(grown.values()))
                for name in grown if error != ErrorCode.NONE else ():
                    results[name] = _result(name, Refusal(error, UNWRITABLE))
                if error == ErrorCode.NONE:
                    some = islice(grown.values(), SHOWN)
                    shown = [f"{topic.name}: {topic.partition_count} partitions" for topic in some]
                    self._lines.tell("partitions created", caller.peer, shown, len(grown))
        return CreatePartitionsResponse(results=list(results.values()))

    def _plan(
        self, topics: Sequence[CreatePartitionsTopic]
    ) -> Slices[tuple[dict[str, Topic], dict[str, CreatePartitionsTopicResult]]]:
        """Return the changed topics, and a result for every name, repeated names first."""
        times = yield from counts(topics, lambda requested: requested.name)
        grown: dict[str, Topic] = {}
        results: dict[str, CreatePartitionsTopicResult] = {}
        capacity = self._admin.capacity()
        left = MAX_PARTITIONS

        def refuse_duplicate(name: str) -> None:
            if times[name] > 1:
                results[name] = _result(name, _DUPLICATE)

        def plan(requested: CreatePartitionsTopic) -> None:
            nonlocal left
            name = requested.name
            if name in results:
                return
            try:
                topic = self._checked(requested, left)
                additional = requested.count - topic.partition_count
                capacity.take(0, additional)
            except Refused as refused:
                results[name] = _result(name, refused.refusal)
            else:
                left -= additional
                results[name] = _result(name)
                grown[name] = replace(topic, partition_count=requested.count)

        yield from each(times, refuse_duplicate)
        yield from each(topics, plan)
        return grown, results

    def _checked(self, requested: CreatePartitionsTopic, left: int) -> Topic:
        """Return the topic as it is. Raises Refused if it cannot grow; checks in Kafka's order.

        `left`: partitions that the request may still add.
        """
        name, count = requested.name, requested.count
        topic = self._admin.catalog.by_name.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        additional = count - topic.partition_count
        if additional <= 0:
            raise Refused(ErrorCode.INVALID_PARTITIONS, _no_increase(requested, count - additional))
        self._check_assignments(requested, additional)
        if topic.internal:
            # Kafka adds them, and from then on looks for groups in the wrong partitions.
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' is internal: its number of partitions is fixed.",
            )
        if additional > left:
            raise Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        if count > MAX_PARTITIONS:
            raise Refused(ErrorCode.POLICY_VIOLATION, _TOO_LARGE)
        return topic

    def _check_assignments(self, requested: CreatePartitionsTopic, additional: int) -> None:
        if requested.assignments is None:
            return
        if len(requested.assignments) != additional:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(requested.assignments)} assignment(s) were specified.",
            )
        for assignment in requested.assignments:
            check_replicas(assignment.broker_ids, self._node_id)


def _no_increase(requested: CreatePartitionsTopic, count: int) -> str:
    if requested.count == count:
        return f"Topic already has {count} partition(s)."
    return (
        f"The topic {requested.name} currently has {count} partition(s); "
        f"{requested.count} would not be an increase."
    )


def _result(name: str, refusal: Refusal = NOT_REFUSED) -> CreatePartitionsTopicResult:
    error, message = refusal
    return CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
