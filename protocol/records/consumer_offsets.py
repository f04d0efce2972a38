"""Keys and values of `__consumer_offsets`, in every version of the classic group's records.

A key is an int16 type and its fields, a value an int16 version and its fields; a null value is a
tombstone. Kafka up to 4.0 writes values up to version 3, 4.1 writes offset values in version 4.
Versions above 4 are read as 4, as Kafka does (KIP-915). Records of other group types are
recognized, not read. Key types 1000 and 1001 are Groupkeeper's own: Kafka keeps configs of groups
in its metadata log, has no seats, and skips records of types that it does not know.

Source: Kafka 4.1, `GroupCoordinatorRecordSerde`, `OffsetCommitKey.json`, `OffsetCommitValue.json`,
`GroupMetadataKey.json`, `GroupMetadataValue.json`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import empty, message, since, struct, tagged
from groupkeeper.protocol.types import Array, Bytes, Int32, Int64, NullableString, String, Uuid

NEWEST_VALUE_VERSION = 4
GROUP_CONFIGS_TYPE = 1000
"""Key type of a group's configs."""
GROUP_SEAT_TYPE = 1001
"""Key type of the seat of a lost member."""

_INT16_BYTES = 2
_read_int16 = Struct(">h").unpack_from
_COUNT = Struct(">i")


@message(versions=(0, 1))
class OffsetCommitKey:
    """Key types 0 (before Kafka 0.9) and 1: group and partition of a committed offset."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(versions=(2, 2))
class GroupMetadataKey:
    """Key type 2: a group."""

    group: String = ""


@message(versions=(1000, 1000))
class GroupConfigsKey:
    """Key type 1000: the configs of a group, which exist without the group, too."""

    group: String = ""


@message(versions=(1001, 1001))
class GroupSeatKey:
    """Key type 1001: the seat of a member of the group's last record."""

    group: String = ""
    member: String = ""
    """Id of the member; a seat of an id that the group's record does not have is none."""


class UnknownKey(NamedTuple):
    """A key of another type: of consumer, share or streams groups, or of a newer Kafka."""

    key_type: int


Key: TypeAlias = OffsetCommitKey | GroupMetadataKey | GroupConfigsKey | GroupSeatKey


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """A committed offset.

    Version 1 has an expiry time, version 3 adds the leader epoch (KIP-320), version 4 the topic id
    as a tag (KIP-848).
    """

    offset: Int64 = 0
    """Offset of the record to read next."""
    leader_epoch: Int32 = since(3, default=-1)
    """Epoch of the last record that was read; -1 if unknown."""
    metadata: String = ""
    """Text that the client keeps with the offset."""
    commit_timestamp: Int64 = 0
    """Epoch milliseconds of the commit."""
    expire_timestamp: Int64 = since(1, until=1, default=-1)
    """Epoch milliseconds after which the offset expires; -1 leaves it to retention."""
    topic_id: Uuid = tagged(0, since=4)
    """Id of the topic; zero if unknown."""


@struct
class MemberMetadata:
    """A member of a stored group.

    Version 1 adds the rebalance timeout (KIP-62), version 3 static members (KIP-345).
    """

    member_id: String = ""
    """Id that the coordinator gave the member."""
    group_instance_id: NullableString = since(3, default=None)
    client_id: String = ""
    """Client id that the member joined with."""
    client_host: String = ""
    """Address that the member joined from."""
    rebalance_timeout: Int32 = since(1)
    """How long a rebalance waits for the member, in ms."""
    session_timeout: Int32 = 0
    """Milliseconds without a heartbeat after which the member is removed."""
    subscription: Bytes = b""
    """Its metadata in the chosen protocol."""
    assignment: Bytes = b""
    """Its assignment; empty if it got none."""


@message(versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """A group in its last stable generation; version 2 adds the time of its last state change."""

    protocol_type: String = ""
    """Kind of group, such as `consumer`."""
    generation: Int32 = 0
    """The generation."""
    protocol: NullableString = ""
    """The chosen protocol; null without members."""
    leader: NullableString = ""
    """Member id of the leader; null without members."""
    current_state_timestamp: Int64 = since(2, default=-1)
    """Epoch milliseconds since which the group is in its state; -1 if unknown."""
    members: Array[MemberMetadata] = empty()
    """The members; empty if the group is Empty."""


@struct
class GroupConfigEntry:
    """A config that is set for a group."""

    name: String = ""
    """Name of the config, such as `consumer.session.timeout.ms`."""
    value: String = ""
    """Its value, as it was given."""


@message(versions=(0, 0), flexible=0)
class GroupConfigsValue:
    """All configs that are set for a group."""

    configs: Array[GroupConfigEntry] = empty()
    """The configs, by name."""


@message(versions=(0, 0), flexible=0)
class GroupSeatValue:
    """The seat of a lost member, whose partitions are reserved."""

    since: Int64 = 0
    """Epoch milliseconds since which the member is lost."""
    code: String = ""
    """Why it is lost: a code of causes, such as `session_expired`."""


_KEY_TYPES: dict[type, int] = {
    OffsetCommitKey: 1,
    GroupMetadataKey: 2,
    GroupConfigsKey: GROUP_CONFIGS_TYPE,
    GroupSeatKey: GROUP_SEAT_TYPE,
}


def encode_key(key: Key) -> bytes:
    """Encode a key, with type 1, 2, 1000 or 1001."""
    cls: type = type(key)
    return encoder(cls, _KEY_TYPES[cls], Framing.VERSIONED)(key)


def encode_value(
    value: OffsetCommitValue | GroupMetadataValue | GroupConfigsValue | GroupSeatValue, version: int
) -> bytes:
    """Encode a value, in a version from 0 to 4; configs and seats have only version 0."""
    cls: type = type(value)
    return encoder(cls, version, Framing.VERSIONED)(value)


def encode_group_value(
    value: GroupMetadataValue, members: Sequence[bytes], count: int | None = None
) -> bytes:
    """Encode a GroupMetadataValue v3 with members that are encoded already; its own list is empty.
    `count`: the number of members, if an item of these bytes has several.

    A large group is written anew whenever one of its static members returns, while the other
    members stay the same.
    """
    assert not value.members
    without = encode_value(value, 3)
    head = without[: -_COUNT.size], _COUNT.pack(len(members) if count is None else count)
    return b"".join((*head, *members))


def encode_member(member: MemberMetadata) -> bytes:
    """Encode a member as part of a GroupMetadataValue v3."""
    return encoder(MemberMetadata, 3, Framing.BARE)(member)


def decode_key(data: bytes) -> Key | UnknownKey:
    """Decode the key of a record; DecodeError if it has no type, or is malformed for its type."""
    key_type = _leading_int16(data)
    match key_type:
        case 0 | 1:
            key: Key = decoder(OffsetCommitKey, key_type)(data, _INT16_BYTES, len(data))
        case 2:
            key = decoder(GroupMetadataKey, key_type)(data, _INT16_BYTES, len(data))
        case 1000:  # GROUP_CONFIGS_TYPE
            key = decoder(GroupConfigsKey, key_type)(data, _INT16_BYTES, len(data))
        case 1001:  # GROUP_SEAT_TYPE
            key = decoder(GroupSeatKey, key_type)(data, _INT16_BYTES, len(data))
        case _:
            return UnknownKey(key_type)
    return key


def decode_offset_value(data: bytes) -> OffsetCommitValue:
    """Decode the value for an OffsetCommitKey, of any version; DecodeError if it is malformed."""
    decode = decoder(OffsetCommitValue, _layout_version(_leading_int16(data)))
    value: OffsetCommitValue = decode(data, _INT16_BYTES, len(data))
    return value


def decode_group_value(data: bytes) -> GroupMetadataValue:
    """Decode the value for a GroupMetadataKey, of any version; DecodeError if it is malformed.

    Version 0 has no rebalance timeout: it is set to the session timeout, as in Kafka.
    """
    version = _leading_int16(data)
    decode = decoder(GroupMetadataValue, _layout_version(version))
    value: GroupMetadataValue = decode(data, _INT16_BYTES, len(data))
    if version == 0:
        for member in value.members:
            member.rebalance_timeout = member.session_timeout
    return value


def decode_configs_value(data: bytes) -> GroupConfigsValue:
    """Decode the value for a GroupConfigsKey; DecodeError if it is malformed. Every version is read
    as 0: later ones may only add tags.
    """
    _layout_version(_leading_int16(data))
    value: GroupConfigsValue = decoder(GroupConfigsValue, 0)(data, _INT16_BYTES, len(data))
    return value


def decode_seat_value(data: bytes) -> GroupSeatValue:
    """Decode the value for a GroupSeatKey, as `decode_configs_value` does."""
    _layout_version(_leading_int16(data))
    value: GroupSeatValue = decoder(GroupSeatValue, 0)(data, _INT16_BYTES, len(data))
    return value


def _layout_version(version: int) -> int:
    if version < 0:
        raise DecodeError(f"a value of version {version}")
    return min(version, NEWEST_VALUE_VERSION)


def _leading_int16(data: bytes) -> int:
    if len(data) < _INT16_BYTES:
        raise DecodeError(f"{len(data)} bytes are too few for a type or version")
    number: int = _read_int16(data)[0]
    return number
