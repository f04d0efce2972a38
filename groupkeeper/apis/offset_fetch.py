"""OffsetFetch in its two shapes: one group up to v7, a list of groups from v8 on (KIP-709).

The core answers the newer shape; this is the way there and back. Errors sit on the group from v8,
on top from v2 to v7, and on every partition before.
"""

from functools import partial
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


def groups_asked(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups asked for in the newer form, in order."""
    if version >= 8:
        return request.groups
    # Any: the topics have the fields of the newer form, and may be too many to be made again.
    topics: Any = request.topics
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
    # Any: the topics have the fields of the older form, and may be too many to be made again.
    topics: Any = group.topics
    return OffsetFetchResponse(topics=topics)


def _on_every_partition(request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    refused = partial(_refused, error)
    return OffsetFetchResponse(topics=mapped(refused, request.topics or []))


def _refused(error: int, topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    def row(index: int) -> OffsetFetchResponsePartition:
        return OffsetFetchResponsePartition(
            partition_index=index, committed_offset=-1, error_code=error
        )

    return OffsetFetchResponseTopic(
        name=topic.name, partitions=mapped(row, topic.partition_indexes)
    )
