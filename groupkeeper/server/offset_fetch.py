"""OffsetFetch in its two shapes: one group up to v7, a list of groups from v8 on (KIP-709).

The core answers the newer shape; this is the way there and back. Errors sit on the group from v8,
on top from v2 to v7, and on every partition before.
"""

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


def groups_asked(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups asked for in the newer form, in order."""
    if version >= 8:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes)
            for t in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def flat_reply(
    request: OffsetFetchRequest, version: int, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The older form of one group's answer."""
    if version == 0:  # offsets in ZooKeeper, which is gone
        return _on_every_partition(request, ErrorCode.UNSUPPORTED_VERSION)
    if group.error_code and version == 1:
        return _on_every_partition(request, group.error_code)
    if group.error_code:
        return OffsetFetchResponse(error_code=group.error_code)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=p.partition_index,
                    committed_offset=p.committed_offset,
                    committed_leader_epoch=p.committed_leader_epoch,
                    metadata=p.metadata,
                    error_code=p.error_code,
                )
                for p in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics)


def _on_every_partition(request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, error_code=error
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)
