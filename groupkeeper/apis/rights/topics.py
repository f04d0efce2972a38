"""Guards of APIs that find, create, change and delete topics.

Who may not describe a topic does not learn whether it exists.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from groupkeeper.access.acls import CLUSTER_NAME
from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.rights.guard import ERRORS, ChangedResponse, Guard, Guarded, Resource
from groupkeeper.apis.rights.row_guard import DECISION, as_bulk, taken, visible
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages import describe_topic_partitions, metadata
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.slices import Pace, each
from groupkeeper.turns import Slices

NO_ID: Final = bytes(16)
IDS_SINCE: Final = 12
CREATION_CAN_BE_FORBIDDEN_SINCE: Final = 4

_TOPIC: Final = ResourceKind.TOPIC
_DENIED: Final = ERRORS[_TOPIC]


def with_operations(client: AskingClient, topic: Any) -> Any:
    """Tell what the client may do to a topic, if that was asked for."""
    if topic.topic_authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
        topic.topic_authorized_operations = client.operations(_TOPIC, topic.name)
    return topic


def cluster_operations(client: AskingClient) -> int:
    """Return what the client may do to the cluster, as bits; nothing if it may not describe it."""
    if not client.may_on_cluster(Operation.DESCRIBE):
        return 0
    return client.operations(ResourceKind.CLUSTER, CLUSTER_NAME)


class DescribeClusterGuard(Guard):
    """DescribeCluster: tells what the client may do to the cluster."""

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        response: Any = self.handler(request, caller, reply_to)
        if response.cluster_authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
            response.cluster_authorized_operations = cluster_operations(self.client(caller))
        return response


class MetadataGuard(Guard):
    """Metadata: leaves topics out of the list of all, refuses others by name; a topic is created
    only for who may create it.
    """

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._catalog = self.topics.catalog
        self._creates = self.topics.settings.auto_create_topics_enable
        self._behind = ChangedResponse(self.handler, self.turns)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Slices[Any]:
        """Implements `Handler`."""
        client, version, wanted = self.client(caller), caller.api_version, request.topics
        denied: list[Any] = []
        asks_for_all = wanted is None or (version == 0 and not wanted)
        if not asks_for_all and (version >= IDS_SINCE or not (yield from _have_ids(wanted))):
            allowed, denied = yield from self._decide(client, request, version)
            request.topics = allowed
            if not allowed and version == 0:  # whose empty list stands for all topics
                caller = Caller(1, caller.peer)
        return (
            yield from self._behind.ask(
                *(request, caller, reply_to), partial(self._changed, client, denied, asks_for_all)
            )
        )

    def _decide(
        self, client: AskingClient, request: Any, version: int
    ) -> Slices[tuple[list[Any], list[Any]]]:
        """Return the topics that are allowed, and the results of those that are denied."""
        may_create = not self._creates or client.may_on_cluster(Operation.CREATE)
        if version >= CREATION_CAN_BE_FORBIDDEN_SINCE and not request.allow_auto_topic_creation:
            may_create = True  # not asked for
        allowed, denied, pace = [], [], Pace()
        for topic in taken(request.topics):
            name = self._name(topic)
            if name is None:
                allowed.append(topic)
            elif not client.has(Operation.DESCRIBE, _TOPIC, name):
                denied.append(_denied(topic))
            elif may_create or name in self._catalog.by_name or client.has(*_creation(name)):
                allowed.append(topic)
            else:
                denied.append(_denied(topic, is_internal=name in RESERVED))
            if pace.spent(DECISION):
                yield
        return allowed, denied

    def _name(self, topic: Any) -> str | None:
        """Return the name of a topic of the request; None if it has an id that nobody knows."""
        if topic.topic_id == NO_ID and topic.name is not None:
            name: str = topic.name
            return name
        found = self._catalog.by_id.get(topic.topic_id)
        return None if found is None else found.name

    def _changed(
        self, client: AskingClient, denied: list[Any], asked_for_all: bool, response: Any
    ) -> Slices[Any]:
        topics = response.topics
        if asked_for_all:
            topics = yield from visible(
                topics, lambda topic: client.may(Operation.DESCRIBE, _TOPIC, topic.name)
            )
        topics = yield from each(topics, partial(with_operations, client))
        response.topics = as_bulk(topics + denied)
        if response.cluster_authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
            response.cluster_authorized_operations = cluster_operations(client)
        return response


def _creation(name: str) -> Resource:
    return Operation.CREATE, _TOPIC, name


def _have_ids(topics: Sequence[Any]) -> Slices[bool]:
    """Return whether any topic is identified by more than its name: too early for the version."""
    ids = yield from each(topics, lambda topic: topic.name is None or topic.topic_id != NO_ID)
    return any(ids)


def _denied(topic: Any, *, is_internal: bool = False) -> Any:
    """Make the result of a topic that is denied, which tells an id or a name, as it was asked."""
    by_id = topic.topic_id != NO_ID
    return metadata.MetadataResponseTopic(
        error_code=_DENIED,
        name=None if by_id else topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal,
    )


class DescribeTopicPartitionsGuard(Guard):
    """DescribeTopicPartitions: pages have topics only that the client may describe."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._behind = ChangedResponse(self.handler, self.turns)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Slices[Any]:
        """Implements `Handler`."""
        client, cursor = self.client(caller), request.cursor
        after = "" if cursor is None else cursor.topic_name
        if cursor is not None and not (yield from _is_valid(request)):
            return (yield from self._behind.ask(request, caller, reply_to, _unchanged))
        allowed, denied = yield from self._decide(client, request, after)
        if not allowed:
            return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=denied)
        if cursor is not None and not any((yield from each(allowed, lambda it: it.name == after))):
            request.cursor = None  # its topic is not shown: the page begins with the next one
        request.topics = allowed
        return (
            yield from self._behind.ask(
                request, caller, reply_to, partial(self._changed, client, denied)
            )
        )

    def _decide(
        self, client: AskingClient, request: Any, after: str
    ) -> Slices[tuple[list[Any], list[Any]]]:
        """Return the topics that are allowed, and the results of those that are denied."""
        wants_all, wanted = not request.topics, request.topics
        if wants_all:
            wanted = yield from each(list(self.topics.catalog.by_name), _named)
        allowed, denied, pace = [], [], Pace()
        for topic in taken(wanted):
            if topic.name >= after:
                if wants_all:
                    if client.may(Operation.DESCRIBE, _TOPIC, topic.name):
                        allowed.append(topic)
                elif client.has(Operation.DESCRIBE, _TOPIC, topic.name):
                    allowed.append(topic)
                else:
                    denied.append(_no_partitions(topic.name))
            if pace.spent(DECISION):
                yield
        return allowed, denied

    def _changed(self, client: AskingClient, denied: list[Any], response: Any) -> Slices[Any]:
        topics = yield from each(response.topics, partial(with_operations, client))
        response.topics = as_bulk(topics + denied)
        return response


def _is_valid(request: Any) -> Slices[bool]:
    """Return whether a page can begin at the cursor, which has to be one of the topics named."""
    cursor = request.cursor
    named = yield from each(request.topics, lambda topic: topic.name == cursor.topic_name)
    return cursor.partition_index >= 0 and (not named or any(named))


def _unchanged(response: Any) -> Slices[Any]:
    yield from ()
    return response


def _named(name: str) -> Any:
    return describe_topic_partitions.TopicRequest(name=name)


def _no_partitions(name: str) -> Any:
    return describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
        error_code=_DENIED, name=name
    )
