"""Requests as real clients send them, with everything filled in that a test does not care about."""

from typing import Any

from groupkeeper.protocol.messages.create_topics import CreatableTopicConfig
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupkeeper.protocol.record_batch import encode_batch

SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\0\0\0\0"
"""Consumer protocol version 1: the topic `orders`, no user data, nothing owned."""

Places = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


def join_request(group_id: str = "g", member_id: str = "", **fields: Any) -> JoinGroupRequest:
    wanted = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | fields
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        **wanted,
    )


def sync_request(
    member_id: str, generation: int, group_id: str = "g", plan: dict[str, bytes] | None = None
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=who, assignment=share)
            for who, share in (plan or {}).items()
        ],
    )


def heartbeat(
    member_id: str, generation: int, group_id: str = "g", instance_id: str | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )


def leave_request(*member_ids: str, group_id: str = "g") -> LeaveGroupRequest:
    members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
    return LeaveGroupRequest(group_id=group_id, members=members)


def commit_request(
    places: Places, group_id: str = "g", member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    """Without a member: as an administrator, or a consumer that assigns by hand."""
    return OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for (name, index), offset in places.items()
                    if name == topic
                ],
            )
            for topic in dict.fromkeys(name for name, _ in places)
        ],
    )


def fetch_request(*group_ids: str, topics: dict[str, list[int]] | None = None) -> Any:
    """OffsetFetch from version 8 on; without topics all of them."""
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=each, topics=wanted) for each in group_ids]
    )


def flat_fetch_request(group_id: str, topics: dict[str, list[int]] | None = None) -> Any:
    """OffsetFetch up to version 7."""
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(group_id=group_id, topics=wanted)


def offset_delete_request(places: list[tuple[str, int]], group_id: str = "g") -> Any:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=index)
                    for name, index in places
                    if name == topic
                ],
            )
            for topic in dict.fromkeys(name for name, _ in places)
        ],
    )


def delete_topic_request(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)


def produce_request(topic: str, partition: int, *values: bytes) -> ProduceRequest:
    """One batch of records without keys."""
    batch = encode_batch(0, -1, 0, [(None, value) for value in values])
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def delete_records_request(topic: str, partition: int, offset: int) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def topic_configs(**configs: object) -> list[CreatableTopicConfig]:
    """For CreateTopics; dots as underscores."""
    return [
        CreatableTopicConfig(name=name.replace("_", "."), value=str(value))
        for name, value in configs.items()
    ]


def alter_topic_request(topic: str, **configs: object) -> IncrementalAlterConfigsRequest:
    """Set configs of a topic, dots as underscores; None: the topic no longer sets it."""
    changes = [
        AlterableConfig(
            name=name.replace("_", "."),
            config_operation=1 if value is None else 0,
            value=None if value is None else str(value),
        )
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource])


def codes_of(response: Any) -> dict[tuple[str, int], int]:
    """(topic, partition) -> error code of any answer that has topics with partitions."""
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
