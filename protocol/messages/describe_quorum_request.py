"""The request of DescribeQuorum, whose parts have the same names as those of its response."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, struct
from groupkeeper.protocol.types import Array, Int32, String


@struct
class PartitionData:
    """A partition that a quorum keeps."""

    partition_index: Int32 = 0


@struct
class TopicData:
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[PartitionData] = empty()


@message(key=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    """Names the log of the metadata."""

    topics: Array[TopicData] = empty()
