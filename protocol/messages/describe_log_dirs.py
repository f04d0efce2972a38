"""DescribeLogDirs: how much of the disk partitions take, by log directory (KIP-113)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Boolean, Int16, Int32, Int64, NullableArray, String


@struct
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = empty()
    """Numbers of partitions, from 0."""


@message(key=ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4), flexible=2)
class DescribeLogDirsRequest:
    """Names the partitions."""

    topics: NullableArray[DescribableLogDirTopic] = empty()
    """Partitions to describe; null for all."""


@struct
class DescribeLogDirsPartition:
    """The log of one partition."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    """Bytes of its segments."""
    offset_lag: Int64 = 0
    """How far the log is behind the high watermark; 0 for a leader."""
    is_future_key: Boolean = False
    """Whether it is a copy that will replace the log."""


@struct
class DescribeLogDirsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DescribeLogDirsPartition] = empty()


@struct
class DescribeLogDirsResult:
    """One log directory."""

    error_code: Int16 = 0
    log_dir: String = ""
    """Absolute path of the directory."""
    topics: Array[DescribeLogDirsTopic] = empty()
    total_bytes: Int64 = since(4, default=-1)
    """Size of its file system; -1 if unknown (KIP-827)."""
    usable_bytes: Int64 = since(4, default=-1)
    """Free bytes of its file system; -1 if unknown."""


@response_to(DescribeLogDirsRequest)
class DescribeLogDirsResponse:
    """One result for each log directory."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3)
    results: Array[DescribeLogDirsResult] = empty()
    """The directories."""
