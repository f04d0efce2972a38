"""Requests about partitions at a node of a test broker: it serves those that it leads.

The others are taken out of the request, and refused in its answer.
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
from groupkeeper.testing.faults.levels import Level, Named, named
from groupkeeper.testing.wire.tap import Answer, Exchange
from groupkeeper.topics.catalog import Topic

_Row = Any
"""A part of a request or an answer. Any: each API has its own."""

PARTITION_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
)
_DEPTH: Final = 2
"""Of the partitions in their requests and answers: below the topics."""
_NO_EPOCH: Final = -1


_NAMES_LEADERS_SINCE: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
"""The version from which on an API names the leader in an error."""


def ask_leader(cluster: Cluster, exchange: Exchange, proceed: Callable[[], None]) -> None:
    """Serve what the node leads, and refuse the rest of the request."""
    asked = _Asked(cluster, exchange)
    waits = exchange.key == ApiKey.FETCH
    rest = asked.rest()
    if not asked.refuses:
        exchange.request = rest
        if waits:
            asked.wait_with(rest)
            exchange.on_answer(asked.add)
        proceed()
    elif getattr(exchange.request, "acks", None) == 0:
        _hang_up(cluster, exchange)
    elif rest is not None:
        if waits:
            rest.max_wait_ms = 0  # as after any error of a partition
        exchange.request = rest
        exchange.on_answer(asked.add)
        proceed()
    else:
        exchange.answer(asked.add(None))


def _hang_up(cluster: Cluster, exchange: Exchange) -> None:
    """As Kafka does with a Produce that wants no answer, so that the client looks again."""
    for connection in list(cluster.server.listener.connections.opened):
        if connection.peer.link is exchange.caller.peer.link:
            connection.close()


class _Asked:
    """One request about partitions."""

    def __init__(self, cluster: Cluster, exchange: Exchange) -> None:
        self._cluster = cluster
        self._key = exchange.key
        self._node = cluster.node_of(exchange.caller.peer.listener)
        version, by_id = exchange.caller.api_version, cluster.server.topics.catalog.by_id
        since = _NAMES_LEADERS_SINCE.get(exchange.key)
        self._names_leaders = since is not None and version >= since
        self._split = SplitRequest(entries_of(exchange.request, version, by_id), version, by_id)
        self._errors: dict[Named, ErrorCode] = {}
        """Of the partitions that are refused."""
        self._split.choose(_DEPTH, self._is_refused)

    @property
    def refuses(self) -> bool:
        """Whether it refuses anything."""
        return self._split.has_chosen

    def wait_with(self, rest: _Row) -> None:
        """The server may let the rest wait."""
        self._rest = rest
        self._cluster.waiting.add(self)

    def stop_waiting(self) -> None:
        """See `Waiting`. The server looks at the field when it begins to wait."""
        self._rest.max_wait_ms = 0

    def rest(self) -> _Row | None:
        """The request without the partitions that are refused; the server's own epochs know nothing
        of moves. None if nothing is left.
        """
        rest = copy(self._split.rest())
        if rest is not None:
            self._change(rest, self._split.asked, lambda _, row: _without_epoch(row))
        return rest

    def _change(
        self, message: _Row, levels: tuple[Level, ...], change: Callable[[_Row, _Row], _Row]
    ) -> None:
        """Replace the rows of partitions by what is made of a topic's row and each of them."""
        topics, partitions = (level.array or "" for level in levels[1:])
        rows = [copy(each) for each in getattr(message, topics)]
        for row in rows:
            setattr(row, partitions, [change(row, each) for each in getattr(row, partitions)])
        setattr(message, topics, rows)

    def _is_refused(self, entry: RequestItem) -> bool:
        """The epoch first, as in Kafka."""
        topic, index = self._topic(entry.names), entry.names.partition
        current = None if topic is None or index is None else self._epoch(topic, index)
        if topic is None or index is None or current is None:
            return False  # the server refuses it
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
        """That of the leader; None without such a partition."""
        partition = self._cluster.server.topics.partitions.find(topic.name, index)
        if partition is None:
            return None
        return partition.leader_epoch + self._cluster.leader(topic, index).moves

    # -- the answer ----------------------------------------------------------------------------

    def add(self, answer: Answer | None) -> Answer:
        """Refusals to the answer (None: there is none), also of partitions whose leader has changed
        meanwhile.
        """
        if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return answer  # of the whole request
        answer = copy(self._split.merged(answer, self._refused))
        if self._key == ApiKey.FETCH:
            self._change(answer, self._split.answered, self._again)
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

    def _again(self, topic_row: _Row, row: _Row) -> _Row:
        """A partition that was served, perhaps long after the request came."""
        by_id, level = self._split.topics_by_id, self._split.answered[_DEPTH]
        around = named(topic_row, self._split.answered[1], Named(), by_id)
        names = named(row, level, around, by_id)
        topic = self._topic(names)
        if row.error_code != ErrorCode.NONE or topic is None:
            return row
        if self._cluster.leader(topic, row.partition_index).node == self._node:
            return row
        return self._refused(level, names, row)

    def _name_endpoints(self, answer: Answer) -> None:
        """Where the leaders of refused partitions are."""
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
