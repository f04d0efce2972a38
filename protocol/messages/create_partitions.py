"""CreatePartitions: adds partitions to topics (KIP-195)."""

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
    """The replicas of one new partition."""

    broker_ids: Array[Int32] = empty()


@struct
class CreatePartitionsTopic:
    """A topic and its new number of partitions."""

    name: String = ""
    count: Int32 = 0
    """Partitions that the topic shall have in all."""
    assignments: NullableArray[CreatePartitionsAssignment] = empty()
    """Replicas of each new partition; null leaves the choice to the broker."""


@message(key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """Adds partitions, or only validates the request."""

    topics: Array[CreatePartitionsTopic] = empty()
    """Topics to enlarge, each at most once."""
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@response_to(CreatePartitionsRequest)
class CreatePartitionsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = empty()
