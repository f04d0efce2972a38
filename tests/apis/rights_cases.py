"""Requests that lack rights, and what answers to them are compared by.

A case is an API, a version, a request, and the ACLs of who sends it; everything else is denied. The
topics are `orders` and `payments` of six partitions; `new` does not exist. `rights.json` has what
Apache Kafka 4.1 with StandardAuthorizer answers: `record_rights.py` writes it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from groupkeeper.access.acls import CLUSTER_NAME, Acl, PatternKind, Permission
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.message import key_of, layout_of
from groupkeeper.protocol.messages import (
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum_request,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from groupkeeper.protocol.types import ArrayOf, StructOf
from tests.support.batches import batch

TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
TRANSACTIONAL_ID = ResourceKind.TRANSACTIONAL_ID
OP = Operation
WHO = "User:ANONYMOUS"
TOPIC_TYPE, BROKER_TYPE, GROUP_TYPE = 2, 4, 32


@dataclass(frozen=True, slots=True)
class Case:
    """One request; made anew for each use, as handlers take requests apart."""

    name: str
    version: int
    request: Any
    """Makes the request from the ids of topics by name."""
    acls: tuple[Acl, ...] = ()

    @property
    def key(self) -> int:
        return key_of(type(self.request(dict.fromkeys(("orders", "payments"), bytes(16)))))


def allow(operation: Operation, kind: ResourceKind, name: str = CLUSTER_NAME) -> Acl:
    return Acl(kind, name, PatternKind.LITERAL, WHO, "*", operation, Permission.ALLOW)


READ_G = allow(OP.READ, GROUP, "g")
READ_C = allow(OP.READ, GROUP, "c")
DESCRIBE_G = allow(OP.DESCRIBE, GROUP, "g")


def commit(*topics: str) -> Any:
    rows = [
        offset_commit.OffsetCommitRequestTopic(
            name=each,
            partitions=[
                offset_commit.OffsetCommitRequestPartition(partition_index=at, committed_offset=1)
                for at in (0, 7)
            ],
        )
        for each in topics
    ]
    return lambda _: offset_commit.OffsetCommitRequest(group_id="c", topics=rows)


def offsets_of(*topics: str) -> list[Any]:
    row = offset_fetch.OffsetFetchRequestTopics
    return [row(name=each, partition_indexes=[0, 1]) for each in topics]


def offset_fetches() -> Iterator[Case]:
    request, group = offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchRequestGroup
    describe_orders = allow(OP.DESCRIBE, TOPIC, "orders")

    def old(topics: Any) -> Any:
        return lambda _: request(group_id="g", topics=topics and offsets_of(*topics))

    for version in (1, 3, 7):
        yield Case(f"group denied v{version}", version, old(("orders",)))
        yield Case(
            f"topic denied v{version}",
            version,
            old(("orders", "payments")),
            (DESCRIBE_G, describe_orders),
        )
    yield Case("all topics, none allowed v7", 7, old(None), (DESCRIBE_G,))
    for version in (8, 9):
        yield Case(
            f"groups denied v{version}",
            version,
            lambda _: request(
                groups=[
                    group(group_id="h", topics=offsets_of("orders")),
                    group(group_id="g", topics=offsets_of("orders", "payments")),
                    group(group_id="i", topics=None),
                ]
            ),
            (DESCRIBE_G, describe_orders),
        )


def groups() -> Iterator[Case]:
    member = {"group_id": "g", "member_id": "m"}
    protocols = [join_group.JoinGroupRequestProtocol(name="range", metadata=b"")]
    for version in (0, 5, 9):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: join_group.JoinGroupRequest(
                **member,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=protocols,
            ),
        )
    for version in (0, 5):
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version else {}
        yield Case(
            f"denied v{version}",
            version,
            lambda _, names=names: sync_group.SyncGroupRequest(**member, generation_id=1, **names),
        )
    yield Case(
        "without a protocol", 5, lambda _: sync_group.SyncGroupRequest(**member, generation_id=1)
    )
    for version in (0, 4):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: heartbeat.HeartbeatRequest(**member, generation_id=1),
        )
    for version in (0, 3, 5):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: leave_group.LeaveGroupRequest(
                **member, members=[leave_group.MemberIdentity(member_id="m")]
            ),
        )
    yield Case(
        "allowed: an unknown member",
        5,
        lambda _: leave_group.LeaveGroupRequest(
            group_id="g", members=[leave_group.MemberIdentity(member_id="m")]
        ),
        (READ_G,),
    )
    for version in (2, 8):
        yield Case(f"group denied v{version}", version, commit("orders"))
        yield Case(f"topics denied v{version}", version, commit("orders", "payments"), (READ_C,))
        yield Case(
            f"one topic denied v{version}",
            version,
            commit("orders", "payments", "none"),
            (READ_C, allow(OP.READ, TOPIC, "orders")),
        )
    yield from offset_fetches()

    def forget(_: Any) -> Any:
        row, part = (
            offset_delete.OffsetDeleteRequestTopic,
            offset_delete.OffsetDeleteRequestPartition,
        )
        return offset_delete.OffsetDeleteRequest(
            group_id="g",
            topics=[row(name=each, partitions=[part(partition_index=0)]) for each in ("orders",)],
        )

    yield Case("group denied", 0, forget, (READ_G,))
    yield Case("topic denied", 0, forget, (allow(OP.DELETE, GROUP, "g"),))
    for version in (0, 3, 5, 6):
        yield Case(
            f"one group denied v{version}",
            version,
            lambda _: describe_groups.DescribeGroupsRequest(
                groups=["h", "g"], include_authorized_operations=True
            ),
            (DESCRIBE_G,),
        )
    for version in (0, 5):
        yield Case(
            f"no group allowed v{version}", version, lambda _: list_groups.ListGroupsRequest()
        )
    for version in (0, 2):
        yield Case(
            f"one group denied v{version}",
            version,
            lambda _: delete_groups.DeleteGroupsRequest(groups_names=["h", "g", "h"]),
            (allow(OP.DELETE, GROUP, "g"),),
        )


def cluster() -> Iterator[Case]:
    find = find_coordinator.FindCoordinatorRequest
    for version in (0, 1, 3):
        yield Case(f"group denied v{version}", version, lambda _: find(key="g"))
    for version in (4, 6):
        yield Case(
            f"one group denied v{version}",
            version,
            lambda _: find(coordinator_keys=["h", "g"]),
            (DESCRIBE_G,),
        )
        yield Case(
            f"transactional id denied v{version}",
            version,
            lambda _: find(coordinator_keys=["t"], key_type=1),
        )
    yield Case("transactional id denied v3", 3, lambda _: find(key="t", key_type=1))
    yield Case(
        "share denied",
        6,
        lambda _: find(coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"], key_type=2),
    )
    described = describe_cluster.DescribeClusterRequest
    for version in (0, 2):
        yield Case(
            f"operations v{version}",
            version,
            lambda _: described(include_cluster_authorized_operations=True),
        )
    yield Case(
        "some operations",
        1,
        lambda _: described(include_cluster_authorized_operations=True),
        (allow(OP.ALTER, CLUSTER), allow(OP.ALTER_CONFIGS, CLUSTER)),
    )
    for version in (0, 2):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: describe_quorum_request.DescribeQuorumRequest(
                topics=[
                    describe_quorum_request.TopicData(
                        topic_name="__cluster_metadata",
                        partitions=[describe_quorum_request.PartitionData(partition_index=0)],
                    )
                ]
            ),
        )
    for version in (1, 3, 4):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: describe_log_dirs.DescribeLogDirsRequest(topics=None),
        )
    for version in (0, 1):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: list_config_resources.ListConfigResourcesRequest(),
        )
    yield Case("none", 1, lambda _: list_transactions.ListTransactionsRequest())
    yield Case(
        "denied",
        0,
        lambda _: describe_transactions.DescribeTransactionsRequest(transactional_ids=["t", "u"]),
    )


def users() -> Iterator[Case]:
    describe, alter = describe_user_scram_credentials, alter_user_scram_credentials
    for version in (0, 1):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: describe_client_quotas.DescribeClientQuotasRequest(
                components=[
                    describe_client_quotas.ComponentData(
                        entity_type="user", match_type=2, match=None
                    )
                ]
            ),
            (allow(OP.DESCRIBE, CLUSTER),),
        )
    yield Case(
        "denied",
        0,
        lambda _: describe.DescribeUserScramCredentialsRequest(
            users=[describe.UserName(name=each) for each in ("b", "a", "b")]
        ),
    )
    yield Case("all denied", 0, lambda _: describe.DescribeUserScramCredentialsRequest(users=[]))
    yield Case(
        "allowed",
        0,
        lambda _: describe.DescribeUserScramCredentialsRequest(users=[describe.UserName(name="b")]),
        (allow(OP.DESCRIBE, CLUSTER),),
    )
    yield Case(
        "denied",
        0,
        lambda _: alter.AlterUserScramCredentialsRequest(
            deletions=[
                alter.ScramCredentialDeletion(name=each, mechanism=1) for each in ("b", "a", "b")
            ],
            upsertions=[
                alter.ScramCredentialUpsertion(
                    name=each, mechanism=2, iterations=4096, salt=b"salt", salted_password=bytes(64)
                )
                for each in ("c", "b")
            ],
        ),
        (allow(OP.DESCRIBE, CLUSTER),),
    )


def acls() -> Iterator[Case]:
    creation = {"principal": WHO, "host": "*", "operation": 3, "permission_type": 3}
    anything = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    names = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    for version in (1, 3):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: describe_acls.DescribeAclsRequest(**anything, **names),
        )
        yield Case(
            f"denied v{version}",
            version,
            lambda _: create_acls.CreateAclsRequest(
                creations=[create_acls.AclCreation(resource_type=2, resource_name="x", **creation)]
            ),
            (allow(OP.DESCRIBE, CLUSTER),),
        )
        yield Case(
            f"denied v{version}",
            version,
            lambda _: delete_acls.DeleteAclsRequest(
                filters=[delete_acls.DeleteAclsFilter(**anything, **names)]
            ),
            (allow(OP.DESCRIBE, CLUSTER),),
        )


ADMIN = (allow(OP.DESCRIBE, CLUSTER), allow(OP.ALTER, CLUSTER))
"""The rights to see and change ACLs."""


def some_acls() -> tuple[Acl, ...]:
    literal, prefixed = PatternKind.LITERAL, PatternKind.PREFIXED
    deny, bob = Permission.DENY, "User:bob"
    return (
        *ADMIN,
        Acl(TOPIC, "orders", literal, bob, "*", OP.READ, Permission.ALLOW),
        Acl(TOPIC, "orders", literal, bob, "*", OP.WRITE, deny),
        Acl(TOPIC, "ord", prefixed, "User:*", "*", OP.ALL, Permission.ALLOW),
        Acl(TOPIC, "x", prefixed, bob, "*", OP.DESCRIBE, Permission.ALLOW),
        Acl(GROUP, "orders", literal, bob, "*", OP.READ, Permission.ALLOW),
        Acl(ResourceKind.USER, "bob", literal, bob, "*", OP.CREATE_TOKENS, Permission.ALLOW),
    )


def acl_filter(**given: Any) -> dict[str, Any]:
    """The fields of a filter, which matches ACLs of every host but those of `base_acls`."""
    anything: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": "*",
        "operation": 1,
        "permission_type": 1,
    }
    return anything | given


FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"resource_type_filter": 2},
    {"resource_name_filter": "orders"},
    {"resource_name_filter": "orders", "pattern_type_filter": 2},
    {"resource_name_filter": "orders", "pattern_type_filter": 3},
    {"resource_name_filter": "ord", "pattern_type_filter": 4},
    {"resource_name_filter": "ord", "pattern_type_filter": 2},
    {"principal_filter": "User:bob"},
    {"host_filter": "1.1.1.1"},
    {"operation": 3},
    {"permission_type": 2},
    {"resource_type_filter": 7},
    {"resource_type_filter": 99},
    {"pattern_type_filter": 99},
    {"operation": 99},
    {"permission_type": 99},
    {"resource_name_filter": "*", "pattern_type_filter": 2, "resource_type_filter": 2},
)


def filtered() -> Iterator[Case]:
    for at, given in enumerate(FILTERS):
        fields = acl_filter(**given)
        yield Case(
            f"filter {at}",
            3,
            lambda _, fields=fields: describe_acls.DescribeAclsRequest(**fields),
            some_acls(),
        )
        yield Case(
            f"filter {at}",
            3,
            lambda _, fields=fields: delete_acls.DeleteAclsRequest(
                filters=[
                    delete_acls.DeleteAclsFilter(**fields),
                    delete_acls.DeleteAclsFilter(**acl_filter(principal_filter="User:nobody")),
                ]
            ),
            some_acls(),
        )


def creations() -> Iterator[Case]:
    valid: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "x",
        "principal": "User:bob",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    given: tuple[dict[str, Any], ...] = (
        {},
        {"resource_name": "y"},
        {"resource_type": 4},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_name": ""},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"resource_pattern_type": 99},
        {"operation": 1},
        {"operation": 99},
        {"permission_type": 1},
        {"permission_type": 99},
        {"resource_type": 7, "resource_name": "bob", "operation": 13},
        {"host": "no address"},
        {"operation": 15, "resource_type": 5},
    )
    for at, one in enumerate(given):
        rows = [create_acls.AclCreation(**valid | each) for each in (one, {"resource_name": "y"})]
        yield Case(
            f"creation {at}",
            3,
            lambda _, rows=rows: create_acls.CreateAclsRequest(creations=rows),
            ADMIN,
        )
    for principal in ("bob", "User", ":", "User:", ":bob", "Group:x"):
        row = create_acls.AclCreation(**valid | {"principal": principal})
        yield Case(
            f"principal {principal}",
            3,
            lambda _, row=row: create_acls.CreateAclsRequest(creations=[row]),
            ADMIN,
        )


def metadata_cases() -> Iterator[Case]:
    request, row = metadata.MetadataRequest, metadata.MetadataRequestTopic
    describe_orders = allow(OP.DESCRIBE, TOPIC, "orders")
    operations = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    for version in (0, 4, 9, 12):
        yield Case(
            f"all topics v{version}",
            version,
            lambda _, v=version: request(topics=None if v else []),
            (describe_orders,),
        )
        yield Case(
            f"one topic denied v{version}",
            version,
            lambda _: request(
                topics=[row(name=each) for each in ("orders", "payments", "none")],
                allow_auto_topic_creation=False,
            ),
            (describe_orders,),
        )
    yield Case("all denied v0", 0, lambda _: request(topics=[row(name="orders")]))
    yield Case(
        "creation denied",
        9,
        lambda _: request(topics=[row(name="new"), row(name="orders")], **operations),
        (describe_orders, allow(OP.DESCRIBE, TOPIC, "new")),
    )
    yield Case(
        "operations",
        8,
        lambda _: request(topics=[row(name="orders"), row(name="payments")], **operations),
        (describe_orders, allow(OP.ALTER, TOPIC, "orders"), allow(OP.DESCRIBE, CLUSTER)),
    )
    yield Case(
        "by id",
        12,
        lambda ids: request(
            topics=[
                *(row(name=None, topic_id=ids[each]) for each in ("orders", "payments")),
                row(name=None, topic_id=bytes(15) + b"\1"),
            ]
        ),
        (describe_orders,),
    )


def in_transaction() -> bytes:
    """A batch that says that it belongs to a transaction."""
    data = bytearray(batch(0, b"v"))
    data[22] |= 0x10
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def produced() -> Iterator[Case]:
    write_orders = allow(OP.WRITE, TOPIC, "orders")

    def sent(ids: Any, *names: str, records: bytes = batch(0, b"v"), **more: Any) -> Any:
        topic, data = produce.TopicProduceData, produce.PartitionProduceData
        return produce.ProduceRequest(
            acks=1,
            timeout_ms=10_000,
            topic_data=[
                topic(
                    name=each,
                    topic_id=ids[each],
                    partition_data=[data(index=at, records=records) for at in (0, 1)],
                )
                for each in names
            ],
            **more,
        )

    for version in (3, 9, 13):
        yield Case(f"denied v{version}", version, lambda ids: sent(ids, "orders"))
        yield Case(
            f"one topic denied v{version}",
            version,
            lambda ids: sent(ids, "orders", "payments"),
            (write_orders,),
        )
    for name, records in (
        ("transactional id denied", in_transaction()),
        ("an id without a transaction", batch(0, b"v")),
    ):
        yield Case(
            name,
            9,
            lambda ids, records=records: sent(
                ids, "orders", "payments", records=records, transactional_id="t"
            ),
            (write_orders,),
        )
    ask = init_producer_id.InitProducerIdRequest
    for version in (0, 4):
        yield Case(f"denied v{version}", version, lambda _: ask(transactional_id=None))
        yield Case(
            f"transactional id denied v{version}", version, lambda _: ask(transactional_id="t")
        )


def topics() -> Iterator[Case]:
    yield from metadata_cases()
    page, row = (
        describe_topic_partitions.DescribeTopicPartitionsRequest,
        describe_topic_partitions.TopicRequest,
    )
    cursor = describe_topic_partitions.Cursor
    describe_orders = allow(OP.DESCRIBE, TOPIC, "orders")
    yield Case("all topics", 0, lambda _: page(), (describe_orders,))
    yield Case("none allowed", 0, lambda _: page())
    yield Case(
        "one topic denied",
        0,
        lambda _: page(topics=[row(name=each) for each in ("orders", "payments", "new")]),
        (describe_orders,),
    )
    yield Case(
        "cursor at one denied",
        0,
        lambda _: page(
            topics=[row(name=each) for each in ("new", "orders", "payments")],
            cursor=cursor(topic_name="orders", partition_index=1),
        ),
        (allow(OP.DESCRIBE, TOPIC, "payments"),),
    )
    yield from produced()
    read_orders = allow(OP.READ, TOPIC, "orders")

    def wanted(ids: Any, *names: str, **more: Any) -> Any:
        topic, part = fetch.FetchTopic, fetch.FetchPartition
        return fetch.FetchRequest(
            max_wait_ms=0,
            topics=[
                topic(
                    topic=each,
                    topic_id=ids[each],
                    partitions=[part(partition=5, partition_max_bytes=1000)],
                )
                for each in names
            ],
            **more,
        )

    for version in (4, 12, 13, 17):
        yield Case(f"denied v{version}", version, lambda ids: wanted(ids, "orders"))
        yield Case(
            f"one topic denied v{version}",
            version,
            lambda ids: wanted(ids, "orders", "payments"),
            (read_orders,),
        )

    def listed(_: Any) -> Any:
        topic, part = list_offsets.ListOffsetsTopic, list_offsets.ListOffsetsPartition
        return list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                topic(name=each, partitions=[part(partition_index=5, timestamp=-2)])
                for each in ("orders", "payments", "new")
            ],
        )

    for version in (1, 7):
        yield Case(f"topics denied v{version}", version, listed, (describe_orders,))
    yield from other_topics(describe_orders)


def other_topics(describe_orders: Acl) -> Iterator[Case]:
    def epochs(_: Any) -> Any:
        topic, part = (
            offset_for_leader_epoch.OffsetForLeaderTopic,
            offset_for_leader_epoch.OffsetForLeaderPartition,
        )
        return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                topic(topic=each, partitions=[part(partition=5, leader_epoch=0)])
                for each in ("orders", "payments", "new")
            ],
        )

    for version in (2, 4):
        yield Case(f"topics denied v{version}", version, epochs, (describe_orders,))

    def deleted(_: Any) -> Any:
        topic, part = delete_records.DeleteRecordsTopic, delete_records.DeleteRecordsPartition
        return delete_records.DeleteRecordsRequest(
            timeout_ms=10_000,
            topics=[
                topic(name=each, partitions=[part(partition_index=5, offset=0)])
                for each in ("orders", "payments", "new")
            ],
        )

    for version in (0, 2):
        acl = allow(OP.DELETE, TOPIC, "orders")
        yield Case(f"topics denied v{version}", version, deleted, (acl,))


def changes() -> Iterator[Case]:
    new, request = create_topics.CreatableTopic, create_topics.CreateTopicsRequest

    def created(_: Any) -> Any:
        row = {"num_partitions": 1, "replication_factor": 1}
        names = ("new", "other", "twice", "twice")
        rows = [new(name=each, **row) for each in names]
        return request(topics=rows, timeout_ms=10_000, validate_only=True)

    for version in (2, 5, 7):
        yield Case(f"denied v{version}", version, created)
        yield Case(
            f"one topic denied v{version}", version, created, (allow(OP.CREATE, TOPIC, "new"),)
        )
    yield Case(
        "the cluster is enough",
        7,
        created,
        (allow(OP.CREATE, CLUSTER), allow(OP.DESCRIBE_CONFIGS, TOPIC, "new")),
    )

    def grown(_: Any) -> Any:
        row = create_partitions.CreatePartitionsTopic
        return create_partitions.CreatePartitionsRequest(
            topics=[row(name=each, count=9, assignments=None) for each in ("orders", "new")],
            timeout_ms=10_000,
            validate_only=True,
        )

    for version in (0, 3):
        acl = allow(OP.ALTER, TOPIC, "new")
        yield Case(f"one topic denied v{version}", version, grown, (acl,))
    state, gone = delete_topics.DeleteTopicState, delete_topics.DeleteTopicsRequest
    describe_orders = allow(OP.DESCRIBE, TOPIC, "orders")
    for version in (1, 5):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: gone(topic_names=["orders", "payments", "new"], timeout_ms=10_000),
            (describe_orders, allow(OP.DESCRIBE, TOPIC, "new")),
        )
    yield Case(
        "denied by name and id",
        6,
        lambda ids: gone(
            topics=[
                state(name="new"),
                state(name="other"),
                state(name=None, topic_id=ids["orders"]),
                state(name=None, topic_id=ids["payments"]),
                state(name=None, topic_id=bytes(15) + b"\1"),
                state(name="twice"),
                state(name="twice"),
            ],
            timeout_ms=10_000,
        ),
        (describe_orders, allow(OP.DESCRIBE, TOPIC, "other")),
    )


def configs() -> Iterator[Case]:
    ask, row = describe_configs.DescribeConfigsRequest, describe_configs.DescribeConfigsResource
    kinds = ((TOPIC_TYPE, "orders"), (TOPIC_TYPE, "new"), (GROUP_TYPE, "g"), (BROKER_TYPE, "0"))
    for version in (1, 4):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: ask(
                resources=[
                    row(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
                    for kind, name in kinds
                ]
            ),
            (allow(OP.DESCRIBE_CONFIGS, TOPIC, "new"),),
        )
    for version in (0, 2):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name)
                    for kind, name in kinds
                ],
                validate_only=True,
            ),
            (allow(OP.ALTER_CONFIGS, TOPIC, "new"),),
        )
    for version in (0, 1):
        yield Case(
            f"denied v{version}",
            version,
            lambda _: incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind, resource_name=name
                    )
                    for kind, name in kinds
                ],
                validate_only=True,
            ),
            (allow(OP.ALTER_CONFIGS, TOPIC, "new"),),
        )


def cases() -> list[Case]:
    parts = (
        *(groups(), cluster(), users(), acls(), filtered(), creations()),
        *(topics(), changes(), configs()),
    )
    return [case for part in parts for case in part]


# -- answers ---------------------------------------------------------------------------------------

IGNORED = frozenset(
    "throttle_time_ms host port brokers broker_id cluster_id controller_id leader_id leader_epoch "
    "replica_nodes isr_nodes log_append_time_ms log_start_offset base_offset node_endpoints nodes "
    "eligible_leader_replicas last_known_elr unstable documentation".split()
)
"""Fields that no right changes, and that servers differ in."""


def comparable(message: Any, version: int) -> Any:
    """Return the fields of a message, without those of other versions and IGNORED ones; rows in an
    order of their own, as Kafka's is that of hash tables.
    """
    if not hasattr(type(message), "__layout__"):
        return message.hex() if isinstance(message, bytes | memoryview) else message
    found: dict[str, Any] = {}
    for item in layout_of(type(message)).fields:
        value = getattr(message, item.name)
        if item.name in IGNORED or not item.in_version(version):
            continue
        if item.name == "topic_id":
            value = "" if value == bytes(16) else "id"
        elif isinstance(item.type, ArrayOf) and value is not None:
            rows = [comparable(each, version) for each in value]
            value = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        elif isinstance(item.type, StructOf) or hasattr(type(value), "__layout__"):
            value = comparable(value, version)
        elif isinstance(value, bytes | memoryview):
            value = bytes(value).hex()
        elif item.name == "error_message" and (value or "").startswith("Request Request("):
            value = "Cluster authorization failed."  # Kafka's has the request as Java prints it
        found[item.name] = value
    return found


def base_acls(host: str) -> list[Acl]:
    """Return ACLs with which there is one on every resource, so that the rest is denied."""
    names = {TOPIC: "*", GROUP: "*", TRANSACTIONAL_ID: "*", CLUSTER: CLUSTER_NAME}
    literal, permission = PatternKind.LITERAL, Permission.ALLOW
    return [Acl(kind, name, literal, WHO, host, OP.ALL, permission) for kind, name in names.items()]


DIFFERENT = frozenset(
    (
        *(f"CreateAcls: creation {at}" for at in (3, 6, 7, 9, 11)),
        "Produce: an id without a transaction",
    )
)
"""The first are cases with a code that only filters may have, in one of two ACLs: Kafka answers
UNKNOWN_SERVER_ERROR for both, without words. Here that one is INVALID_REQUEST, with words. The last
is written by Kafka; here whoever has a transactional id is refused, as transactions are not served.
"""
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
}
