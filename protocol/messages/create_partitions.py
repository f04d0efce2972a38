"""CreatePartitions (key 37): give topics more partitions (KIP-195)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
)


@struct
class CreatePartitionsAssignment:
    """Which brokers hold one new partition."""

    broker_ids: Array[Int32] = empty()


@struct
class CreatePartitionsTopic:
    """How many partitions a topic shall have in all; where the new ones go is the broker's choice
    when `assignments` is null.
    """

    name: String = ""
    count: Int32 = 0
    assignments: NullableArray[CreatePartitionsAssignment] = empty()


@message(key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """Adds partitions, or only checks whether that would work."""

    topics: Array[CreatePartitionsTopic] = empty()
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@struct
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@response_to(CreatePartitionsRequest)
class CreatePartitionsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = empty()
