"""Restricts a node of a test broker to the partitions that it leads.

Other partitions are removed from requests, and refused in the responses.
Source: Kafka's `Partition.getLocalLog`; KIP-320 (leader epochs), KIP-951 (leaders in errors).
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from groupkeeper.testing.cluster.leadership import Cluster
from groupkeeper.testing.faults.entries import RequestItem, SplitRequest, blank, entries_of
from groupkeeper.testing.faults.levels import Level, Named
from groupkeeper.testing.wire.tap import Answer, Exchange
from groupkeeper.topics.catalog import Topic

_Row = Any
"""A struct of a request or response. Any: each API has its own."""

PARTITION_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
)
_DEPTH: Final = 2
"""Level of partitions in these requests and responses, below the request and topics."""
_NO_EPOCH: Final = -1


_NAMES_LEADERS_SINCE: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
"""First versions with the leader's address in error responses (KIP-951)."""


def ask_leader(cluster: Cluster, exchange: Exchange, proceed: Callable[[], None]) -> None:
    """Serve the partitions that the node leads, and refuse all others."""
    asked = _Asked(cluster, exchange)
    rest = asked.rest()
    if not asked.refuses:
        exchange.request = rest
        proceed()
    elif getattr(exchange.request, "acks", None) == 0:
        _hang_up(cluster, exchange)
    elif rest is not None:
        if exchange.key == ApiKey.FETCH:
            rest.max_wait_ms = 0  # as after any error of a partition
        exchange.request = rest
        exchange.on_answer(asked.add)
        proceed()
    else:
        exchange.answer(asked.add(None))


def _hang_up(cluster: Cluster, exchange: Exchange) -> None:
    """Close the connection of a Produce with acks=0, as Kafka does, to trigger new metadata."""
    for connection in list(cluster.server.listener.connections.opened):
        if connection.peer.link is exchange.caller.peer.link:
            connection.close()


class _Asked:
    """A request about partitions, split by leadership."""

    def __init__(self, cluster: Cluster, exchange: Exchange) -> None:
        self._cluster = cluster
        self._node = cluster.node_of(exchange.caller.peer.listener)
        version, by_id = exchange.caller.api_version, cluster.server.topics.catalog.by_id
        since = _NAMES_LEADERS_SINCE.get(exchange.key)
        self._names_leaders = since is not None and version >= since
        self._split = SplitRequest(entries_of(exchange.request, version, by_id), version, by_id)
        self._errors: dict[Named, ErrorCode] = {}
        """Errors of the refused partitions."""
        self._split.choose(_DEPTH, self._is_refused)

    @property
    def refuses(self) -> bool:
        """Whether any partition is refused."""
        return self._split.has_chosen

    def rest(self) -> _Row | None:
        """Return the request without refused partitions; None if nothing is left. Leader epochs are
        removed, since the server's own epochs do not count moves.
        """
        rest = copy(self._split.rest())
        if rest is not None:
            topics, partitions = (level.array or "" for level in self._split.asked[1:])
            rows = [copy(each) for each in getattr(rest, topics)]
            for row in rows:
                setattr(row, partitions, [*map(_without_epoch, getattr(row, partitions))])
            setattr(rest, topics, rows)
        return rest

    def _is_refused(self, entry: RequestItem) -> bool:
        """Check the leader epoch and then the leader, in Kafka's order; note the error."""
        topic, index = self._topic(entry.names), entry.names.partition
        current = None if topic is None or index is None else self._epoch(topic, index)
        if topic is None or index is None or current is None:
            return False  # the server reports the unknown partition
        epoch = getattr(entry.item, "current_leader_epoch", _NO_EPOCH)
        error = ErrorCode.NONE
        if epoch > _NO_EPOCH and epoch != current:
            fenced = epoch < current
            error = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif self._cluster.leader(topic, index).node != self._node:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error:
            self._errors[entry.names] = error
        return bool(error)

    def _topic(self, names: Named) -> Topic | None:
        return self._cluster.server.topics.catalog.by_name.get(names.topic or "")

    def _epoch(self, topic: Topic, index: int) -> int | None:
        """Return the leader epoch of a partition; None if it does not exist."""
        partition = self._cluster.server.topics.partitions.find(topic.name, index)
        if partition is None:
            return None
        return partition.leader_epoch + self._cluster.leader(topic, index).moves

    # -- the answer ----------------------------------------------------------------------------

    def add(self, answer: Answer | None) -> Answer:
        """Add the refused partitions to a response (None if nothing was served)."""
        if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return answer  # an error of the whole request
        answer = copy(self._split.merged(answer, self._refused))
        if self._names_leaders:
            self._name_endpoints(answer)
        return answer

    def _refused(self, level: Level, names: Named, source: _Row) -> _Row:
        row = blank(level, names, source)
        row.error_code = self._errors.get(names, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic, index = self._topic(names), names.partition
        if self._names_leaders and topic is not None and index is not None:
            node, epoch = self._cluster.leader(topic, index).node, self._epoch(topic, index)
            known = _NO_EPOCH if epoch is None else epoch
            row.current_leader = LeaderIdAndEpoch(leader_id=node, leader_epoch=known)
        return row

    def _name_endpoints(self, answer: Answer) -> None:
        """Add the addresses of the leaders of refused partitions."""
        _, topics, partitions = self._split.answered
        rows = [
            each
            for row in getattr(answer, topics.array or "")
            for each in getattr(row, partitions.array or "")
        ]
        nodes = {each.current_leader.leader_id for each in rows if each.error_code} - {-1}
        answer.node_endpoints = [
            NodeEndpoint(node_id=node, host=host, port=port)
            for node in sorted(nodes)
            for host, port in [self._cluster.address(node)]
        ]


def _without_epoch(row: _Row) -> _Row:
    if getattr(row, "current_leader_epoch", _NO_EPOCH) == _NO_EPOCH:
        return row
    row = copy(row)
    row.current_leader_epoch = _NO_EPOCH
    return row
