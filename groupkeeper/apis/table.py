"""The APIs of the server, one row each: this table is the list of features.

An API without a row is not advertised. The versions of an API are declared with its messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from groupkeeper.apis.alter_configs import AlterConfigsHandler
from groupkeeper.apis.api_versions import ApiVersionsHandler
from groupkeeper.apis.broker_configs import BrokerConfigs
from groupkeeper.apis.create_partitions import CreatePartitionsHandler
from groupkeeper.apis.create_topics import CreateTopicsHandler
from groupkeeper.apis.delete_groups import DeleteGroupsHandler
from groupkeeper.apis.delete_records import DeleteRecordsHandler
from groupkeeper.apis.delete_topics import DeleteTopicsHandler
from groupkeeper.apis.describe_cluster import DescribeClusterHandler
from groupkeeper.apis.describe_configs import DescribeConfigsHandler, ListConfigResourcesHandler
from groupkeeper.apis.describe_groups import DescribeGroupsHandler
from groupkeeper.apis.describe_log_dirs import DescribeLogDirsHandler
from groupkeeper.apis.describe_quorum import DescribeQuorumHandler
from groupkeeper.apis.describe_topic_partitions import DescribeTopicPartitionsHandler
from groupkeeper.apis.fetch import FetchHandler
from groupkeeper.apis.find_coordinator import FindCoordinatorHandler
from groupkeeper.apis.group_configs import GroupConfigsAdmin
from groupkeeper.apis.group_handler import GroupHandler
from groupkeeper.apis.init_producer_id import InitProducerIdHandler
from groupkeeper.apis.leave_group import LeaveGroupHandler
from groupkeeper.apis.list_groups import ListGroupsHandler
from groupkeeper.apis.list_offsets import ListOffsetsHandler
from groupkeeper.apis.metadata import MetadataHandler, Unserved
from groupkeeper.apis.not_served import NotServed
from groupkeeper.apis.offset_commit import OffsetCommitHandler
from groupkeeper.apis.offset_delete import OffsetDeleteHandler
from groupkeeper.apis.offset_fetch import OffsetFetchHandler
from groupkeeper.apis.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from groupkeeper.apis.plain_produce import PlainProduce
from groupkeeper.apis.produce import ProduceHandler
from groupkeeper.apis.sync_group import SyncGroupHandler
from groupkeeper.exchange import Handler, ProduceRun
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.node import Node
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.settings.table import Settings
from groupkeeper.topics.topics import Topics


@dataclass
class Dependencies:
    """The objects that handlers are made of; the first row that uses a shared one makes it."""

    groups: GroupPartitions
    topics: Topics
    node: Node
    settings: Settings

    @cached_property
    def broker_configs(self) -> BrokerConfigs:
        return BrokerConfigs(self.node.node_id, self.settings)

    @cached_property
    def group_configs(self) -> GroupConfigsAdmin:
        return GroupConfigsAdmin(self.groups)

    @cached_property
    def not_served(self) -> NotServed:
        return NotServed()

    @cached_property
    def api_versions(self) -> ApiVersionsHandler:
        return ApiVersionsHandler(row.key for row in TABLE)


MakeHandler = Callable[[Dependencies], Handler]


class ApiRow(NamedTuple):
    """One API."""

    key: ApiKey
    handler: MakeHandler
    long_answer: bool = False
    """The answer may be far longer than the request, and is encoded in slices."""


class Handling(Protocol):
    """An object that handles requests of one API."""

    @property
    def handle(self) -> Handler: ...


def with_groups(make: Callable[[GroupPartitions], Handling]) -> MakeHandler:
    """Make a handler of a class that takes the groups."""
    return lambda of: make(of.groups).handle


def with_topics(make: Callable[[Topics], Handling]) -> MakeHandler:
    """Make a handler of a class that takes the topics."""
    return lambda of: make(of.topics).handle


def with_node(make: Callable[[Topics, Node], Handling]) -> MakeHandler:
    """Make a handler of a class that takes the topics and the node."""
    return lambda of: make(of.topics, of.node).handle


def with_leaders(make: Callable[[Topics, Node, Unserved], Handling]) -> MakeHandler:
    """Make a handler of a class that takes topics, node, and partitions without leader."""
    return lambda of: make(of.topics, of.node, of.groups.unserved).handle


def with_configs(
    make: Callable[[Topics, BrokerConfigs, GroupConfigsAdmin], Handling],
) -> MakeHandler:
    """Make a handler of a class that takes the topics, and the configs of broker and groups."""
    return lambda of: make(of.topics, of.broker_configs, of.group_configs).handle


LONG: Final = True

TABLE: Final = (
    # groups
    ApiRow(ApiKey.JOIN_GROUP, lambda of: GroupHandler(of.groups).forward),
    ApiRow(ApiKey.SYNC_GROUP, with_groups(SyncGroupHandler)),
    ApiRow(ApiKey.HEARTBEAT, lambda of: GroupHandler(of.groups).forward),
    ApiRow(ApiKey.LEAVE_GROUP, with_groups(LeaveGroupHandler)),
    ApiRow(
        ApiKey.OFFSET_COMMIT,
        lambda of: OffsetCommitHandler(of.groups, of.topics.partition_count).handle,
    ),
    ApiRow(ApiKey.OFFSET_FETCH, with_groups(OffsetFetchHandler), LONG),
    ApiRow(
        ApiKey.OFFSET_DELETE,
        lambda of: OffsetDeleteHandler(of.groups, of.topics.partition_count).handle,
    ),
    ApiRow(ApiKey.DESCRIBE_GROUPS, with_groups(DescribeGroupsHandler), LONG),
    ApiRow(ApiKey.LIST_GROUPS, with_groups(ListGroupsHandler), LONG),
    ApiRow(ApiKey.DELETE_GROUPS, with_groups(DeleteGroupsHandler)),
    # the cluster
    ApiRow(ApiKey.API_VERSIONS, lambda of: of.api_versions.handle),
    ApiRow(
        ApiKey.FIND_COORDINATOR, lambda of: FindCoordinatorHandler(of.node, of.groups).handle, LONG
    ),
    ApiRow(ApiKey.DESCRIBE_CLUSTER, with_node(DescribeClusterHandler)),
    ApiRow(ApiKey.DESCRIBE_QUORUM, with_node(DescribeQuorumHandler)),
    # what is not served
    ApiRow(ApiKey.SASL_HANDSHAKE, lambda of: of.not_served.sasl_handshake),
    ApiRow(ApiKey.SASL_AUTHENTICATE, lambda of: of.not_served.sasl_authenticate),
    ApiRow(ApiKey.DESCRIBE_ACLS, lambda of: of.not_served.describe_acls),
    ApiRow(ApiKey.LIST_TRANSACTIONS, lambda of: of.not_served.list_transactions),
    ApiRow(ApiKey.DESCRIBE_TRANSACTIONS, lambda of: of.not_served.describe_transactions, LONG),
    ApiRow(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda of: of.not_served.consumer_group_heartbeat),
    # topics
    ApiRow(ApiKey.METADATA, with_leaders(MetadataHandler), LONG),
    ApiRow(ApiKey.DESCRIBE_TOPIC_PARTITIONS, with_leaders(DescribeTopicPartitionsHandler), LONG),
    ApiRow(ApiKey.PRODUCE, with_topics(ProduceHandler)),
    ApiRow(ApiKey.INIT_PRODUCER_ID, with_topics(InitProducerIdHandler)),
    ApiRow(ApiKey.FETCH, with_node(FetchHandler), LONG),
    ApiRow(ApiKey.LIST_OFFSETS, with_topics(ListOffsetsHandler)),
    ApiRow(ApiKey.OFFSET_FOR_LEADER_EPOCH, with_topics(OffsetForLeaderEpochHandler)),
    ApiRow(ApiKey.CREATE_TOPICS, with_node(CreateTopicsHandler), LONG),
    ApiRow(ApiKey.CREATE_PARTITIONS, with_node(CreatePartitionsHandler)),
    ApiRow(ApiKey.DELETE_TOPICS, with_topics(DeleteTopicsHandler)),
    ApiRow(ApiKey.DELETE_RECORDS, with_topics(DeleteRecordsHandler)),
    ApiRow(ApiKey.DESCRIBE_LOG_DIRS, with_topics(DescribeLogDirsHandler), LONG),
    # configs
    ApiRow(ApiKey.DESCRIBE_CONFIGS, with_configs(DescribeConfigsHandler), LONG),
    ApiRow(ApiKey.ALTER_CONFIGS, with_configs(AlterConfigsHandler)),
    ApiRow(ApiKey.INCREMENTAL_ALTER_CONFIGS, with_configs(AlterConfigsHandler)),
    ApiRow(ApiKey.LIST_CONFIG_RESOURCES, with_configs(ListConfigResourcesHandler), LONG),
)


def handlers(of: Dependencies) -> dict[int, Handler]:
    """Make the handler of each API, by its key."""
    return {row.key: row.handler(of) for row in TABLE}


def run_of_produce(of: Dependencies) -> ProduceRun:
    """Return the handler of Produce requests that came together."""
    return PlainProduce(of.topics).handle_run


def long_answers() -> frozenset[int]:
    """Return the keys of the APIs with long answers."""
    return frozenset(row.key.value for row in TABLE if row.long_answer)
