"""What a coordinator knows of a consumer, share or streams group, from its newest records.

The state follows from epochs, as in Kafka's `ConsumerGroup`, `ShareGroup` and `StreamsGroup`.
"""

import base64
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from groupkeeper.analytics.groups import ASSIGNMENT_TYPE
from groupkeeper.analytics.plan import Plan
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.modern_groups import (
    EPOCH_TYPES,
    ConsumerEpoch,
    Current,
    Epoch,
    Member,
    ShareMember,
    StreamsCurrent,
    StreamsMember,
    TargetEpoch,
    decode_modern_key,
    decode_modern_value,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_KEY_TYPE: Final = 3
_STABLE: Final = 0

MEMBER_TYPE: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("member_epoch", pa.int32()),
        ("assignment", ASSIGNMENT_TYPE),
    ]
)
SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("group", pa.string()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),
        ("members", pa.list_(MEMBER_TYPE)),
        ("problem", pa.string()),
    ]
)

Row = dict[str, object]
Names = Mapping[bytes, str]


def modern_groups(records: "DataFrame", names: Names) -> "DataFrame":
    """One row of SCHEMA for each group with records of key types from 3 on. `names` are those of
    topics by id; topics without one are shown by their id.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812  # its usual name
    from pyspark.sql.pandas.types import from_arrow_schema

    found = records.where(
        (records.key_type >= FIRST_KEY_TYPE) & records.problem.isNull() & records.group.isNotNull()
    )
    newest_first = Window.partitionBy("partition", "key").orderBy(F.desc("offset"))
    newest = found.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1")
    each = newest.groupBy("partition", "group").agg(
        F.max("offset").alias("offset"),
        F.max_by("timestamp_ms", "offset").alias("timestamp_ms"),
        F.collect_list(F.struct("key", "value")).alias("records"),
    )
    return each.mapInArrow(partial(_decode, dict(names)), from_arrow_schema(SCHEMA))


def _decode(names: Names, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [describe(row, names) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def describe(row: Row, names: Names) -> Row:
    """A row with `records`, the newest of each key -> a row of SCHEMA."""
    records = row.pop("records")
    assert isinstance(records, list)
    group = _Group()
    try:
        for each in records:
            group.add(each["key"], each["value"])
    except DecodeError as error:
        return {**row, "type": group.type, "problem": f"unreadable value: {error}"}
    return {
        **row,
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "members": [group.member(member_id, names) for member_id in sorted(group.members)],
    }


@dataclass(slots=True)
class _Group:
    type: str = "other"
    epoch: int | None = None
    target_epoch: int | None = None
    deleted: bool = False
    living: bool = False
    """Whether any record has a value."""
    members: dict[str, Member] = field(default_factory=dict)
    current: dict[str, Current] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take one record in."""
        self.living |= value is not None
        found = decode_modern_key(key)
        if found is None:
            return
        if found.key_type in EPOCH_TYPES and self.epoch is None:
            self.type = EPOCH_TYPES[found.key_type]
            self.deleted |= value is None
        if value is None:
            return
        decoded = decode_modern_value(found.key_type, value)
        if isinstance(decoded, ConsumerEpoch | Epoch):
            self.epoch = decoded.epoch
            self.type = EPOCH_TYPES[found.key_type]
        elif isinstance(decoded, TargetEpoch):
            self.target_epoch = decoded.assignment_epoch
        elif found.member_id is not None and isinstance(decoded, Member):
            self.members[found.member_id] = decoded
        elif found.member_id is not None and isinstance(decoded, Current):
            self.current[found.member_id] = decoded

    @property
    def state(self) -> str | None:
        """As Kafka shows it; None if the log does not say."""
        if self.epoch is None:
            return "Dead" if self.deleted or not self.living else None
        if not self.members:
            return "Empty"
        if self.type == "share":
            return "Stable"
        if self.epoch > (self.target_epoch or 0):
            return "Assigning"
        return "Stable" if all(map(self._is_reconciled, self.members)) else "Reconciling"

    def _is_reconciled(self, member_id: str) -> bool:
        current = self.current.get(member_id)
        return (
            current is not None
            and current.state == _STABLE
            and current.member_epoch == self.target_epoch
        )

    def member(self, member_id: str, names: Names) -> Row:
        """A row of MEMBER_TYPE."""
        member, current = self.members[member_id], self.current.get(member_id)
        return {
            "member_id": member_id,
            "group_instance_id": None if isinstance(member, ShareMember) else member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rebalance_timeout_ms": (
                None if isinstance(member, ShareMember) else member.rebalance_timeout_ms
            ),
            "subscribed_topics": (
                None if isinstance(member, StreamsMember) else member.subscribed_topics
            ),
            "member_epoch": current.member_epoch if current else None,
            "assignment": _assignment(current, names),
        }


def _assignment(current: Current | None, names: Names) -> list[Row]:
    """By topic; in streams groups the active tasks by subtopology."""
    if current is None:
        return []
    if isinstance(current, StreamsCurrent):
        return [
            {"topic": each.subtopology_id, "partitions": sorted(each.partitions)}
            for each in current.active
        ]
    found: list[Row] = [
        {"topic": names.get(each.topic_id) or id_text(each.topic_id), "partitions": each.partitions}
        for each in current.assigned
    ]
    return sorted(found, key=lambda row: str(row["topic"]))


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_names(plan: Plan) -> dict[bytes, str]:
    """Names of topics by id, from `partition.metadata` in the folders beside those that are read.

    Records of newer groups hold only ids; a copy of the offsets topic alone has no names.
    """
    found: dict[bytes, str] = {}
    for place in {Path(split.path).parent.parent for chunk in plan.chunks for split in chunk}:
        for file in place.glob("*-*/partition.metadata"):
            with contextlib.suppress(OSError, ValueError):
                found[_topic_id(file)] = file.parent.name.rpartition("-")[0]
    return found


def _topic_id(file: Path) -> bytes:
    """ValueError if there is none."""
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "topic_id":
            text = value.strip()
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    raise ValueError("no topic id")
