"""Metadata: who the broker is and what topics there are; makes topics that clients ask for, where
that is allowed.

Not the catalog and not its changes. One broker leads everything, so replicas and leaders say
nothing new.
Source: Kafka's ``KafkaApis.handleTopicMetadataRequest``; KIP-204 (creation), KIP-430 (operations),
KIP-516 (ids).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.offload import LateAnswers
from groupkeeper.topics.topic_admin import MAX_PARTITIONS, TopicAdmin
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NO_ID: Final = bytes(16)
_NULL_MEANS_ALL_SINCE: Final = 1
_CREATION_CAN_BE_FORBIDDEN_SINCE: Final = 4
_IDS_SINCE: Final = 12
"""Versions 10 and 11 have the field, but brokers refuse ids in it."""

# Bit n stands for Kafka's AclOperation n; without an authorizer everybody may do all that the
# resource knows.
TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


@dataclass(slots=True)
class Node:
    """This broker as clients see it."""

    node_id: int
    address: Callable[[], tuple[str, int]]
    """Advertised host and port; asked for each response, as the port is known after binding
    only."""


class Describing:
    """Answers Metadata."""

    def __init__(
        self,
        admin: TopicAdmin,
        node: Node,
        auto_create_partitions: int | None,
        late: LateAnswers,
    ) -> None:
        """Partitions of an auto-created topic, None: no auto-creation."""
        self._admin = admin
        self._catalog = admin.catalog
        self._node = node
        self._auto_create_partitions = auto_create_partitions
        self._late = late

    def handle(
        self, request: MetadataRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        """The response, or None when topics are created first."""
        version = caller.api_version
        if _asks_for_all(request, version):
            return self._answer(request, [self._topic(t) for t in self._catalog.by_name.values()])
        assert request.topics is not None, "null asks for all"
        wanted = list({(topic.name, topic.topic_id): topic for topic in request.topics}.values())
        if version < _IDS_SINCE and any(t.name is None or t.topic_id != _NO_ID for t in wanted):
            return self._answer(
                request, [_error(topic, ErrorCode.INVALID_REQUEST) for topic in wanted]
            )
        missing = self._to_create(request, wanted, version)
        if missing:
            self._late.start(
                self._create_and_answer(request, wanted, missing),
                reply_to,
                lambda: self._answer(
                    request, [_error(t, ErrorCode.UNKNOWN_SERVER_ERROR) for t in wanted]
                ),
            )
            return None
        return self._answer(request, [self._found(topic) for topic in wanted])

    def _to_create(
        self, request: MetadataRequest, wanted: Iterable[MetadataRequestTopic], version: int
    ) -> list[str]:
        allowed = version < _CREATION_CAN_BE_FORBIDDEN_SINCE or request.allow_auto_topic_creation
        if not allowed or self._auto_create_partitions is None:
            return []
        return [
            topic.name
            for topic in wanted
            if topic.name is not None
            and topic.topic_id == _NO_ID
            and topic.name not in self._catalog.by_name
            and self._admin.name_complaint(topic.name) is None
        ]

    async def _create_and_answer(
        self, request: MetadataRequest, wanted: list[MetadataRequestTopic], missing: list[str]
    ) -> MetadataResponse:
        partitions = self._auto_create_partitions
        assert partitions is not None, "creation is allowed"
        most = MAX_PARTITIONS // partitions
        refused = dict.fromkeys(missing[most:], ErrorCode.POLICY_VIOLATION)
        await self._admin.ended(missing[:most])
        async with self._admin.changing:
            # Somebody else may have made some of them while this request waited.
            new = {
                names.collision_key(name): self._admin.new_topic(name, partitions, {})
                for name in missing[:most]
                if self._is_free(name)
            }
            code = await self._admin.create(list(new.values())) if new else ErrorCode.NONE
        if code != ErrorCode.NONE:
            refused.update(dict.fromkeys(missing[:most], code))
        return self._answer(
            request,
            [
                _error(topic, refused[topic.name]) if topic.name in refused else self._found(topic)
                for topic in wanted
            ],
        )

    def _is_free(self, name: str) -> bool:
        return (
            name not in self._catalog.by_name
            and not self._admin.is_ending(name)
            and self._admin.name_complaint(name) is None
        )

    def _found(self, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
        """What there is under a name or an id, or why there is nothing."""
        # Beside an id the name does not count, as on a Kafka broker: Java's client sends "".
        if wanted.name is None or wanted.topic_id != _NO_ID:
            topic = self._catalog.by_id.get(wanted.topic_id)
            return self._topic(topic) if topic else _error(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        topic = self._catalog.by_name.get(wanted.name)
        if topic is not None:
            return self._topic(topic)
        if self._admin.name_complaint(wanted.name) is not None:
            return _error(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
        return _error(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _topic(self, topic: Topic) -> MetadataResponseTopic:
        node_id = self._node.node_id
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=node_id,
                    leader_epoch=self._admin.leader_epoch(topic, index),
                    replica_nodes=[node_id],
                    isr_nodes=[node_id],
                )
                for index in range(topic.partition_count)
            ],
        )

    def _answer(
        self, request: MetadataRequest, topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        host, port = self._node.address()
        if request.include_topic_authorized_operations:
            for topic in topics:
                if topic.error_code == ErrorCode.NONE:
                    topic.topic_authorized_operations = TOPIC_OPERATIONS
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=self._node.node_id, host=host, port=port)],
            cluster_id=self._catalog.cluster_id,
            controller_id=self._node.node_id,
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_OMITTED,
        )


def _asks_for_all(request: MetadataRequest, version: int) -> bool:
    if version < _NULL_MEANS_ALL_SINCE:
        return not request.topics
    return request.topics is None


def _error(wanted: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    # Only versions that can say null take an id.
    name = None if code == ErrorCode.UNKNOWN_TOPIC_ID else wanted.name or ""
    return MetadataResponseTopic(error_code=code, name=name, topic_id=wanted.topic_id)
