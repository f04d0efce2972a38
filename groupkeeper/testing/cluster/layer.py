"""Makes one server respond like the nodes of a cluster: a layer of the tap.

Each connection belongs to a node. Groups that the node does not coordinate, and partitions that it
does not lead (see `partitions`), are refused with Kafka's errors; the rest of the request is
served. Cluster metadata names all nodes. Source: Kafka's `KafkaApis`, `GroupCoordinatorService`.
"""

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, Final

from groupkeeper.coordinator.apis import refuse
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import describe_cluster, metadata
from groupkeeper.testing.cluster.leadership import Cluster
from groupkeeper.testing.cluster.partitions import PARTITION_APIS, ask_leader
from groupkeeper.testing.faults.entries import SplitRequest, blank, entries_of
from groupkeeper.testing.faults.levels import Level, Named
from groupkeeper.testing.wire.tap import Answer, Exchange
from groupkeeper.topics.catalog import Topic

_Row = Any
"""A struct of a request or response. Any: each API has its own."""
Proceed = Callable[[], None]

_ONE_GROUP: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
)


class ClusterLayer:
    """The layer that turns one server into several nodes; see `Layer`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_key: dict[int, Callable[[Exchange, Proceed], None]] = {
            **dict.fromkeys(_ONE_GROUP, self._group),
            **dict.fromkeys(PARTITION_APIS, partial(ask_leader, cluster)),
            ApiKey.OFFSET_FETCH: self._offset_fetch,
            ApiKey.DESCRIBE_GROUPS: self._groups,
            ApiKey.DELETE_GROUPS: self._groups,
            ApiKey.LIST_GROUPS: partial(self._answered, self._list_groups),
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.METADATA: partial(self._answered, self._metadata),
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: partial(self._answered, self._topics),
            ApiKey.DESCRIBE_CLUSTER: partial(self._answered, self._describe_cluster),
            ApiKey.CREATE_TOPICS: self._create_topics,
        }

    def take(self, exchange: Exchange, proceed: Proceed) -> None:
        handle = self._by_key.get(exchange.key)
        if handle is None:
            proceed()
        else:
            handle(exchange, proceed)

    def _node(self, exchange: Exchange) -> int:
        return self._cluster.node_of(exchange.caller.peer.listener)

    def _answered(
        self, change: Callable[[Exchange, Answer], Answer], exchange: Exchange, proceed: Proceed
    ) -> None:
        """Pass the request on, and change only its response."""
        exchange.on_answer(partial(change, exchange))
        proceed()

    # -- groups ----------------------------------------------------------------------------------

    def _group(self, exchange: Exchange, proceed: Proceed) -> None:
        request = exchange.request
        if self._cluster.coordinator(request.group_id) == self._node(exchange):
            proceed()
        else:
            exchange.answer(refuse(request, exchange.caller, ErrorCode.NOT_COORDINATOR))

    def _offset_fetch(self, exchange: Exchange, proceed: Proceed) -> None:
        (self._groups if exchange.request.groups else self._group)(exchange, proceed)

    def _groups(self, exchange: Exchange, proceed: Proceed) -> None:
        """Handle a request for several groups, with a row each in the response."""
        at, coordinator = self._node(exchange), self._cluster.coordinator
        version = exchange.caller.api_version
        split = SplitRequest(entries_of(exchange.request, version, {}), version, {})
        split.choose(1, lambda entry: coordinator(entry.names.group or "") != at)

        def refused(level: Level, names: Named, source: _Row) -> _Row:
            row = blank(level, names, source)
            row.error_code = ErrorCode.NOT_COORDINATOR
            return row

        def add(answer: Answer | None) -> Answer:
            return split.merged(answer, refused)

        rest = split.rest()
        if rest is None:
            exchange.answer(add(None))
        else:
            exchange.request = rest
            exchange.on_answer(add)
            proceed()

    def _list_groups(self, exchange: Exchange, answer: Answer) -> Answer:
        at, coordinator = self._node(exchange), self._cluster.coordinator
        answer.groups = [each for each in answer.groups if coordinator(each.group_id) == at]
        return answer

    def _find_coordinator(self, exchange: Exchange, proceed: Proceed) -> None:
        key = exchange.request.key

        def change(answer: Answer) -> Answer:
            if exchange.caller.api_version < 4:
                self._place(answer, key)
            else:
                answer.coordinators = [*answer.coordinators]  # rows are made while they are read
                for each in answer.coordinators:
                    self._place(each, each.key)
            return answer

        exchange.on_answer(change)
        proceed()

    def _place(self, found: _Row, group_id: str) -> None:
        if found.error_code == ErrorCode.NONE:
            found.node_id = node = self._cluster.coordinator(group_id)
            found.host, found.port = self._cluster.address(node)

    # -- the cluster -----------------------------------------------------------------------------

    def _metadata(self, exchange: Exchange, answer: Answer) -> Answer:
        answer.brokers = [
            metadata.MetadataResponseBroker(node_id=node, host=host, port=port)
            for node, (host, port) in self._endpoints()
        ]
        answer.controller_id = self._cluster.up[0]
        return self._topics(exchange, answer)

    def _endpoints(self) -> Iterator[tuple[int, tuple[str, int]]]:
        return ((node, self._cluster.address(node)) for node in self._cluster.up)

    def _topics(self, _: Exchange, answer: Answer) -> Answer:
        """Set leaders and replicas, in copies: the response's rows are shared with others."""
        by_name = self._cluster.server.topics.catalog.by_name
        for each in answer.topics:
            topic = by_name.get(each.name) if each.error_code == ErrorCode.NONE else None
            if topic is not None:  # else it was deleted in the meantime
                each.partitions = [self._led(topic, row) for row in each.partitions]
        return answer

    def _led(self, topic: Topic, row: _Row) -> _Row:
        cluster, row = self._cluster, copy(row)
        row.leader_id, moves = cluster.leader(topic, row.partition_index)
        row.leader_epoch += moves
        row.replica_nodes = cluster.replicas(row.partition_index)
        row.isr_nodes = [node for node in row.replica_nodes if node in cluster.up]
        row.offline_replicas = [node for node in row.replica_nodes if node not in cluster.up]
        return row

    def _describe_cluster(self, _: Exchange, answer: Answer) -> Answer:
        if answer.error_code == ErrorCode.NONE:
            answer.controller_id = self._cluster.up[0]
            answer.brokers = [
                describe_cluster.DescribeClusterBroker(broker_id=node, host=host, port=port)
                for node, (host, port) in self._endpoints()
            ]
        return answer

    def _create_topics(self, exchange: Exchange, proceed: Proceed) -> None:
        """Map the replication factor to the server's single replica: all nodes share its data.
        Replicas that are assigned by hand are left to the server, which has node 0 only.
        """
        size = self._cluster.size
        exchange.request = request = copy(exchange.request)
        request.topics = [copy(each) for each in request.topics]
        for each in request.topics:
            if 1 <= each.replication_factor <= size:
                each.replication_factor = 1

        def change(answer: Answer) -> Answer:
            for each in answer.topics:
                if each.error_code == ErrorCode.NONE and each.replication_factor > 0:
                    each.replication_factor = size
                elif each.error_message:
                    registered = f"only {size} broker(s)"
                    each.error_message = each.error_message.replace("only 1 broker(s)", registered)
            return answer

        exchange.on_answer(change)
        proceed()
