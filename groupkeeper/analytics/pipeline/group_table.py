"""The groups of one log partition as they are now, and each change of their generation.

Fed with all records but commits, in the order of log offsets, never of timestamps. The last record
of a key wins, as when a coordinator loads its log.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.groups import ASSIGNMENT_TYPE, decode_row
from groupkeeper.analytics.history.schemas import INT, LONG, TEXT, TEXTS, TIME, YES
from groupkeeper.analytics.modern import FIRST_KEY_TYPE, describe
from groupkeeper.analytics.reading.columns import GROUP_KEY_TYPE
from groupkeeper.history.fields import LAST_MS
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES

GROUPS: Final = pa.schema(
    [
        ("group", TEXT),
        ("type", TEXT),
        ("state", TEXT),
        ("protocol_type", TEXT),
        ("protocol", TEXT),
        ("generation", INT),
        ("member_count", INT),
        ("offsets", LONG),
        ("last_change", TIME),
    ]
)
MEMBERS: Final = pa.schema(
    [
        ("group", TEXT),
        ("member_id", TEXT),
        ("group_instance_id", TEXT),
        ("client_id", TEXT),
        ("client_host", TEXT),
        ("rebalance_timeout_ms", INT),
        ("subscribed_topics", TEXTS),
        ("assignment", ASSIGNMENT_TYPE),
        ("is_leader", YES),
        ("session_timeout_ms", INT),
        ("member_epoch", INT),
        ("assigned_partitions", INT),
    ]
)
GENERATIONS: Final = pa.schema(
    [
        ("group", TEXT),
        ("partition", INT),
        ("offset", LONG),
        ("time", TIME),
        ("kind", TEXT),
        ("generation", INT),
        ("member_count", INT),
        ("protocol_type", TEXT),
        ("protocol", TEXT),
        ("leader", TEXT),
        ("unwritten", INT),
    ]
)

Row = dict[str, Any]  # what Arrow's to_pylist gives
Names = Mapping[bytes, str]


@dataclass(slots=True)
class _Group:
    """What is known of a group so far."""

    raw: Row | None = None
    """Its last group record."""
    last: Row | None = None
    """The same, decoded."""
    newest: dict[bytes, Row] = field(default_factory=dict)
    """The last record of each key of newer groups."""


class GroupTable:
    """State: the last records of each group."""

    def __init__(self, partition: int, names: Names) -> None:
        self._partition = partition
        self._names = names
        self._groups: dict[str, _Group] = {}
        self.problems: list[Row] = []
        """Group values that could not be decoded."""

    def add(self, records: Iterable[Row]) -> Iterator[Row]:
        """Takes records that are no commits and have a group and no problem; yields rows of
        GENERATIONS. A batch must not be cut.
        """
        for _, batch in groupby(records, key=itemgetter("batch_position")):
            rows = list(batch)
            told = {(row["group"], _is_epoch(row), row["tombstone"]) for row in rows if _says(row)}
            for row in rows:
                name, group = row["group"], self._groups.setdefault(row["group"], _Group())
                if row["key_type"] >= FIRST_KEY_TYPE:
                    group.newest[row["key"]] = row
                    if _is_epoch(row):
                        converted = row["tombstone"] and (name, False, False) in told
                        yield self._epoch(row, is_converted=converted)
                else:
                    # The same batch begins or ends the group in a newer protocol.
                    converted = (name, True, not row["tombstone"]) in told
                    group.raw = row
                    yield self._generation(group, row, is_converted=converted)

    def _epoch(self, row: Row, *, is_converted: bool) -> Row:
        """A value is an int16 version and an int32 epoch."""
        value = row["value"]
        kind = "deleted" if row["tombstone"] else "epoch"
        return {
            "group": row["group"],
            "partition": self._partition,
            "offset": row["offset"],
            "time": instant(row["timestamp_ms"]),
            "kind": "converted" if is_converted else kind,
            "generation": int.from_bytes(value[2:6], "big", signed=True) if value else None,
        }

    def _generation(self, group: _Group, record: Row, *, is_converted: bool) -> Row:
        """What a group record changed, compared with the one before it."""
        now = _decoded(record)
        before, group.last = group.last, now
        if now.get("problem"):
            self._note(now)
        kind = "converted" if is_converted else _kind(now, before)
        generation = now.get("generation")
        last = before.get("generation") if before else None
        skipped = None if generation is None or last is None else generation - last - 1
        return {
            "group": now["group"],
            "partition": self._partition,
            "offset": now["offset"],
            "time": instant(now["timestamp_ms"]),
            "kind": kind,
            "generation": generation,
            "member_count": _count(now),
            "protocol_type": now.get("protocol_type"),
            "protocol": now.get("protocol"),
            "leader": now.get("leader"),
            "unwritten": max(0, skipped or 0),
        }

    def _note(self, row: Row) -> None:
        few = {name: row[name] for name in ("offset", "problem")}
        self.problems.append({"partition": self._partition, **few})

    def finish(self, offsets: Mapping[str, Row]) -> tuple[list[Row], list[Row]]:
        """Rows of GROUPS and MEMBERS, by group. `offsets` has for each group with commits
        `offsets`, how many are not deleted, `last`, the log offset of the last one or of its
        tombstone, and `last_commit`, epoch milliseconds.
        """
        groups: list[Row] = []
        members: list[Row] = []
        for name in sorted({*self._groups, *offsets}):
            known = self._groups.get(name) or _Group()
            newer = self._newer(known.newest)
            groups.append(_group_row(name, known.last, newer, offsets.get(name, {})))
            members += _members(name, known.last, newer)
        return groups, members

    def state(self) -> list[Row]:
        """The last records, for `restore`."""
        return [
            row
            for group in self._groups.values()
            for row in (group.raw, *group.newest.values())
            if row is not None
        ]

    def restore(self, records: Iterable[Row]) -> None:
        """Go on where another one was that returned these records."""
        for row in records:
            group = self._groups.setdefault(row["group"], _Group())
            if row["key_type"] >= FIRST_KEY_TYPE:
                group.newest[row["key"]] = row
            else:
                group.raw, group.last = row, _decoded(row)

    def _newer(self, newest: Mapping[bytes, Row]) -> Row | None:
        if not newest:
            return None
        last = max(newest.values(), key=itemgetter("offset"))
        told = describe([(row["key"], row["value"]) for row in newest.values()], self._names)
        found = {"offset": last["offset"], "timestamp_ms": last["timestamp_ms"], **told}
        if found.get("problem"):
            self._note(found)
        return found


_OF_RECORD: Final = ("offset", "timestamp_ms", "group", "tombstone", "value")


def _decoded(record: Row) -> Row:
    return {**decode_row({name: record[name] for name in _OF_RECORD})}


def _is_epoch(row: Row) -> bool:
    return row["key_type"] in EPOCH_TYPES


def _says(row: Row) -> bool:
    """Whether it says that a group exists, or does not, in one of the protocols."""
    return row["key_type"] == GROUP_KEY_TYPE or _is_epoch(row)


def instant(milliseconds: int | None) -> int | None:
    """Epoch milliseconds; None if unknown (negative) or behind the year 9999."""
    known = milliseconds is not None and 0 <= milliseconds <= LAST_MS
    return milliseconds if known else None


def _count(group: Row) -> int | None:
    members = group.get("members")
    return None if members is None else len(members)


def _ids(group: Row | None) -> list[str]:
    return sorted(each["member_id"] for each in (group or {}).get("members") or ())


def _kind(now: Row, before: Row | None) -> str:
    """The order of the cases matters: a group that becomes empty also gets a new generation."""
    if now["tombstone"]:
        return "deleted"
    if now.get("problem"):
        return "unreadable"
    generation, ids = now["generation"], _ids(now)
    last = before.get("generation") if before else None
    if last is None and not ids:
        return "created" if generation == 0 else "emptied"
    if last is not None and generation < last:
        return "reset"
    if not ids and _ids(before):
        return "emptied"
    if last is None or generation > last:
        return "rebalance"
    return "rewrite" if ids == _ids(before) else "static replacement"


def _group_row(name: str, classic: Row | None, newer: Row | None, offsets: Row) -> Row:
    """A group is what its newest living record says, classic or not: a conversion ends the other.
    A group of which only offsets are left is a simple one.
    """
    row: Row = {"group": name, "offsets": offsets.get("offsets", 0)}
    last = classic or {}
    changes = [each["timestamp_ms"] for each in (classic, newer) if each]
    known = [time for time in map(instant, changes) if time is not None]
    row["last_change"] = max(known) if known else instant(offsets.get("last_commit"))
    state = _classic_state(classic)
    is_classic = state not in (None, "Dead")
    is_newer = not is_classic and newer is not None
    newer = newer if is_newer and newer else {}
    is_dead = newer.get("state") == "Dead"
    # Offsets that were deleted, or never counted, are of a group unless it was deleted after them.
    ends = [each["offset"] for each in (classic, newer) if each]
    is_left = row["offsets"] > 0 or offsets.get("last", -1) > max(ends, default=-1)
    is_simple = not is_classic and is_left and (not is_newer or is_dead)
    kind = newer.get("type") if is_newer else "classic"
    speaks = kind if is_newer and not is_simple and kind in EPOCH_TYPES.values() else None
    if is_newer:
        state = newer.get("state")
    return row | {
        "type": "simple" if is_simple else kind,
        "state": "Empty" if is_simple else state,
        "protocol_type": speaks or last.get("protocol_type"),
        "protocol": last.get("protocol"),
        "generation": (newer.get("epoch") if is_newer and not is_dead else last.get("generation")),
        "member_count": len((newer if is_newer else last).get("members") or ()),
    }


def _classic_state(group: Row | None) -> str | None:
    if group is None:
        return None
    if group["tombstone"]:
        return "Dead"
    count = _count(group)
    return None if count is None else "Stable" if count else "Empty"


def _members(name: str, classic: Row | None, newer: Row | None) -> Iterator[Row]:
    leader = (classic or {}).get("leader")
    for each in (classic or {}).get("members") or ():
        is_leader = None if leader is None else each["member_id"] == leader
        yield {"group": name, **each, "is_leader": is_leader, **_assigned(each)}
    for each in (newer or {}).get("members") or ():
        yield {"group": name, **each, **_assigned(each)}


def _assigned(member: Row) -> Row:
    topics = member["assignment"]
    count = None if topics is None else sum(len(each["partitions"]) for each in topics)
    return {"assigned_partitions": count}
