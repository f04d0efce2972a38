"""Encodes groups and offsets as log records, and decodes them.

Records are written in the oldest versions that hold what is needed, which all tools read:
OffsetCommitValue v3, or v1 for an explicit expiry, and GroupMetadataValue v3. v0 to v4 are read.
The handlers decide when a record is written.

Source: `GroupCoordinatorRecordHelpers`, the schemas of `__consumer_offsets`.
"""

from collections.abc import Sequence
from struct import Struct

from groupkeeper.coordinator.election import resubscribe
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member, Protocols, metadata_for
from groupkeeper.coordinator.soft_state import Seat
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupSeatKey,
    GroupSeatValue,
    MemberMetadata,
    OffsetCommitValue,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_member,
    encode_value,
)

_KEY_HEAD, _LENGTH = Struct(">hh").pack, Struct(">h").pack
_PARTITION = Struct(">i")
_PLAIN_VALUE = Struct(">hqihq")
"""OffsetCommitValue v3 with empty metadata: version, offset, leader epoch, 0, commit timestamp."""
_OFFSET = _TIMESTAMP = Struct(">q")
_V3, _EMPTY = b"\0\3", b"\0\0"


def group_key(group_id: str) -> bytes:
    """Encode a GroupMetadataKey, type 2."""
    return encode_key(GroupMetadataKey(group=group_id))


def offset_key_head(group_id: str, topic: str) -> bytes:
    """Encode an OffsetCommitKey, type 1, without the partition: equal for all of a topic."""
    # Encoded by hand: every commit needs it, and a cache would be memory that clients fill.
    group, name = group_id.encode(), topic.encode()
    return b"".join((_KEY_HEAD(1, len(group)), group, _LENGTH(len(name)), name))


def offset_key(head: bytes, partition: int) -> bytes:
    """Encode an OffsetCommitKey, type 1."""
    return head + _PARTITION.pack(partition)


def offset_value(
    offset: int, leader_epoch: int, metadata: str, timestamp_ms: int, expires_ms: int
) -> bytes:
    """Encode an OffsetCommitValue v3; v1 only when the commit carried a retention of its own."""
    if not metadata and expires_ms == -1:
        # Nearly all commits are like this, and commits are most of the log.
        return _PLAIN_VALUE.pack(3, offset, leader_epoch, 0, timestamp_ms)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp_ms,
        expire_timestamp=expires_ms,
    )
    return encode_value(value, 3 if expires_ms == -1 else 1)


def parts_of_value(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Encode an OffsetCommitValue v3: version, offset; leader epoch, metadata; timestamp."""
    return value[:10], value[10:-8], value[-8:]


def offset_in(value: bytes) -> int:
    """Return the offset of an OffsetCommitValue of any version."""
    offset: int = _OFFSET.unpack_from(value, 2)[0]
    return offset


def checked_offset_value(value: bytes) -> bytes:
    """Check a value from a log. Raises DecodeError."""
    plain = len(value) == _PLAIN_VALUE.size and value.startswith(_V3) and value[14:16] == _EMPTY
    if not plain:
        decode_offset_value(value)
    return value


def offset_times(value: bytes) -> tuple[int, int]:
    """Return commit time and explicit expiry (-1: none) of a checked value, in Unix ms."""
    if value.startswith(_V3):  # nearly all; the time is at the end
        return _TIMESTAMP.unpack_from(value, len(value) - _TIMESTAMP.size)[0], -1
    decoded = decode_offset_value(value)
    return decoded.commit_timestamp, decoded.expire_timestamp


def group_value(
    group: Group, members: Sequence[bytes], leader: str | None, count: int | None = None
) -> bytes:
    """Encode the group as a GroupMetadataValue v3 with these members and this leader. `count`: the
    number of members, if `members` has several joined in one item.
    """
    return encode_group_value(
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol_name,
            leader=leader,
            current_state_timestamp=group.state_timestamp_ms,
        ),
        members,
        count,
    )


def empty_group_record(group_id: str, protocol_type: str) -> tuple[bytes, bytes]:
    """Return a record as large as the one that is written when the group becomes Empty."""
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=0, protocol=None, leader=None
    )
    return group_key(group_id), encode_group_value(value, ())


def member_record(
    member: Member, protocol_name: str | None, assignment: bytes | None = None
) -> bytes:
    """Encode a member of the group record, with the metadata of the elected protocol only."""
    return encode_member(
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=metadata_for(protocol_name, member.protocols),
            assignment=member.assignment if assignment is None else assignment,
        )
    )


def returned_record(
    member: Member,
    new_id: str,
    protocols: Protocols,
    timeouts: tuple[int, int],
    protocol_name: str | None,
    client: tuple[str, str] | None,
) -> bytes:
    """Encode a member that returned, with the data of its JoinGroup. `timeouts`: session and
    rebalance, in ms. `client`: client id and host of another client that took its place.
    """
    client_id, client_host = client or (member.client_id, member.client_host)
    session_ms, rebalance_ms = timeouts
    return encode_member(
        MemberMetadata(
            member_id=new_id,
            group_instance_id=member.instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout=rebalance_ms,
            session_timeout=session_ms,
            subscription=metadata_for(protocol_name, protocols),
            assignment=member.assignment,
        )
    )


def seat_key(group_id: str, member_id: str) -> bytes:
    """Encode a GroupSeatKey, type 1001."""
    return encode_key(GroupSeatKey(group=group_id, member=member_id))


def seat_value(seat: Seat) -> bytes:
    return encode_value(GroupSeatValue(since=seat.since_wall_ms, code=seat.code), 0)


def member_records(group: Group) -> dict[str, bytes]:
    """Encode each member, by its id."""
    protocol = group.protocol_name
    return {each.member_id: member_record(each, protocol) for each in group.members.values()}


def restore_group(group_id: str, value: GroupMetadataValue) -> Group:
    """Make a group from its last record: Stable with members, Empty without.

    The last entry counts for a repeated member id or instance id, which no coordinator writes.
    """
    group = Group(
        group_id,
        value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        is_stored=True,
        planned_generation=value.generation,
    )
    for each in _without_doubles(value.members):
        protocol = JoinGroupRequestProtocol(name=value.protocol or "", metadata=each.subscription)
        unknown = each.rebalance_timeout == -1  # records of version 0 have none
        group.add(
            Member(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout,
                rebalance_timeout_ms=each.session_timeout if unknown else each.rebalance_timeout,
                protocols=[protocol],
                assignment=each.assignment,
                is_restored=True,
            )
        )
    group.leader_id = value.leader if value.leader in group.members else group.leader_id
    if group.members:
        group.state = GroupState.STABLE
    if group.instances:  # one that returns needs all of them, and 10,000 take 20 ms
        group.member_records = member_records(group)
    resubscribe(group)
    return group


def _without_doubles(members: Sequence[MemberMetadata]) -> list[MemberMetadata]:
    """Keep the last entry of each member id and of each instance id."""
    by_id = {each.member_id: each for each in members}
    holder = {each.group_instance_id: each.member_id for each in by_id.values()}
    return [
        each
        for each in by_id.values()
        if each.group_instance_id is None or holder[each.group_instance_id] == each.member_id
    ]
