"""Requests about partitions at a node of a test broker: it serves those that it leads.

The others are taken out of the request, and refused in its answer.
Source: Kafka's `Partition.getLocalLog`; KIP-320 (leader epochs), KIP-951 (leaders in errors).
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from groupkeeper.testing.cluster.leadership import Cluster
from groupkeeper.testing.tap import Answer, Exchange
from groupkeeper.topics.catalog import Topic

Row = Any
"""A part of a request or an answer. Any: each API has its own."""

_NO_EPOCH: Final = -1
_NO_ID: Final = bytes(16)


@dataclass(slots=True, frozen=True)
class Form:
    """Where the partitions are in an API's messages. Any: its classes."""

    asked: tuple[str, str, str]
    """Fields of the request: topics, and in them partitions, and in these the index."""
    name: str
    """Field of a topic's row, in requests and answers."""
    answered: tuple[str, str, str]
    """As `asked`, of the answer."""
    response: Callable[..., Any]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    leaders: tuple[int, Callable[..., Any], Callable[..., Any]] | None = None
    """The version since which an error names the leader; classes for it and its address."""
    waits: bool = False
    """It may be answered long after it came: the leader may be another one by then."""


_IN_TOPICS: Final = ("topics", "partitions", "partition_index")

FORMS: Final[Mapping[int, Form]] = {
    ApiKey.PRODUCE: Form(
        ("topic_data", "partition_data", "index"),
        "name",
        ("responses", "partition_responses", "index"),
        produce.ProduceResponse,
        produce.TopicProduceResponse,
        lambda **row: produce.PartitionProduceResponse(base_offset=-1, **row),
        (10, produce.LeaderIdAndEpoch, produce.NodeEndpoint),
    ),
    ApiKey.FETCH: Form(
        ("topics", "partitions", "partition"),
        "topic",
        ("responses", "partitions", "partition_index"),
        fetch.FetchResponse,
        fetch.FetchableTopicResponse,
        lambda **row: fetch.PartitionData(high_watermark=-1, records=b"", **row),
        (16, fetch.LeaderIdAndEpoch, fetch.NodeEndpoint),
        waits=True,
    ),
    ApiKey.LIST_OFFSETS: Form(
        _IN_TOPICS,
        "name",
        _IN_TOPICS,
        list_offsets.ListOffsetsResponse,
        list_offsets.ListOffsetsTopicResponse,
        list_offsets.ListOffsetsPartitionResponse,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Form(
        ("topics", "partitions", "partition"),
        "topic",
        ("topics", "partitions", "partition"),
        offset_for_leader_epoch.OffsetForLeaderEpochResponse,
        offset_for_leader_epoch.OffsetForLeaderTopicResult,
        offset_for_leader_epoch.EpochEndOffset,
    ),
    ApiKey.DELETE_RECORDS: Form(
        _IN_TOPICS,
        "name",
        _IN_TOPICS,
        delete_records.DeleteRecordsResponse,
        delete_records.DeleteRecordsTopicResult,
        lambda **row: delete_records.DeleteRecordsPartitionResult(low_watermark=-1, **row),
    ),
}


def ask_leader(
    cluster: Cluster, form: Form, exchange: Exchange, proceed: Callable[[], None]
) -> None:
    """Serve what the node leads, and refuse the rest of the request."""
    asked = _Asked(cluster, form, exchange)
    rest = asked.rest()
    if not asked.refused:
        exchange.request = rest
        if form.waits:
            asked.wait_with(rest)
            exchange.on_answer(asked.add)
        proceed()
    elif getattr(rest, "acks", None) == 0:
        _hang_up(cluster, exchange)
    elif getattr(rest, form.asked[0]):
        if form.waits:
            rest.max_wait_ms = 0  # as after any error of a partition
        exchange.request = rest
        exchange.on_answer(asked.add)
        proceed()
    else:
        exchange.answer(asked.add(form.response()))


def _hang_up(cluster: Cluster, exchange: Exchange) -> None:
    """As Kafka does with a Produce that wants no answer, so that the client looks again."""
    for connection in list(cluster.server.listener.connections.opened):
        if connection.peer.link is exchange.caller.peer.link:
            connection.close()


class _Asked:
    """One request about partitions."""

    def __init__(self, cluster: Cluster, form: Form, exchange: Exchange) -> None:
        self._cluster = cluster
        self._form = form
        self._request = exchange.request
        self._version = exchange.caller.api_version
        self._node = cluster.node_of(exchange.caller.peer.listener)
        self.refused: list[tuple[Row, Row]] = []
        """The row of a topic in the request, and that of a partition in the answer."""

    def wait_with(self, rest: Row) -> None:
        """The server may let the rest wait."""
        self._rest = rest
        self._cluster.waiting.add(self)

    def stop_waiting(self) -> None:
        """See `Waiting`. The server looks at the field when it begins to wait."""
        self._rest.max_wait_ms = 0

    def rest(self) -> Row:
        """The request without the partitions that are refused; epochs are those of the server."""
        topics, partitions, index = self._form.asked
        rest, kept = copy(self._request), []
        for row in getattr(rest, topics):
            topic, here = self._topic(row), []
            for each in getattr(row, partitions):
                error = self._check(topic, getattr(each, index), each)
                if error != ErrorCode.NONE:
                    self.refused.append((row, self._refused(topic, getattr(each, index), error)))
                else:
                    here.append(_without_epoch(each))
            if here:
                kept.append(copy(row))
                setattr(kept[-1], partitions, here)
        setattr(rest, topics, kept)
        return rest

    def _topic(self, row: Row) -> Topic | None:
        """By id or name; None: the server refuses it."""
        catalog = self._cluster.server.topics.catalog
        topic_id = getattr(row, "topic_id", _NO_ID)
        if topic_id != _NO_ID:
            return catalog.by_id.get(topic_id)
        return catalog.by_name.get(getattr(row, self._form.name))

    def _check(self, topic: Topic | None, index: int, row: Row) -> ErrorCode:
        """The epoch first, as in Kafka."""
        epoch = getattr(row, "current_leader_epoch", _NO_EPOCH)
        current = None if topic is None else self._epoch(topic, index)
        if topic is None or current is None:
            return ErrorCode.NONE
        if epoch > _NO_EPOCH and epoch != current:
            fenced = epoch < current
            return ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        is_led = self._cluster.leader(topic, index).node == self._node
        return ErrorCode.NONE if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _epoch(self, topic: Topic, index: int) -> int | None:
        """That of the leader; None without such a partition."""
        partition = self._cluster.server.topics.partitions.find(topic.name, index)
        if partition is None:
            return None
        return partition.leader_epoch + self._cluster.leader(topic, index).moves

    def _refused(self, topic: Topic | None, index: int, error: ErrorCode) -> Row:
        row = self._form.partition(**{self._form.answered[2]: index}, error_code=error)
        leaders = self._form.leaders
        if leaders is not None and self._version >= leaders[0] and topic is not None:
            node, epoch = self._cluster.leader(topic, index).node, self._epoch(topic, index)
            row.current_leader = leaders[1](leader_id=node, leader_epoch=epoch)
        return row

    def add(self, answer: Answer) -> Answer:
        """Refusals to the answer, also of partitions whose leader has changed meanwhile."""
        if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return answer  # of the whole request
        topics, partitions, _ = self._form.answered
        rows = {self._key(row): row for row in getattr(answer, topics)}
        if self._form.waits:
            for row in rows.values():
                setattr(row, partitions, [self._again(row, each) for each in row.partitions])
        for asked, refused in self.refused:
            row = rows.get(self._key(asked))
            if row is None:
                row = rows[self._key(asked)] = self._new_row(asked)
            getattr(row, partitions).append(refused)
        setattr(answer, topics, list(rows.values()))
        self._name_endpoints(answer)
        return answer

    def _key(self, row: Row) -> object:
        topic_id = getattr(row, "topic_id", _NO_ID)
        return getattr(row, self._form.name) if topic_id == _NO_ID else topic_id

    def _new_row(self, asked: Row) -> Row:
        ids = {"topic_id": asked.topic_id} if hasattr(asked, "topic_id") else {}
        names = {self._form.name: getattr(asked, self._form.name)}
        return self._form.topic(**names, **ids, **{self._form.answered[1]: []})

    def _again(self, topic_row: Row, row: Row) -> Row:
        topic = self._topic(topic_row)
        if row.error_code != ErrorCode.NONE or topic is None:
            return row
        if self._cluster.leader(topic, row.partition_index).node == self._node:
            return row
        return self._refused(topic, row.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _name_endpoints(self, answer: Answer) -> None:
        """Where the leaders of refused partitions are."""
        leaders = self._form.leaders
        if leaders is None or self._version < leaders[0]:
            return
        topics, partitions, _ = self._form.answered
        rows = [each for row in getattr(answer, topics) for each in getattr(row, partitions)]
        nodes = {each.current_leader.leader_id for each in rows if each.error_code} - {-1}
        answer.node_endpoints = []
        for node in sorted(nodes):
            host, port = self._cluster.address(node)
            answer.node_endpoints.append(leaders[2](node_id=node, host=host, port=port))


def _without_epoch(row: Row) -> Row:
    """The server's own epochs know nothing of moves."""
    if getattr(row, "current_leader_epoch", _NO_EPOCH) == _NO_EPOCH:
        return row
    row = copy(row)
    row.current_leader_epoch = _NO_EPOCH
    return row
