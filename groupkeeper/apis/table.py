"""The APIs of the server, one row each: this table is the list of features.

An API without a row is not advertised. The versions of an API are declared with its messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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
from groupkeeper.apis.needs import NOTHING, Each, Need, OnAny, Right, all_of, any_of
from groupkeeper.apis.not_served import NotServed
from groupkeeper.apis.offset_commit import OffsetCommitHandler
from groupkeeper.apis.offset_delete import OffsetDeleteHandler
from groupkeeper.apis.offset_fetch import OffsetFetchHandler
from groupkeeper.apis.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from groupkeeper.apis.plain_produce import PlainProduce
from groupkeeper.apis.produce import ProduceHandler
from groupkeeper.apis.sync_group import SyncGroupHandler
from groupkeeper.apis.user_credentials import UserCredentialsHandler
from groupkeeper.exchange import Handler, ProduceRun
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.node import Node
from groupkeeper.protocol.acl_codes import Operation as Op
from groupkeeper.protocol.acl_codes import ResourceKind
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.settings.table import Settings
from groupkeeper.topics.topics import Topics

if TYPE_CHECKING:
    from groupkeeper.apis.acls import AclsHandler
    from groupkeeper.apis.rights.client import Rights


@dataclass
class Dependencies:
    """The objects that handlers are made of; the first row that uses a shared one makes it."""

    groups: GroupPartitions
    topics: Topics
    node: Node
    settings: Settings
    rights: "Rights | None" = None
    """None without an authorizer."""

    @cached_property
    def acls(self) -> "AclsHandler | NotServed":
        if self.rights is None:
            return self.not_served
        from groupkeeper.access.acl_changes import AclChanges
        from groupkeeper.apis.acls import AclsHandler

        topics = self.topics
        parts = topics.catalog, self.rights.authorizer, topics.wall_ms
        changes = AclChanges(*parts, topics.response_tasks.turns)
        return AclsHandler(changes, topics.response_tasks)

    @cached_property
    def broker_configs(self) -> BrokerConfigs:
        return BrokerConfigs(self.node.node_id, self.settings)

    @cached_property
    def group_configs(self) -> GroupConfigsAdmin:
        return GroupConfigsAdmin(self.groups, self.settings)

    @cached_property
    def user_credentials(self) -> UserCredentialsHandler:
        return UserCredentialsHandler(self.topics)

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
    needs: Need = NOTHING
    """The rights that a request needs, if there is an authorizer (`apis/rights`)."""


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

_TOPIC: Final = ResourceKind.TOPIC
_GROUP: Final = ResourceKind.GROUP
_CLUSTER: Final = ResourceKind.CLUSTER
_TRANSACTIONAL_ID: Final = ResourceKind.TRANSACTIONAL_ID

READ_GROUP: Final = Right(Op.READ, _GROUP)
DESCRIBE_CLUSTER: Final = Right(Op.DESCRIBE, _CLUSTER)
ALTER_CLUSTER: Final = Right(Op.ALTER, _CLUSTER)
DESCRIBE_CONFIGS: Final = Op.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = all_of(
    Each(Op.ALTER_CONFIGS, _TOPIC), Each(Op.ALTER_CONFIGS, _GROUP), Each(Op.ALTER_CONFIGS, _CLUSTER)
)

TABLE: Final = (
    # groups
    ApiRow(ApiKey.JOIN_GROUP, lambda of: GroupHandler(of.groups).forward, needs=READ_GROUP),
    ApiRow(ApiKey.SYNC_GROUP, with_groups(SyncGroupHandler), needs=READ_GROUP),
    ApiRow(ApiKey.HEARTBEAT, lambda of: GroupHandler(of.groups).forward, needs=READ_GROUP),
    ApiRow(ApiKey.LEAVE_GROUP, with_groups(LeaveGroupHandler), needs=READ_GROUP),
    ApiRow(
        ApiKey.OFFSET_COMMIT,
        lambda of: OffsetCommitHandler(of.groups, of.topics.partition_count).handle,
        needs=all_of(READ_GROUP, Each(Op.READ, _TOPIC)),
    ),
    ApiRow(
        *(ApiKey.OFFSET_FETCH, with_groups(OffsetFetchHandler), LONG),
        needs=all_of(Each(Op.DESCRIBE, _GROUP), Each(Op.DESCRIBE, _TOPIC)),
    ),
    ApiRow(
        ApiKey.OFFSET_DELETE,
        lambda of: OffsetDeleteHandler(of.groups, of.topics.partition_count).handle,
        needs=all_of(Right(Op.DELETE, _GROUP), Each(Op.READ, _TOPIC)),
    ),
    ApiRow(
        *(ApiKey.DESCRIBE_GROUPS, with_groups(DescribeGroupsHandler), LONG),
        needs=Each(Op.DESCRIBE, _GROUP),
    ),
    ApiRow(
        *(ApiKey.LIST_GROUPS, with_groups(ListGroupsHandler), LONG),
        needs=any_of(DESCRIBE_CLUSTER, Each(Op.DESCRIBE, _GROUP)),
    ),
    ApiRow(
        *(ApiKey.DELETE_GROUPS, with_groups(DeleteGroupsHandler)), needs=Each(Op.DELETE, _GROUP)
    ),
    # the cluster
    ApiRow(ApiKey.API_VERSIONS, lambda of: of.api_versions.handle),
    ApiRow(
        *(ApiKey.FIND_COORDINATOR, lambda of: FindCoordinatorHandler(of.node, of.groups).handle),
        LONG,
        needs=all_of(
            Each(Op.DESCRIBE, _GROUP),
            Each(Op.DESCRIBE, _TRANSACTIONAL_ID),
            Each(Op.CLUSTER_ACTION, _CLUSTER),
        ),
    ),
    ApiRow(ApiKey.DESCRIBE_CLUSTER, with_node(DescribeClusterHandler)),
    ApiRow(ApiKey.DESCRIBE_QUORUM, with_node(DescribeQuorumHandler), needs=DESCRIBE_CLUSTER),
    # access
    ApiRow(ApiKey.DESCRIBE_ACLS, lambda of: of.acls.describe_acls, LONG, DESCRIBE_CLUSTER),
    ApiRow(ApiKey.CREATE_ACLS, lambda of: of.acls.create_acls, needs=ALTER_CLUSTER),
    ApiRow(ApiKey.DELETE_ACLS, lambda of: of.acls.delete_acls, LONG, ALTER_CLUSTER),
    # what is not served
    ApiRow(ApiKey.SASL_HANDSHAKE, lambda of: of.not_served.sasl_handshake),
    ApiRow(ApiKey.SASL_AUTHENTICATE, lambda of: of.not_served.sasl_authenticate),
    ApiRow(
        *(ApiKey.DESCRIBE_CLIENT_QUOTAS, lambda of: of.not_served.describe_client_quotas),
        needs=Right(DESCRIBE_CONFIGS, _CLUSTER),
    ),
    ApiRow(
        *(ApiKey.LIST_TRANSACTIONS, lambda of: of.not_served.list_transactions),
        needs=Each(Op.DESCRIBE, _TRANSACTIONAL_ID),
    ),
    ApiRow(
        *(ApiKey.DESCRIBE_TRANSACTIONS, lambda of: of.not_served.describe_transactions, LONG),
        needs=Each(Op.DESCRIBE, _TRANSACTIONAL_ID),
    ),
    # Refused whoever asks: Kafka checks first that the protocol is off.
    ApiRow(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda of: of.not_served.consumer_group_heartbeat),
    # topics
    ApiRow(
        *(ApiKey.METADATA, with_leaders(MetadataHandler), LONG),
        needs=all_of(
            Each(Op.DESCRIBE, _TOPIC), any_of(Right(Op.CREATE, _CLUSTER), Each(Op.CREATE, _TOPIC))
        ),
    ),
    ApiRow(
        *(ApiKey.DESCRIBE_TOPIC_PARTITIONS, with_leaders(DescribeTopicPartitionsHandler), LONG),
        needs=Each(Op.DESCRIBE, _TOPIC),
    ),
    ApiRow(
        *(ApiKey.PRODUCE, with_topics(ProduceHandler)),
        needs=all_of(Right(Op.WRITE, _TRANSACTIONAL_ID), Each(Op.WRITE, _TOPIC)),
    ),
    ApiRow(
        *(ApiKey.INIT_PRODUCER_ID, with_topics(InitProducerIdHandler)),
        needs=any_of(
            Right(Op.WRITE, _TRANSACTIONAL_ID),
            Right(Op.IDEMPOTENT_WRITE, _CLUSTER),
            OnAny(Op.WRITE, _TOPIC),
        ),
    ),
    ApiRow(*(ApiKey.FETCH, with_node(FetchHandler), LONG), needs=Each(Op.READ, _TOPIC)),
    ApiRow(
        *(ApiKey.LIST_OFFSETS, with_topics(ListOffsetsHandler)), needs=Each(Op.DESCRIBE, _TOPIC)
    ),
    ApiRow(
        *(ApiKey.OFFSET_FOR_LEADER_EPOCH, with_topics(OffsetForLeaderEpochHandler)),
        needs=any_of(Right(Op.CLUSTER_ACTION, _CLUSTER), Each(Op.DESCRIBE, _TOPIC)),
    ),
    ApiRow(
        *(ApiKey.CREATE_TOPICS, with_node(CreateTopicsHandler), LONG),
        needs=any_of(Right(Op.CREATE, _CLUSTER), Each(Op.CREATE, _TOPIC)),
    ),
    ApiRow(
        *(ApiKey.CREATE_PARTITIONS, with_node(CreatePartitionsHandler)),
        needs=Each(Op.ALTER, _TOPIC),
    ),
    ApiRow(
        *(ApiKey.DELETE_TOPICS, with_topics(DeleteTopicsHandler)),
        needs=any_of(
            Right(Op.DELETE, _CLUSTER), all_of(Each(Op.DESCRIBE, _TOPIC), Each(Op.DELETE, _TOPIC))
        ),
    ),
    ApiRow(
        *(ApiKey.DELETE_RECORDS, with_topics(DeleteRecordsHandler)), needs=Each(Op.DELETE, _TOPIC)
    ),
    ApiRow(
        *(ApiKey.DESCRIBE_LOG_DIRS, with_topics(DescribeLogDirsHandler), LONG),
        needs=DESCRIBE_CLUSTER,
    ),
    # users
    ApiRow(
        *(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, lambda of: of.user_credentials.describe, LONG),
        needs=DESCRIBE_CLUSTER,
    ),
    ApiRow(
        *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, lambda of: of.user_credentials.alter),
        needs=ALTER_CLUSTER,
    ),
    # configs
    ApiRow(
        *(ApiKey.DESCRIBE_CONFIGS, with_configs(DescribeConfigsHandler), LONG),
        needs=all_of(
            Each(DESCRIBE_CONFIGS, _TOPIC),
            Each(DESCRIBE_CONFIGS, _GROUP),
            Each(DESCRIBE_CONFIGS, _CLUSTER),
        ),
    ),
    ApiRow(ApiKey.ALTER_CONFIGS, with_configs(AlterConfigsHandler), needs=ALTER_CONFIGS),
    ApiRow(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, with_configs(AlterConfigsHandler), needs=ALTER_CONFIGS
    ),
    ApiRow(
        *(ApiKey.LIST_CONFIG_RESOURCES, with_configs(ListConfigResourcesHandler), LONG),
        needs=Right(DESCRIBE_CONFIGS, _CLUSTER),
    ),
)


def handlers(of: Dependencies) -> dict[int, Handler]:
    """Make the handler of each API, by its key; with an authorizer, behind guards."""
    made: dict[int, Handler] = {row.key: row.handler(of) for row in TABLE}
    if of.rights is None:
        return made
    from groupkeeper.apis.rights.guard import Guarded
    from groupkeeper.apis.rights.guards import guard_of

    parts = of.rights, of.topics, of.topics.response_tasks.turns
    return {row.key: guard_of(Guarded(row.key, row.needs, made[row.key], *parts)) for row in TABLE}


def run_of_produce(of: Dependencies) -> ProduceRun:
    """Return the handler of Produce requests that came together."""
    run = PlainProduce(of.topics).handle_run
    if of.rights is None:
        return run
    from groupkeeper.apis.rights.guards import guarded_run

    return guarded_run(run, of.rights, of.topics.catalog.by_id)


def long_answers() -> frozenset[int]:
    """Return the keys of the APIs with long answers."""
    return frozenset(row.key.value for row in TABLE if row.long_answer)
