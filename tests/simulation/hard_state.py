"""What a partition has to know again after a crash, as plain values that can be compared.

From the coordinator's groups, and from batches: by the coordinator's own replay.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.partition import Partition
from groupkeeper.protocol.record_batch import encode_batch

SETTLED = (GroupState.STABLE, GroupState.EMPTY)
"""In these states a group is as its last record has it."""


class HardMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


class HardGroup(NamedTuple):
    generation: int
    protocol_type: str
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: dict[str, HardMember]
    seats: dict[str, tuple[int, str]]
    """Of lost members: since when, and why."""
    offsets: dict[tuple[str, int], bytes]
    """Whole values: offset, leader epoch, metadata, times."""


HardState = Mapping[str, HardGroup]
"""By group id."""


def hard_group(group: Group) -> HardGroup:
    """Of a group as it is; while it rebalances, only the offsets are those of the log."""
    return HardGroup(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_timestamp_ms=group.state_timestamp_ms,
        members={
            each.member_id: HardMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout_ms,
                each.rebalance_timeout_ms,
                each.metadata(group.protocol_name),
                each.assignment,
            )
            for each in group.members.values()
        },
        seats={
            member_id: (seat.since_wall_ms, str(seat.code))
            for member_id, seat in group.seats.items()
        },
        offsets={
            (topic, partition): value
            for topic, values in group.offsets.items()
            for partition, value in values.items()
        },
    )


def replayed(batches: Iterable[bytes]) -> HardState:
    """The groups that a partition finds in its log."""
    partition = Partition(GroupConfig(), lambda prefix: prefix)
    for chunk in batches:
        partition.replay(chunk)
    for _ in partition.restore():
        pass
    return {group_id: hard_group(group) for group_id, group in partition.groups.items()}


def of_records(newest: Mapping[bytes, bytes]) -> HardState:
    """The groups that these records make, one of each key."""
    return replayed([encode_batch(0, 0, 0, list(newest.items()))] if newest else [])


def check_live(partition: Partition, durable: HardState) -> None:
    """What an active partition knows is what is durable. Call when its gate is clear."""
    assert durable.keys() <= partition.groups.keys()
    for group_id, group in partition.groups.items():
        live, found = hard_group(group), durable.get(group_id)
        if found is None:  # a new group, or one whose last offset was deleted
            assert not live.offsets, group_id
            assert not (group.is_stored and group.protocol_type), group_id
        elif group.state in SETTLED:
            if group.state is GroupState.STABLE or not group.protocol_type:
                # It counts for groups only that have lost their members.
                live = live._replace(state_timestamp_ms=found.state_timestamp_ms)
            assert live == found, group_id
        else:
            assert live.offsets == found.offsets, group_id
            assert live.generation >= found.generation, group_id
