"""Logs of the offsets topic that another program wrote, with numbers at the ends of their ranges.

No request leads to such a group: a generation of 2^31-1 takes years of rebalances, and members with
these timeouts are refused. A copied folder may have both, and clients go on from there.
"""

from collections.abc import Iterable
from random import Random

from groupkeeper.coordinator.records import group_key
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from tests.support.requests import SUBSCRIPTION

INT32 = (2**31 - 1, 2**31 - 1, 2**31 - 2, -(2**31), -1, 0)
"""The first one twice: the generation after it is what fails."""
INT64 = (2**63 - 1, -(2**63), -1, 0)

Record = tuple[bytes, bytes]


def write_foreign_logs(
    files: Files, data_dir: str, partitions: int, groups: Iterable[str], chance: Random
) -> None:
    """Put a record or some of each group into the log of its partition, where there is none yet."""
    logs: dict[int, list[Record]] = {}
    for group_id in groups:
        logs.setdefault(partition_of(group_id, partitions), []).extend(_records(group_id, chance))
    for number, records in logs.items():
        log = open_log(files, f"{data_dir}/__consumer_offsets-{number}", Limits())
        log.append(encode_batch(0, 0, 0, records))
        log.sync()
        log.close()


def _records(group_id: str, chance: Random) -> list[Record]:
    member_ids = [f"{group_id}-{number}" for number in range(chance.choice([0, 0, 1, 2]))]
    group = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range" if member_ids else None,
        generation=chance.choice(INT32),
        leader=member_ids[0] if member_ids else None,
        current_state_timestamp=chance.choice(INT64),
        members=[_member(member_id, chance) for member_id in member_ids],
    )
    offset = OffsetCommitValue(offset=chance.choice(INT64), commit_timestamp=chance.choice(INT64))
    place = OffsetCommitKey(group=group_id, topic="foreign", partition=chance.choice(INT32))
    return [
        (group_key(group_id), encode_value(group, 3)),
        (encode_key(place), encode_value(offset, chance.choice([1, 3]))),
    ]


def _member(member_id: str, chance: Random) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=chance.choice([None, f"instance of {member_id}"]),
        client_id="foreign",
        client_host="/127.0.0.1",
        rebalance_timeout=chance.choice(INT32),
        session_timeout=chance.choice(INT32),
        subscription=SUBSCRIPTION,
        assignment=chance.randbytes(8),
    )
