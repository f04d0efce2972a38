"""The guard of each API, by what its row in `apis/table.py` needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from groupkeeper.apis.needs import NOTHING, Right
from groupkeeper.apis.rights.changes import (
    AlterConfigsGuard,
    CreatePartitionsGuard,
    CreateTopicsGuard,
    DeleteTopicsGuard,
    DescribeConfigsGuard,
    InitProducerIdGuard,
)
from groupkeeper.apis.rights.client import Rights
from groupkeeper.apis.rights.guard import Guard, Guarded, SyncGuard
from groupkeeper.apis.rights.offset_fetch import OffsetFetchGuard
from groupkeeper.apis.rights.rows import (
    DeleteGroupsGuard,
    DeleteRecordsGuard,
    DescribeGroupsGuard,
    DescribeTransactionsGuard,
    FetchGuard,
    FindCoordinatorGuard,
    ListGroupsGuard,
    ListOffsetsGuard,
    ListTransactionsGuard,
    OffsetCommitGuard,
    OffsetDeleteGuard,
    OffsetForLeaderEpochGuard,
    ProduceGuard,
)
from groupkeeper.apis.rights.topics import (
    DescribeClusterGuard,
    DescribeTopicPartitionsGuard,
    MetadataGuard,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Handler, ProduceRun, ReplyTo
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.topics.catalog import Topic

GUARDS: Final[Mapping[ApiKey, Callable[[Guarded], Guard]]] = {
    ApiKey.ALTER_CONFIGS: AlterConfigsGuard,
    ApiKey.CREATE_PARTITIONS: CreatePartitionsGuard,
    ApiKey.CREATE_TOPICS: CreateTopicsGuard,
    ApiKey.DELETE_GROUPS: DeleteGroupsGuard,
    ApiKey.DELETE_RECORDS: DeleteRecordsGuard,
    ApiKey.DELETE_TOPICS: DeleteTopicsGuard,
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterGuard,
    ApiKey.DESCRIBE_CONFIGS: DescribeConfigsGuard,
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsGuard,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsGuard,
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsGuard,
    ApiKey.FETCH: FetchGuard,
    ApiKey.FIND_COORDINATOR: FindCoordinatorGuard,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: AlterConfigsGuard,
    ApiKey.INIT_PRODUCER_ID: InitProducerIdGuard,
    ApiKey.LIST_GROUPS: ListGroupsGuard,
    ApiKey.LIST_OFFSETS: ListOffsetsGuard,
    ApiKey.LIST_TRANSACTIONS: ListTransactionsGuard,
    ApiKey.METADATA: MetadataGuard,
    ApiKey.OFFSET_COMMIT: OffsetCommitGuard,
    ApiKey.OFFSET_DELETE: OffsetDeleteGuard,
    ApiKey.OFFSET_FETCH: OffsetFetchGuard,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochGuard,
    ApiKey.PRODUCE: ProduceGuard,
    ApiKey.SYNC_GROUP: SyncGuard,
}
"""Guards of APIs that need more than rights on the whole request."""


def guard_of(guarded: Guarded) -> Handler:
    """Return the handler with its guard in front; without one, if no right is needed."""
    make = GUARDS.get(guarded.key)
    if make is not None:
        return make(guarded).handle
    if guarded.needs == NOTHING:
        return guarded.handler
    assert isinstance(guarded.needs, Right), f"{guarded.key.name}: rows need a guard of their own"
    return Guard(guarded).handle


def guarded_run(run: ProduceRun, rights: Rights, by_id: Mapping[bytes, Topic]) -> ProduceRun:
    """Return the handler of Produce requests that came together: of those before the first one that
    is not allowed, which is refused by itself. `by_id`: all topics.
    """

    # Any: requests of Produce.
    def allowed(
        asked: Iterable[tuple[Any, Caller, ReplyTo]],
    ) -> Iterator[tuple[Any, Caller, ReplyTo]]:
        for request, caller, reply_to in asked:
            client = rights.of(caller, "Produce")
            for row in request.topic_data:
                topic = by_id.get(row.topic_id)
                name = row.name if topic is None else topic.name
                if not client.may(Operation.WRITE, ResourceKind.TOPIC, name):
                    return
            yield request, caller, reply_to

    return lambda asked: run(allowed(asked))
