"""Requests as real clients send them, with everything filled in that a test does not care about."""

from typing import Any

from groupkeeper.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
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


def create_request(*names: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    """Topics with the same number of partitions and the same configs; `_` stands for `.` in keys of
    configs.
    """
    settings = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000)


def batch_request(topic: str, partition: int, batch: bytes) -> ProduceRequest:
    """One batch, which has to be acknowledged."""
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce_request(topic: str, partition: int, *values: bytes, time: int = 0) -> ProduceRequest:
    """One batch of records without keys."""
    batch = encode_batch(0, -1, time, [(None, value) for value in values])
    return batch_request(topic, partition, batch)


def records_request(
    topic: str, partition: int, offset: int = 0, max_bytes: int = 1 << 20
) -> FetchRequest:
    """Fetch of what is there of one partition, without waiting for more."""
    place = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[place])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=topics)


def list_request(topic: str, partition: int, timestamp: int) -> ListOffsetsRequest:
    """The first offset of one partition from this time on, or of a special timestamp."""
    place = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[place])])


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
