"""Metadata: describes the broker and the topics; creates missing topics if that is allowed.

One broker leads all partitions and is their only replica. Partitions of `__consumer_offsets` that
it cannot serve have no leader, as in a Kafka cluster without a live replica. Source: Kafka's
`KafkaApis.handleTopicMetadataRequest`; KIP-204 (creation), KIP-430 (operations), KIP-516 (ids).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.refusals import Refused
from groupkeeper.topics.slices import Item, Pace, each
from groupkeeper.topics.topic_admin import MAX_PARTITIONS
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

Unserved = Callable[[], Collection[int]]
"""Returns the partitions of `__consumer_offsets` that have no leader now."""

NO_LEADER: Final = -1

_NO_ID: Final = bytes(16)
_NULL_MEANS_ALL_SINCE: Final = 1
_CREATION_CAN_BE_FORBIDDEN_SINCE: Final = 4
_LIMIT_REACHED: Final = ErrorCode.POLICY_VIOLATION
_IDS_SINCE: Final = 12
"""First version with ids: versions 10 and 11 have the field, but brokers refuse ids in it."""

# Bit n stands for Kafka's AclOperation n; without an authorizer all operations of the resource are
# allowed.
TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


class MetadataHandler:
    """Answers Metadata."""

    def __init__(self, topics: Topics, node: Node, unserved: Unserved) -> None:
        self._admin = topics.admin
        self._unserved = unserved
        self._catalog = topics.catalog
        self._node = node
        auto_create = topics.settings.auto_create_topics_enable
        self._auto_create_partitions = topics.settings.num_partitions if auto_create else None
        """None if topics are not created."""
        self._response_tasks = topics.response_tasks
        self._lines = AuditLines()
        self._shared: list[MetadataResponsePartition] = []
        """Partitions of ordinary topics differ by index only, so all responses share them."""

    def handle(
        self, request: MetadataRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Return the response, or None if topics have to be created first."""
        version = caller.api_version
        if _asks_for_all(request, version):
            topics = yield from self._each(list(self._catalog.by_name.values()), self._topic)
            return (yield from self._answer(request, caller, topics))
        assert request.topics is not None, "null asks for all"
        wanted = yield from _distinct(request.topics)
        if version < _IDS_SINCE and (yield from _have_ids(wanted)):
            topics = yield from each(wanted, partial(_refused, error=ErrorCode.INVALID_REQUEST))
            return (yield from self._answer(request, caller, topics))
        missing = yield from self._to_create(request, wanted, version)
        if missing:
            self._response_tasks.start(
                self._create_and_answer(request, caller, wanted, missing),
                reply_to,
                partial(server_failed, request, version),
            )
            return None
        topics = yield from self._each(wanted, self._found)
        return (yield from self._answer(request, caller, topics))

    def _to_create(
        self, request: MetadataRequest, wanted: Iterable[MetadataRequestTopic], version: int
    ) -> Slices[list[str]]:
        allowed = version < _CREATION_CAN_BE_FORBIDDEN_SINCE or request.allow_auto_topic_creation
        if not allowed or self._auto_create_partitions is None:
            return []
        names = yield from each(wanted, self._missing_name)
        return [name for name in names if name is not None]

    def _missing_name(self, topic: MetadataRequestTopic) -> str | None:
        """Return the name of a missing topic that can be created, or None."""
        name = topic.name
        if name is None or topic.topic_id != _NO_ID or name in self._catalog.by_name:
            return None
        return name if self._admin.check_name(name) is None else None

    async def _create_and_answer(
        self,
        request: MetadataRequest,
        caller: Caller,
        wanted: list[MetadataRequestTopic],
        missing: list[str],
    ) -> MetadataResponse:
        partitions = self._auto_create_partitions
        assert partitions is not None, "creation is allowed"
        turns = self._response_tasks.turns
        most = MAX_PARTITIONS // partitions
        refused = dict.fromkeys(missing[most:], _LIMIT_REACHED)
        await self._admin.await_deletion(missing[:most])
        async with self._admin.changing:
            # Another request may have created some of them meanwhile.
            free = await turns.run(each(missing[:most], self._is_free))
            names_free = [name for name, is_free in zip(missing, free, strict=False) if is_free]
            distinct = {names.collision_key(name): name for name in names_free}
            new = await turns.run(self._new_topics(distinct.values(), partitions, refused))
            error = await self._admin.create(new) if new else ErrorCode.NONE
        if error != ErrorCode.NONE:
            refused.update(dict.fromkeys(missing[:most], error))
        elif new:
            shown = [topic.name for topic in new[:SHOWN]]
            self._lines.tell("topics created", caller.peer, shown, len(new))
        return await turns.run(self._found_or_refused(request, caller, wanted, refused))

    def _new_topics(
        self, names: Iterable[str], partitions: int, refused: dict[str, ErrorCode]
    ) -> Slices[list[Topic]]:
        """Make the new topics, as many as the server's limits allow."""
        capacity = self._admin.capacity()
        new = []

        def make(name: str) -> None:
            try:
                capacity.take(1, partitions)
            except Refused as failure:
                refused[name] = failure.refusal.error
            else:
                new.append(self._admin.new_topic(name, partitions, {}))

        yield from each(names, make)
        return new

    def _found_or_refused(
        self,
        request: MetadataRequest,
        caller: Caller,
        wanted: list[MetadataRequestTopic],
        refused: Mapping[str, ErrorCode],
    ) -> Slices[MetadataResponse]:
        def answer(topic: MetadataRequestTopic) -> MetadataResponseTopic:
            error = refused.get(topic.name) if topic.name is not None else None
            return self._found(topic) if error is None else _refused(topic, error)

        topics = yield from self._each(wanted, answer)
        return (yield from self._answer(request, caller, topics))

    def _is_free(self, name: str) -> bool:
        return (
            name not in self._catalog.by_name
            and not self._admin.is_being_deleted(name)
            and self._admin.check_name(name) is None
        )

    def _found(self, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
        """Return the topic of this name or id, or an error."""
        # As in Kafka, a name beside an id is ignored: the Java client sends "".
        if wanted.name is None or wanted.topic_id != _NO_ID:
            topic = self._catalog.by_id.get(wanted.topic_id)
            return self._topic(topic) if topic else _refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        topic = self._catalog.by_name.get(wanted.name)
        if topic is not None:
            return self._topic(topic)
        if self._admin.check_name(wanted.name) is not None:
            return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _topic(self, topic: Topic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=self._partitions(topic),
        )

    def _partitions(self, topic: Topic) -> list[MetadataResponsePartition]:
        if topic.internal:  # its partitions have different epochs
            epochs = (self._admin.leader_epoch(topic, at) for at in range(topic.partition_count))
            rows = [self._partition(index, epoch) for index, epoch in enumerate(epochs)]
            for index in self._unserved() if topic.name == names.GROUP_TOPIC else ():
                rows[index].error_code = ErrorCode.LEADER_NOT_AVAILABLE
                rows[index].leader_id, rows[index].isr_nodes = NO_LEADER, []
            return rows
        return self._shared[: topic.partition_count]

    def _each(
        self, items: Iterable[Item], answer: Callable[[Item], MetadataResponseTopic]
    ) -> Slices[list[MetadataResponseTopic]]:
        """Return `answer(item)` of every item, with enough shared partitions for it."""
        pace = Pace()
        topics = []
        for item in items:
            # Checked for each item: topics are created and grow between two slices.
            while len(self._shared) < self._catalog.widest:
                row = self._partition(len(self._shared), self._catalog.leader_epoch)
                self._shared.append(row)
                if pace.spent():
                    yield
            topics.append(answer(item))
            if pace.spent():
                yield
        return topics

    def _partition(self, index: int, epoch: int) -> MetadataResponsePartition:
        node_id = self._node.node_id
        return MetadataResponsePartition(
            partition_index=index,
            leader_id=node_id,
            leader_epoch=epoch,
            replica_nodes=[node_id],
            isr_nodes=[node_id],
        )

    def _answer(
        self, request: MetadataRequest, caller: Caller, topics: list[MetadataResponseTopic]
    ) -> Slices[MetadataResponse]:
        if request.include_topic_authorized_operations:
            yield from each(topics, _authorize)
        host, port = self._node.address(caller.peer.listener)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=self._node.node_id, host=host, port=port)],
            cluster_id=self._catalog.cluster_id,
            controller_id=self._node.node_id,
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_OMITTED,
        )


def _distinct(topics: Iterable[MetadataRequestTopic]) -> Slices[list[MetadataRequestTopic]]:
    wanted: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    yield from each(topics, lambda topic: wanted.update({(topic.name, topic.topic_id): topic}))
    return list(wanted.values())


def _have_ids(wanted: Iterable[MetadataRequestTopic]) -> Slices[bool]:
    """Return whether any topic is identified by more than its name."""
    ids = yield from each(wanted, lambda topic: topic.name is None or topic.topic_id != _NO_ID)
    return any(ids)


def _authorize(topic: MetadataResponseTopic) -> None:
    if topic.error_code == ErrorCode.NONE:
        topic.topic_authorized_operations = TOPIC_OPERATIONS


def _asks_for_all(request: MetadataRequest, version: int) -> bool:
    if version < _NULL_MEANS_ALL_SINCE:
        return not request.topics
    return request.topics is None


def _refused(wanted: MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic:
    # All versions with ids can encode a null name.
    name = None if error == ErrorCode.UNKNOWN_TOPIC_ID else wanted.name or ""
    return MetadataResponseTopic(error_code=error, name=name, topic_id=wanted.topic_id)
