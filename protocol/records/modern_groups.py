"""Keys and values of consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071) in
`__consumer_offsets`: key types 3 to 22. Apache Kafka writes them, Groupkeeper only reads them.

All values have version 0, which is flexible; unknown tags are ignored. Partition metadata of share
and streams groups, share state (15) and topologies (23) are not read.

Source: Kafka 4.1, `GroupCoordinatorRecordSerde` and the schema files of its group coordinator.
"""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from groupkeeper.protocol.compiler import decoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import empty, message, struct
from groupkeeper.protocol.types import (
    Array,
    Int8,
    Int32,
    Int64,
    NullableString,
    NullableStruct,
    String,
    UInt16,
    Uuid,
)

_HEAD: Final = Struct(">h")


@message(versions=(0, 0))
class GroupKey:
    """The key of a record about a whole group."""

    group: String = ""


@message(versions=(0, 0))
class MemberKey:
    """The key of a record about one member."""

    group: String = ""
    member_id: String = ""


@message(versions=(0, 0))
class PatternKey:
    """The key of a record about a regular expression of topics."""

    group: String = ""
    pattern: String = ""
    """The expression."""


@struct
class Topic:
    """Partitions of a topic."""

    topic_id: Uuid = bytes(16)
    partitions: Array[Int32] = empty()


@struct
class Tasks:
    """Tasks of a subtopology of a streams group."""

    subtopology_id: String = ""
    """Id of the subtopology."""
    partitions: Array[Int32] = empty()
    """Its tasks."""


@message(versions=(0, 0), flexible=0)
class ConsumerEpoch:
    """Type 3: a consumer group has this epoch, which rises with each change."""

    epoch: Int32 = 0


@message(versions=(0, 0), flexible=0)
class Epoch:
    """Types 11 and 17: a share or streams group has this epoch, which rises with each change."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    """Hash of the topics that its members subscribe to."""


@struct
class PartitionRacks:
    """Racks of the replicas of a partition."""

    partition: Int32 = 0
    racks: Array[String] = empty()
    """The racks."""


@struct
class TopicSize:
    """A topic that members subscribe to."""

    topic_id: Uuid = bytes(16)
    topic_name: String = ""
    num_partitions: Int32 = 0
    """Number of its partitions."""
    partition_metadata: Array[PartitionRacks] = empty()
    """Racks by partition."""


@message(versions=(0, 0), flexible=0)
class PartitionMetadata:
    """Type 4: the topics that members subscribe to; brokers from Kafka 4.1 on only delete it."""

    topics: Array[TopicSize] = empty()
    """The topics."""


@message(versions=(0, 0), flexible=0)
class ResolvedPattern:
    """Type 16: the topics that a regular expression matches."""

    topics: Array[String] = empty()
    """Names of the topics."""
    version: Int64 = 0
    """Version of the metadata that it was resolved with."""
    timestamp: Int64 = 0
    """When, in Unix ms."""


@message(versions=(0, 0), flexible=0)
class TargetEpoch:
    """Types 6, 12 and 20: the epoch for which the coordinator has computed assignments."""

    assignment_epoch: Int32 = 0
    """The epoch."""


@message(versions=(0, 0), flexible=0)
class ConsumerMember:
    """Type 5: a member of a consumer group."""

    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topics: Array[String] = empty()
    subscribed_regex: NullableString = None
    """Pattern of topics that it subscribes to."""
    rebalance_timeout_ms: Int32 = -1
    """How long it may take to give partitions up."""
    server_assignor: NullableString = None
    """The assignor that it asks for."""


@message(versions=(0, 0), flexible=0)
class ShareMember:
    """Type 10: a member of a share group."""

    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topics: Array[String] = empty()


@struct
class Endpoint:
    """Where a streams application answers questions about its state."""

    host: String = ""
    """Its host."""
    port: UInt16 = 0
    """Its port."""


@struct
class Tag:
    """A tag of a client."""

    key: String = ""
    """Its name."""
    value: String = ""
    """Its value."""


@message(versions=(0, 0), flexible=0)
class StreamsMember:
    """Type 19: a member of a streams group."""

    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    """How long it may take to give tasks up."""
    topology_epoch: Int32 = 0
    """Epoch of its topology."""
    process_id: String = ""
    """Process of which it is a thread."""
    user_endpoint: NullableStruct[Endpoint] = None
    """Where it answers questions."""
    client_tags: Array[Tag] = empty()
    """Tags of the client."""


@message(versions=(0, 0), flexible=0)
class Target:
    """Types 7 and 13: what a member is to own."""

    topics: Array[Topic] = empty()
    """Partitions by topic."""


@message(versions=(0, 0), flexible=0)
class StreamsTarget:
    """Type 21: what a member of a streams group is to run."""

    active: Array[Tasks] = empty()
    standby: Array[Tasks] = empty()
    warmup: Array[Tasks] = empty()


@message(versions=(0, 0), flexible=0)
class ConsumerCurrent:
    """Type 8: what a member of a consumer group owns now."""

    member_epoch: Int32 = 0
    previous_epoch: Int32 = 0
    state: Int8 = 0
    """0 stable, 1 has partitions to give up, 2 waits for partitions of others, 127 unknown."""
    assigned: Array[Topic] = empty()
    """Partitions that it owns."""
    pending_revocation: Array[Topic] = empty()
    """Partitions that it must give up."""


@message(versions=(0, 0), flexible=0)
class ShareCurrent:
    """Type 14: what a member of a share group reads now."""

    member_epoch: Int32 = 0
    previous_epoch: Int32 = 0
    state: Int8 = 0
    """0: stable."""
    assigned: Array[Topic] = empty()
    """Partitions that it reads."""


@message(versions=(0, 0), flexible=0)
class StreamsCurrent:
    """Type 22: what a member of a streams group runs now."""

    member_epoch: Int32 = 0
    previous_epoch: Int32 = 0
    state: Int8 = 0
    """1 stable, 2 has tasks to give up, 3 waits for tasks of others, 127 unknown."""
    active: Array[Tasks] = empty()
    standby: Array[Tasks] = empty()
    warmup: Array[Tasks] = empty()
    active_pending: Array[Tasks] = empty()
    """Active tasks that it must give up."""
    standby_pending: Array[Tasks] = empty()
    """Standby tasks that it must give up."""
    warmup_pending: Array[Tasks] = empty()
    """Warm-up tasks that it must give up."""


AnyMember: TypeAlias = ConsumerMember | ShareMember | StreamsMember
Current: TypeAlias = ConsumerCurrent | ShareCurrent | StreamsCurrent
Value: TypeAlias = (
    ConsumerEpoch
    | Epoch
    | TargetEpoch
    | AnyMember
    | Target
    | StreamsTarget
    | Current
    | PartitionMetadata
    | ResolvedPattern
)

KNOWN_TYPES: Final = range(24)
"""Key types of Kafka 4.1 and before, including those that are not read."""
EPOCH_TYPES: Final = {3: "consumer", 11: "share", 17: "streams"}
"""Key types of a group's epoch, without which the group does not exist, and its type of group."""

_VALUES: Final[dict[int, type]] = {
    3: ConsumerEpoch,
    4: PartitionMetadata,
    11: Epoch,
    17: Epoch,
    **dict.fromkeys((6, 12, 20), TargetEpoch),
    5: ConsumerMember,
    10: ShareMember,
    19: StreamsMember,
    7: Target,
    13: Target,
    21: StreamsTarget,
    8: ConsumerCurrent,
    14: ShareCurrent,
    22: StreamsCurrent,
    16: ResolvedPattern,
}
_PATTERN: Final = 16
_OF_MEMBERS: Final = (5, 7, 8, 10, 13, 14, 19, 21, 22)


class ModernKey(NamedTuple):
    """A key; `member_id` is None in records about a whole group."""

    key_type: int
    group: str
    member_id: str | None
    pattern: str | None = None
    """Regular expression of topics, in records about one."""


def decode_modern_key(data: bytes) -> ModernKey | None:
    """Decode the key of a record of a consumer, share or streams group; None if it is of a type
    that is not read. DecodeError if it is malformed.
    """
    if len(data) < _HEAD.size:
        raise DecodeError(f"{len(data)} bytes are too few for a type")
    (key_type,) = _HEAD.unpack_from(data)
    if key_type not in _VALUES:
        return None
    if key_type in _OF_MEMBERS:
        key: MemberKey = decoder(MemberKey, 0)(data, _HEAD.size, len(data))
        return ModernKey(key_type, key.group, key.member_id)
    if key_type == _PATTERN:
        of: PatternKey = decoder(PatternKey, 0)(data, _HEAD.size, len(data))
        return ModernKey(key_type, of.group, None, of.pattern)
    found: GroupKey = decoder(GroupKey, 0)(data, _HEAD.size, len(data))
    return ModernKey(key_type, found.group, None)


def decode_modern_value(key_type: int, data: bytes) -> Value:
    """Decode the value for a key of a type that is read. DecodeError if it is malformed."""
    if len(data) < _HEAD.size:
        raise DecodeError(f"{len(data)} bytes are too few for a version")
    value: Value = decoder(_VALUES[key_type], 0)(data, _HEAD.size, len(data))
    return value
