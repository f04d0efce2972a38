"""The consumer protocol: the contents of the opaque bytes in JoinGroup and SyncGroup.

Coordination does not depend on it; the deletion of offsets does, for the topics that the group
reads, and so do tools that show members. A newer version is read as the newest known one, and the
bytes after it are ignored, as Kafka does.

Source: Kafka's `ConsumerProtocol`, `ConsumerProtocolSubscription.json` and
`ConsumerProtocolAssignment.json`.
"""

from collections.abc import Iterable
from struct import Struct, unpack_from
from struct import error as struct_error
from typing import Final

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import empty, message, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, NullableBytes, NullableString, String

NEWEST_VERSION = 3
NEWEST_CONNECT_VERSION = 2

CONSUMER: Final = "consumer"
"""Protocol type of consumers, and of Kafka Streams: the only one whose metadata is read."""
CONNECT: Final = "connect"
"""Protocol type of Kafka Connect."""

OWNED_READ_BYTES: Final = 32 * 1024
"""Longer metadata is not searched for owned partitions."""

_read_version = Struct(">h").unpack_from
_read_version_and_count = Struct(">hi").unpack_from
_read_length = Struct(">h").unpack_from
_read_count = Struct(">i").unpack_from


@struct
class TopicPartition:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = empty()
    """Partitions of the topic, from 0."""


@message(versions=(0, NEWEST_VERSION), open_ended=True)
class Subscription:
    """The subscription of a consumer. Version 1 adds the partitions it owns (KIP-429), 2 their
    generation (KIP-792), 3 its rack (KIP-881).
    """

    version: Int16 = 0
    """Version of the layout, 0 to 3."""
    topics: Array[String] = empty()
    """Names of the topics that the consumer reads."""
    user_data: NullableBytes = None
    """Bytes of the assignor; null if it has none."""
    owned_partitions: Array[TopicPartition] = since(1)
    """Partitions that the consumer holds before the rebalance."""
    generation_id: Int32 = since(2, default=-1)
    """Generation in which it got them; -1 if unknown."""
    rack_id: NullableString = since(3, default=None)
    """Rack of the consumer; null without one."""


@message(versions=(0, NEWEST_VERSION), open_ended=True)
class Assignment:
    """The assignment of a consumer; the layout is the same in every version."""

    version: Int16 = 0
    """Version of the layout, 0 to 3."""
    assigned_partitions: Array[TopicPartition] = empty()
    """Partitions for the consumer to read."""
    user_data: NullableBytes = None
    """Bytes of the assignor; null if it has none."""


def decode_subscription(data: bytes) -> Subscription:
    """Decode the subscription in a member's metadata; DecodeError if the bytes are none."""
    value: Subscription = decoder(Subscription, _layout_version(data))(data, 0, len(data))
    return value


def decode_assignment(data: bytes) -> Assignment:
    """Decode the assignment of a member; DecodeError if the bytes are none."""
    value: Assignment = decoder(Assignment, _layout_version(data))(data, 0, len(data))
    return value


def read_owned(metadata: bytes) -> set[tuple[str, int]] | None:
    """Return the partitions that a consumer holds according to its metadata, by topic and number;
    None if the metadata is no subscription, or longer than `OWNED_READ_BYTES`. Never raises.
    """
    if len(metadata) > OWNED_READ_BYTES:
        return None
    try:
        owned = decode_subscription(metadata).owned_partitions
    except DecodeError:
        return None
    return {(each.topic, partition) for each in owned for partition in each.partitions}


def with_owned(metadata: bytes, assignment: bytes, generation: int) -> bytes:
    """Return the subscription of a consumer as it would send it while it holds the partitions of
    this assignment since this generation. Version 0 has no such fields, and stays as it is, as does
    what is no subscription. Never raises.
    """
    try:
        subscription = decode_subscription(metadata)
        assigned = decode_assignment(assignment).assigned_partitions
    except DecodeError:
        return metadata
    if subscription.version == 0:
        return metadata
    subscription.version = min(subscription.version, NEWEST_VERSION)
    subscription.owned_partitions = assigned
    if subscription.version > 1:
        subscription.generation_id = generation
    return encoder(Subscription, subscription.version, Framing.BARE)(subscription)


def read_assigned(data: bytes) -> dict[str, list[int]] | None:
    """Read the partitions of an assignment by topic; None if the bytes are none. Never raises.

    Takes a third of the time of `decode_assignment`: a leader's SyncGroup has a thousand
    assignments, and the members wait for it.
    """
    assigned: dict[str, list[int]] = {}
    try:
        version, topics = _read_version_and_count(data)
        if version < 0 or topics < 0:
            return None
        pos = 6
        for _ in range(topics):
            (length,) = _read_length(data, pos)
            stop = pos + 2 + length
            if length < 0 or stop > len(data):
                return None
            topic = data[pos + 2 : stop].decode()
            (count,) = _read_count(data, stop)
            pos = stop + 4 + 4 * count
            if count < 0 or pos > len(data):
                return None
            assigned.setdefault(topic, []).extend(unpack_from(f">{count}i", data, stop + 4))
    except (struct_error, UnicodeDecodeError):
        return None
    return assigned


def owned_of(metadata: bytes) -> set[tuple[str, int]]:
    """Return the partitions that a consumer owns while it rejoins: none if its metadata does not
    say, as consumers that own none need not. Never raises.
    """
    try:
        owned = decode_subscription(metadata).owned_partitions
    except DecodeError:
        return set()
    return {(each.topic, partition) for each in owned for partition in each.partitions}


def assignment_of(places: Iterable[tuple[str, int]]) -> bytes:
    """Encode an Assignment of version 0 with these partitions."""
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, []).append(number)
    assigned = [TopicPartition(topic=name, partitions=some) for name, some in topics.items()]
    return encoder(Assignment, 0, Framing.BARE)(Assignment(assigned_partitions=assigned))


def has_user_data(assignment: bytes, metadata: bytes) -> bool:
    """Return whether an assignment has user data of its own, not only that of the member's own
    subscription, which librdkafka sends back; True for bytes that are no assignment.
    """
    if not assignment:
        return False
    try:
        user_data = decode_assignment(assignment).user_data
        return bool(user_data) and user_data != decode_subscription(metadata).user_data
    except DecodeError:
        return True


def count_assigned(data: bytes) -> int | None:
    """Return the number of partitions of an assignment; None if the bytes are none."""
    topics = read_assigned(data)
    return None if topics is None else sum(map(len, topics.values()))


def subscribed_topics(data: bytes) -> tuple[str, ...] | None:
    """Read the topics of a subscription, None if the bytes are no subscription. Never raises."""
    read = read_topics(data)
    return None if read is None else read[0]


def read_topics(data: bytes, most: int = 2**31) -> tuple[tuple[str, ...], int] | None:
    """As `subscribed_topics`, with the position after them; None for more than `most` topics."""
    topics = []
    try:
        version, count = _read_version_and_count(data)
        pos = 6
        if version < 0 or not 0 <= count <= most:
            return None
        for _ in range(count):
            (length,) = _read_length(data, pos)
            pos += 2
            stop = pos + length
            if not pos <= stop <= len(data):
                return None
            topics.append(data[pos:stop].decode())
            pos = stop
    except (struct_error, UnicodeDecodeError):
        return None
    return tuple(topics), pos


def _layout_version(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("no version")
    version: int = _read_version(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, NEWEST_VERSION)


def read_config_offset(metadata: bytes) -> int | None:
    """Return the offset in the topic of configurations that a worker of Kafka Connect has read;
    None for other metadata. The layout: version, URL of the worker, offset, assignment.

    Source: Kafka's `ConnectProtocol` and `IncrementalCooperativeConnectProtocol`.
    """
    try:
        version, length = unpack_from(">hh", metadata)
        if not 0 <= version <= NEWEST_CONNECT_VERSION or length <= 0:
            return None
        offset: int = unpack_from(">q", metadata, 4 + length)[0]
        return offset
    except struct_error:
        return None
