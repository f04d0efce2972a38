"""Guards of APIs whose rows name groups, keys or topics; results of rows that are denied are those
that Kafka makes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from groupkeeper.apis.produce_answers import response_of
from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.rights.guard import ERRORS, WORDS, Resource, WholeRefusal
from groupkeeper.apis.rights.row_guard import (
    DecidedRows,
    FilterGuard,
    Order,
    RowsGuard,
    as_bulk,
    numbers_in,
    taken,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages import (
    delete_groups,
    delete_records,
    describe_groups,
    describe_transactions,
    fetch,
    find_coordinator,
    list_offsets,
    offset_commit,
    offset_delete,
    offset_for_leader_epoch,
    produce,
)
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.topics.slices import each
from groupkeeper.turns import Slices

ROWS_IN_A_SLICE: Final = 200
SEVERAL_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6

MakeResult = Callable[..., Any]


def partitions_with(
    make: MakeResult, error: ErrorCode, numbers: Sequence[int], field: str = "partition_index"
) -> list[Any]:
    """Return the results of partitions with an error, made when they are encoded. `field`: where a
    result has its number.
    """

    def result(number: int) -> Any:
        return make(**{field: number}, error_code=error)

    return mapped(result, numbers)


# -- groups --------------------------------------------------------------------------------------


class PartitionsGuard(RowsGuard):
    """An API whose rows are topics with partitions, each of which has a result."""

    asked = answered = "topics"
    inner = "partitions", "partition_index"
    # Any: the classes of one response, which take the fields of `denied`.
    topic: Any
    partition: Any

    def topic_fields(self, row: Any) -> Mapping[str, str]:
        """Return the fields that name the topic."""
        return {"name": row.name}

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        assert self.inner is not None, "topics have partitions"
        partitions = partitions_with(self.partition, error, numbers, self.inner[1])
        return self.topic(**self.topic_fields(row), partitions=partitions)


class OffsetCommitGuard(PartitionsGuard):
    """OffsetCommit: READ on the group and on each topic."""

    order = Order.FIRST
    topic = offset_commit.OffsetCommitResponseTopic
    partition = offset_commit.OffsetCommitResponsePartition


class OffsetDeleteGuard(PartitionsGuard):
    """OffsetDelete: DELETE on the group, READ on each topic."""

    order = Order.FIRST
    topic = offset_delete.OffsetDeleteResponseTopic
    partition = offset_delete.OffsetDeleteResponsePartition


class DescribeGroupsGuard(RowsGuard):
    """DescribeGroups: tells what the client may do to each group, if that was asked for."""

    asked = answered = "groups"
    order = Order.FIRST

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return describe_groups.DescribedGroup(error_code=error, group_id=row)

    def changes(self, request: Any) -> bool:
        asked: bool = request.include_authorized_operations
        return asked

    def merge(self, response: Any, split: DecidedRows) -> Slices[Any]:
        described = partial(_with_operations, split.client)
        response.groups = as_bulk((yield from each(response.groups, described)))
        return (yield from super().merge(response, split))


def _with_operations(client: AskingClient, group: Any) -> Any:
    if group.authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
        group.authorized_operations = client.operations(ResourceKind.GROUP, group.group_id)
    return group


class DeleteGroupsGuard(RowsGuard):
    """DeleteGroups."""

    asked, answered = "groups_names", "results"

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return delete_groups.DeletableGroupResult(group_id=row, error_code=error)

    def rows(self, request: Any, caller: Caller) -> list[Any]:
        """A group that is repeated has one result."""
        return list(dict.fromkeys(request.groups_names))


class ListGroupsGuard(FilterGuard):
    """ListGroups: without DESCRIBE on the cluster, the groups that the client may describe."""

    answered = "groups"

    def name(self, row: Any) -> str:
        name: str = row.group_id
        return name


# -- keys ----------------------------------------------------------------------------------------


class ListTransactionsGuard(FilterGuard):
    """ListTransactions."""

    answered = "transaction_states"

    def name(self, row: Any) -> str:
        name: str = row.transactional_id
        return name


class DescribeTransactionsGuard(RowsGuard):
    """DescribeTransactions."""

    asked, answered = "transactional_ids", "transaction_states"
    order = Order.ASKED

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return describe_transactions.TransactionState(error_code=error, transactional_id=row)


class FindCoordinatorGuard(RowsGuard):
    """FindCoordinator: what kind of resource the keys are depends on the request."""

    asked, answered = "coordinator_keys", "coordinators"
    order = Order.ASKED
    _KINDS: Final = {
        find_coordinator.KEY_TYPE_GROUP: ResourceKind.GROUP,
        find_coordinator.KEY_TYPE_TRANSACTION: ResourceKind.TRANSACTIONAL_ID,
    }

    def refused(self, client: AskingClient, request: Any, caller: Caller) -> WholeRefusal:
        version, kind = caller.api_version, self._KINDS.get(request.key_type)
        is_share = request.key_type == find_coordinator.KEY_TYPE_SHARE and version >= SHARE_SINCE
        if is_share and not client.has_on_cluster(Operation.CLUSTER_ACTION):
            return self._refused(request, ERRORS[ResourceKind.CLUSTER])
        if kind is None or version >= SEVERAL_KEYS_SINCE:
            return None
        if client.has(Operation.DESCRIBE, kind, request.key):
            return None
        error = ERRORS[kind]
        return find_coordinator.FindCoordinatorResponse(
            error_code=error, error_message=WORDS[error], node_id=-1, host="", port=-1
        )

    def _refused(self, request: Any, error: ErrorCode) -> Slices[Any]:
        keys, words = request.coordinator_keys, WORDS[error]
        rows = yield from each(keys, lambda key: _no_coordinator(key, error, words))
        return find_coordinator.FindCoordinatorResponse(coordinators=as_bulk(rows))

    def rows(self, request: Any, caller: Caller) -> list[Any]:
        several = caller.api_version >= SEVERAL_KEYS_SINCE and request.key_type in self._KINDS
        rows: list[Any] = request.coordinator_keys if several else []
        return rows

    def resources(self, request: Any) -> Callable[[Any], Resource | None]:
        kind = self._KINDS.get(request.key_type)
        return lambda key: None if kind is None else (Operation.DESCRIBE, kind, key)

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        return _no_coordinator(row, error)


def _no_coordinator(key: str, error: ErrorCode, words: str = "") -> Any:
    return find_coordinator.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=words
    )


# -- topics --------------------------------------------------------------------------------------


class ByIdGuard(RowsGuard):
    """An API whose newer versions give topics by id. A topic without a name is unknown."""

    name_field = "name"

    def topic_name(self, row: Any) -> str:
        """Return the topic's name; empty if its id is unknown."""
        topic = self.topics.catalog.by_id.get(row.topic_id)
        name: str = getattr(row, self.name_field) if topic is None else topic.name
        return name

    def resource(self, row: Any) -> Resource | None:
        [(operation, kind)] = self.each
        name = self.topic_name(row)
        return (operation, kind, name) if name else None

    def all_denied(self, rows: list[Any], error: ErrorCode) -> Slices[list[Any]]:
        """Return the results of rows that are denied together."""
        results = []
        assert self.inner is not None, "topics have partitions"
        for row in taken(rows):
            numbers = yield from numbers_in(row, *self.inner)
            results.append(self.denied(row, error, numbers))
            if not len(results) % ROWS_IN_A_SLICE:
                yield
        return as_bulk(results)


class ProduceGuard(ByIdGuard):
    """Produce: WRITE on each topic, and on the transactional id if there is one."""

    asked, answered = "topic_data", "responses"
    inner = "partition_data", "index"

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        make = partial(produce.PartitionProduceResponse, base_offset=-1)
        results = partitions_with(make, error, numbers, "index")
        return produce.TopicProduceResponse(
            name=row.name, topic_id=row.topic_id, partition_responses=results
        )

    def refused(self, client: AskingClient, request: Any, caller: Caller) -> WholeRefusal:
        name, kind = request.transactional_id, ResourceKind.TRANSACTIONAL_ID
        if name is None or client.has(Operation.WRITE, kind, name):
            return None
        return self._refused(request, ERRORS[kind])

    def _refused(self, request: Any, error: ErrorCode) -> Slices[Any]:
        return response_of(request, (yield from self.all_denied(request.topic_data, error)))


class FetchGuard(ByIdGuard):
    """Fetch: a follower needs CLUSTER_ACTION, a consumer READ on each topic."""

    asked, answered, name_field = "topics", "responses", "topic"
    inner = "partitions", "partition"

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        state = request.replica_state  # of version 15 and later
        if max(request.replica_id, -1 if state is None else state.replica_id) < 0:
            return super().handle(request, caller, reply_to)
        if self.client(caller).has_on_cluster(Operation.CLUSTER_ACTION):
            return self.handler(request, caller, reply_to)
        return self._refuse_follower(request)

    def _refuse_follower(self, request: Any) -> Slices[Any]:
        error = ERRORS[ResourceKind.TOPIC]
        return fetch.FetchResponse(responses=(yield from self.all_denied(request.topics, error)))

    def denied(self, row: Any, error: ErrorCode, numbers: Sequence[int]) -> Any:
        make = partial(fetch.PartitionData, high_watermark=-1, records=b"")
        results = partitions_with(make, error, numbers)
        return fetch.FetchableTopicResponse(
            topic=row.topic, topic_id=row.topic_id, partitions=results
        )


class ListOffsetsGuard(PartitionsGuard):
    """ListOffsets."""

    topic = list_offsets.ListOffsetsTopicResponse
    partition = list_offsets.ListOffsetsPartitionResponse


class OffsetForLeaderEpochGuard(PartitionsGuard):
    """OffsetForLeaderEpoch: DESCRIBE on each topic, or CLUSTER_ACTION as a follower (KIP-320)."""

    inner = "partitions", "partition"
    topic = offset_for_leader_epoch.OffsetForLeaderTopicResult
    partition = offset_for_leader_epoch.EpochEndOffset

    def topic_fields(self, row: Any) -> Mapping[str, str]:
        return {"topic": row.topic}

    def resource(self, row: Any) -> Resource | None:
        [(operation, kind)] = self.each
        return operation, kind, row.topic


class DeleteRecordsGuard(PartitionsGuard):
    """DeleteRecords."""

    topic = delete_records.DeleteRecordsTopicResult
    partition = partial(delete_records.DeleteRecordsPartitionResult, low_watermark=-1)
