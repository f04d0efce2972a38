"""The present state of the groups of one log partition, and each change of their generation.

Input are all records but commits, in the order of log offsets, never of timestamps. The last record
of a key wins, as when a coordinator loads its log.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.reading.columns import GROUP_KEY_TYPE
from groupkeeper.analytics.reading.groups import (
    ASSIGNMENT_TYPE,
    FIRST_KEY_TYPE,
    decode_members,
    describe,
)
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.schemas import INT, LONG, TEXT, TEXTS, TIME, YES
from groupkeeper.history.newer_topics import Names
from groupkeeper.history.records import (
    CONVERTED,
    DELETED,
    UNREADABLE,
    Generation,
    kind_of,
    read_generation,
    unwritten,
)
from groupkeeper.history.rows import instant
from groupkeeper.protocol.errors import DecodeError
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

_Row = dict[str, Any]  # what Arrow's to_pylist gives


@dataclass(slots=True)
class _Group:
    """The records of a group so far."""

    record: _Row | None = None
    """Its last group record."""
    last: Generation | None = None
    """The decoded value of that record; None for a tombstone or an unreadable value."""
    newest: dict[bytes, _Row] = field(default_factory=dict)
    """The last record of each key of consumer, share and streams groups."""


class GroupTable:
    """The last records of each group."""

    def __init__(self, partition: int, names: Names) -> None:
        self._partition = partition
        self._names = names
        self._groups: dict[str, _Group] = {}
        self.problems: list[_Row] = []
        """Rows about group values that could not be decoded."""

    def add(self, records: Iterable[_Row]) -> Iterator[_Row]:
        """Add records with a group and no problem, other than commits; yields rows of GENERATIONS.
        A record batch must not be split across calls.
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
                    # The same batch creates or deletes the group in a newer protocol.
                    converted = (name, True, not row["tombstone"]) in told
                    yield self._generation(group, row, is_converted=converted)

    def _epoch(self, row: _Row, *, is_converted: bool) -> _Row:
        """Return the change of a newer group. A value is an int16 version and an int32 epoch."""
        value = row["value"]
        kind = "deleted" if row["tombstone"] else "epoch"
        return self._change(row, CONVERTED if is_converted else kind) | {
            "generation": int.from_bytes(value[2:6], "big", signed=True) if value else None
        }

    def _generation(self, group: _Group, record: _Row, *, is_converted: bool) -> _Row:
        """Return the change of a classic group compared with its previous record."""
        before, group.record, group.last = group.last, record, None
        kind = DELETED
        more: _Row = {"unwritten": 0}
        if record["value"] is not None:
            try:
                now = group.last = read_generation(record["value"])
            except DecodeError as error:
                kind = UNREADABLE
                self._note(record["offset"], f"{Problem.BAD_VALUE.text}: {error}")
            else:
                kind = kind_of(before, now)
                more = {
                    "generation": now.generation,
                    "member_count": len(now.members),
                    "protocol_type": now.protocol_type or "",
                    "protocol": now.protocol,
                    "leader": now.leader,
                    "unwritten": unwritten(before, now),
                }
        return self._change(record, CONVERTED if is_converted else kind) | more

    def _change(self, record: _Row, kind: str) -> _Row:
        return {
            "group": record["group"],
            "partition": self._partition,
            "offset": record["offset"],
            "time": instant(record["timestamp_ms"]),
            "kind": kind,
        }

    def _note(self, offset: int, problem: str) -> None:
        row = {"partition": self._partition, "offset": offset, "problem": problem}
        self.problems.append(row)

    def finish(self, offsets: Mapping[str, _Row]) -> tuple[list[_Row], list[_Row]]:
        """Return rows of GROUPS and MEMBERS, by group. `offsets` has for each group with commits:
        `offsets`, the number not deleted; `last`, the log offset of the last one or of its
        tombstone; and `last_commit` in epoch milliseconds.
        """
        groups: list[_Row] = []
        members: list[_Row] = []
        for name in sorted({*self._groups, *offsets}):
            known = self._groups.get(name) or _Group()
            newer = self._newer(known.newest)
            groups.append(_group_row(name, known, newer, offsets.get(name, {})))
            members += _members(name, known, newer)
        return groups, members

    def state(self) -> list[_Row]:
        """Return the last records, for `restore`."""
        return [
            row
            for group in self._groups.values()
            for row in (group.record, *group.newest.values())
            if row is not None
        ]

    def restore(self, records: Iterable[_Row]) -> None:
        """Restore a table from the records of `state()`."""
        for row in records:
            group = self._groups.setdefault(row["group"], _Group())
            if row["key_type"] >= FIRST_KEY_TYPE:
                group.newest[row["key"]] = row
                continue
            group.record = row
            if row["value"] is not None:
                with suppress(DecodeError):
                    group.last = read_generation(row["value"])

    def _newer(self, newest: Mapping[bytes, _Row]) -> _Row | None:
        if not newest:
            return None
        last = max(newest.values(), key=itemgetter("offset"))
        told = describe([(row["key"], row["value"]) for row in newest.values()], self._names)
        found = {"offset": last["offset"], "timestamp_ms": last["timestamp_ms"], **told}
        if found.get("problem"):
            self._note(found["offset"], found["problem"])
        return found


def _is_epoch(row: _Row) -> bool:
    return row["key_type"] in EPOCH_TYPES


def _says(row: _Row) -> bool:
    """Return whether a record states the existence or deletion of a group."""
    return row["key_type"] == GROUP_KEY_TYPE or _is_epoch(row)


def _group_row(name: str, group: _Group, newer: _Row | None, offsets: _Row) -> _Row:
    """Return the row of a group, described by its newest record with a value, classic or not: a
    conversion ends the other. A group with only offsets left is of type `simple`.
    """
    row: _Row = {"group": name, "offsets": offsets.get("offsets", 0)}
    classic, last = group.record, group.last
    changes = [each["timestamp_ms"] for each in (classic, newer) if each]
    known = [time for time in map(instant, changes) if time is not None]
    row["last_change"] = max(known) if known else instant(offsets.get("last_commit"))
    state = _classic_state(group)
    is_classic = state not in (None, "Dead")
    is_newer = not is_classic and newer is not None
    newer = newer if is_newer and newer else {}
    is_dead = newer.get("state") == "Dead"
    # Deleted and aborted offsets also show that a group exists, unless it was deleted after them.
    ends = [each["offset"] for each in (classic, newer) if each]
    is_left = row["offsets"] > 0 or offsets.get("last", -1) > max(ends, default=-1)
    is_simple = not is_classic and is_left and (not is_newer or is_dead)
    kind = newer.get("type") if is_newer else "classic"
    speaks = kind if is_newer and not is_simple and kind in EPOCH_TYPES.values() else None
    if is_newer:
        state = newer.get("state")
    members = newer.get("members") if is_newer else last and last.members
    return row | {
        "type": "simple" if is_simple else kind,
        "state": "Empty" if is_simple else state,
        "protocol_type": speaks or (last and (last.protocol_type or "")),
        "protocol": last and last.protocol,
        "generation": newer.get("epoch") if is_newer and not is_dead else last and last.generation,
        "member_count": len(members or ()),
    }


def _classic_state(group: _Group) -> str | None:
    if group.record is not None and group.record["tombstone"]:
        return "Dead"
    if group.last is None:
        return None
    return "Stable" if group.last.members else "Empty"


def _members(name: str, group: _Group, newer: _Row | None) -> Iterator[_Row]:
    if group.record is not None and group.last is not None:
        leader = group.last.leader
        for each in decode_members(group.record["value"]):
            is_leader = None if leader is None else each["member_id"] == leader
            yield {"group": name, **each, "is_leader": is_leader, **_assigned(each)}
    for each in (newer or {}).get("members") or ():
        yield {"group": name, **each, **_assigned(each)}


def _assigned(member: _Row) -> _Row:
    topics = member["assignment"]
    count = None if topics is None else sum(len(each["partitions"]) for each in topics)
    return {"assigned_partitions": count}
