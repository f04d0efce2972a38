"""Guards of APIs that create, change and delete topics and configs.

Source: Kafka 4.1, `ControllerApis`.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

from groupkeeper.access.acls import CLUSTER_NAME
from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.rights.guard import ERRORS, WORDS, Guard, Resource
from groupkeeper.apis.rights.row_guard import DECISION, DecidedRows, Order, RowsGuard, taken
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    init_producer_id,
)
from groupkeeper.protocol.messages.describe_configs import ResourceType
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.turns import Slices

NO_ID: Final = bytes(16)
_TOPIC: Final = ResourceKind.TOPIC
_DENIED: Final = ERRORS[_TOPIC]


class CreateTopicsGuard(RowsGuard):
    """CreateTopics: shows the configs of a new topic only to who may describe them."""

    asked = answered = "topics"
    repeats_are_errors = True

    def changes(self, request: Any) -> bool:
        return True

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return create_topics.CreatableTopicResult(
            name=row.name, error_code=error, error_message="Authorization failed."
        )

    def merge(self, response: Any, split: DecidedRows) -> Slices[Any]:
        response.topics = yield from each(response.topics, partial(_shown, split.client))
        return (yield from super().merge(response, split))


def _shown(client: AskingClient, result: Any) -> Any:
    if result.error_code or client.may(Operation.DESCRIBE_CONFIGS, _TOPIC, result.name):
        return result
    return create_topics.CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=result.error_message,
        topic_config_error_code=_DENIED,
    )


class CreatePartitionsGuard(RowsGuard):
    """CreatePartitions: topics that are named twice are refused whoever asks."""

    asked, answered = "topics", "results"
    order = Order.FIRST
    repeats_are_errors = True

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return create_partitions.CreatePartitionsTopicResult(
            name=row.name, error_code=error, error_message=None
        )


class DeleteTopicsGuard(RowsGuard):
    """DeleteTopics: a topic that is given by its id is named only to who may describe it."""

    asked, answered = "topics", "responses"

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        client = self.client(caller)
        if self.is_free(client):
            return self.handler(request, caller, reply_to)
        return self._named(client, request, caller, reply_to)

    def _named(
        self, client: AskingClient, request: Any, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Any]:
        if request.topic_names:
            state = delete_topics.DeleteTopicState
            request.topics = yield from each(request.topic_names, lambda name: state(name=name))
            request.topic_names = []
        return (yield from self.split(client, request, caller, reply_to))

    def decide(
        self, client: AskingClient, rows: list[Any], find: Callable[[Any], Resource | None]
    ) -> Slices[DecidedRows]:
        times = yield from counts(rows, _identity)
        split, pace = DecidedRows(client), Pace()
        for row in taken(rows):
            by_id = row.topic_id != NO_ID
            is_error = times[_identity(row)] > 1 or by_id == (row.name is not None)
            denied = None if is_error else self._result(client, row, by_id=by_id)
            if denied is None:
                split.allowed.append(row)
            else:
                split.denied.append(denied)
            if pace.spent(DECISION):
                yield
        return split

    def _result(self, client: AskingClient, row: Any, *, by_id: bool) -> Any:
        """Return the result of a topic that the client may not delete, or None."""
        catalog = self.topics.catalog
        if by_id:
            topic = catalog.by_id.get(row.topic_id)
            if topic is None or client.has(Operation.DELETE, _TOPIC, topic.name):
                return None
            may_see = client.may(Operation.DESCRIBE, _TOPIC, topic.name)
            return _not_deleted(topic.name if may_see else None, row.topic_id)
        if not client.has(Operation.DESCRIBE, _TOPIC, row.name):
            return _not_deleted(row.name, NO_ID)
        if row.name not in catalog.by_name or client.has(Operation.DELETE, _TOPIC, row.name):
            return None
        return _not_deleted(row.name, NO_ID)


def _identity(row: Any) -> Hashable:
    """Return what identifies a topic. With a name and an id, a row is an error anyway."""
    name: str | bytes = row.topic_id if row.name is None else row.name
    return name


def _not_deleted(name: str | None, topic_id: bytes) -> Any:
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=_DENIED, error_message=WORDS[_DENIED]
    )


# -- configs -------------------------------------------------------------------------------------

_KINDS: Final = {ResourceType.TOPIC: ResourceKind.TOPIC, ResourceType.GROUP: ResourceKind.GROUP}
_TYPES: Final = frozenset(ResourceType)


class ConfigsGuard(RowsGuard):
    """An API about configs: of topics and groups by name, of all others on the cluster."""

    asked = "resources"

    def resource(self, row: Any) -> Resource | None:
        if row.resource_type not in _TYPES:
            return None
        operation = self.each[0].operation
        kind = _KINDS.get(row.resource_type)
        if kind is None:
            return operation, ResourceKind.CLUSTER, CLUSTER_NAME
        return operation, kind, row.resource_name

    def identity(self, row: Any) -> Hashable:
        return row.resource_type, row.resource_name


class DescribeConfigsGuard(ConfigsGuard):
    """DescribeConfigs."""

    answered = "results"

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return describe_configs.DescribeConfigsResult(
            error_code=error,
            error_message=WORDS[error],
            resource_type=row.resource_type,
            resource_name=row.resource_name,
        )

    def decide(
        self, client: AskingClient, rows: list[Any], find: Callable[[Any], Resource | None]
    ) -> Slices[DecidedRows]:
        """One resource of an unknown kind makes the whole request an error, whoever asks."""
        if any((yield from each(rows, lambda row: row.resource_type not in _TYPES))):
            return DecidedRows(client, list(rows))
        return (yield from super().decide(client, rows, find))


class AlterConfigsGuard(ConfigsGuard):
    """AlterConfigs and IncrementalAlterConfigs: resources named twice are refused whoever asks."""

    answered = "responses"
    order = Order.ASKED
    repeats_are_errors = True

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return alter_configs.AlterConfigsResourceResponse(
            error_code=error,
            error_message=WORDS[error],
            resource_type=row.resource_type,
            resource_name=row.resource_name,
        )


class InitProducerIdGuard(Guard):
    """InitProducerId: a right on the transactional id; without one, IDEMPOTENT_WRITE on the cluster
    or WRITE on any topic (KIP-679).
    """

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        client, name = self.client(caller), request.transactional_id
        kind = ResourceKind.TRANSACTIONAL_ID
        if name is not None:
            if not client.has(Operation.WRITE, kind, name):
                return _no_producer_id(ERRORS[kind])
        elif not client.may_on_cluster(Operation.IDEMPOTENT_WRITE):
            return self._with_topic(client, request, caller, reply_to)
        return self.handler(request, caller, reply_to)

    def _with_topic(
        self, client: AskingClient, request: Any, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Any]:
        if not (yield from client.may_any(Operation.WRITE, ResourceKind.TOPIC)):
            client.has_on_cluster(Operation.IDEMPOTENT_WRITE)
            return _no_producer_id(ERRORS[ResourceKind.CLUSTER])
        return self.handler(request, caller, reply_to)


def _no_producer_id(error: ErrorCode) -> Any:
    return init_producer_id.InitProducerIdResponse(
        error_code=error, producer_id=-1, producer_epoch=-1
    )
