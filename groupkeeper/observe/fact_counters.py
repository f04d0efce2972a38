"""The counters of facts: names, labels and help, and the label values known in advance.

A series with known labels exists from the start, at 0: the `increase()` of a series that first
appears with the value 1 is 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple, get_args

from groupkeeper.coordinator.facts import LimitName
from groupkeeper.coordinator.likely import GUESSES
from groupkeeper.coordinator.policy import (
    EXPECTED_IDS,
    MIN_INTERVAL,
    TARGET_SIZE,
    UNEXPECTED,
    WINDOW,
)
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import CauseCode

LabelValues = tuple[str, ...]


class FactCounter(NamedTuple):
    """A row of `COUNTERS`."""

    text: str
    labels: Sequence[str] = ()
    known: Sequence[LabelValues] = ((),)
    """Label values that exist from the start; others may follow."""


def _each(values: Iterable[str]) -> Sequence[LabelValues]:
    return [(str(each),) for each in values]


CAUSES: Final = _each(CauseCode)
JOINS: Final = _each((CauseCode.MEMBER_JOINED, CauseCode.STATIC_MEMBER_JOINED))
MEMBER_APIS: Final = ("Heartbeat", "JoinGroup", "LeaveGroup", "OffsetCommit", "SyncGroup")
"""APIs whose requests are sent in the name of a member."""
STALE: Final = ("GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")
"""Errors for requests of a former member, or of an earlier generation."""
FAILURES: Final = _each(("AppendFailed", "Corrupt", "LockLost", "OSError", "SyncFailed"))
LIMITS: Final = (
    "http_answers",
    "http_connections",
    "http_followers",
    "http_timeout",
    *get_args(LimitName),
)
"""Limits of groups, and of the HTTP port."""

_EVERYWHERE: Final = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "UNKNOWN_SERVER_ERROR",
)
_OF_MEMBERS: Final = (*_EVERYWHERE, "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID")
_OF_GENERATIONS: Final = (*_OF_MEMBERS, "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")
EXPECTED: Final[Mapping[int, Sequence[str]]] = {
    ApiKey.PRODUCE: ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"),
    ApiKey.FETCH: ("OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION"),
    ApiKey.METADATA: ("UNKNOWN_TOPIC_OR_PARTITION",),
    ApiKey.OFFSET_COMMIT: (*_OF_GENERATIONS, "UNKNOWN_TOPIC_OR_PARTITION"),
    ApiKey.OFFSET_FETCH: _EVERYWHERE,
    ApiKey.JOIN_GROUP: (
        *_OF_MEMBERS,
        "GROUP_MAX_SIZE_REACHED",
        "INCONSISTENT_GROUP_PROTOCOL",
        "MEMBER_ID_REQUIRED",
        "REBALANCE_IN_PROGRESS",
    ),
    ApiKey.HEARTBEAT: _OF_GENERATIONS,
    ApiKey.LEAVE_GROUP: _OF_MEMBERS,
    ApiKey.SYNC_GROUP: _OF_GENERATIONS,
}
"""Errors by API whose series exist from the start; others may follow."""

COUNTERS: Final = {
    "rebalances": FactCounter("Rebalances started, by trigger.", ("cause",), CAUSES),
    "rebalances_likely": FactCounter(
        "Rebalances by what probably was behind their trigger, where evidence says so.",
        ("likely",),
        _each(GUESSES),
    ),
    "partition_stalls": FactCounter(
        "Times in which a partition with members could not answer for a second or more: the process"
        " stood still, or its log; or the wall clock was moved.",
        ("what",),
        _each(("process", "log", "clock")),
    ),
    "rebalance_causes_added": FactCounter(
        "Further triggers during a join phase.", ("cause",), CAUSES
    ),
    "rebalances_completed": FactCounter("Rebalances whose assignment was accepted and stored."),
    "event_logs_closed": FactCounter(
        "Logs of events closed and reopened, by error.", ("error",), FAILURES
    ),
    "events_dropped": FactCounter(
        "Events that were not stored, because of a limit or a failure.", ("type",), _each(TYPES)
    ),
    "events_written": FactCounter("Events stored."),
    "facts_not_read": FactCounter(
        "Facts that a reader failed to process.", ("reader",), _each(("metrics", "lines", "audit"))
    ),
    "groups_created": FactCounter("Groups with a first member or record."),
    "groups_deleted": FactCounter(
        "Groups deleted: on request, expired, or never used.",
        ("reason",),
        _each(("expired", "requested", "unused")),
    ),
    "limits_reached": FactCounter(
        "Requests refused, or work abandoned, because of a limit.", ("limit",), _each(LIMITS)
    ),
    "members_joined": FactCounter("Members added to a group.", ("cause",), JOINS),
    "members_replaced": FactCounter(
        "Static members that rejoined, and places that were taken, with or without a rebalance.",
        ("rebalance",),
        _each(("no", "yes")),
    ),
    "rebalances_avoided": FactCounter(
        "Rebalances that a policy made unnecessary: members came back, or standbys took over.",
        ("policy",),
        _each(("grace", "standby")),
    ),
    "rebalances_deferred": FactCounter(
        "Newcomers that were let in without partitions, and without a rebalance, by policy.",
        ("policy",),
        _each((TARGET_SIZE, WINDOW, MIN_INTERVAL, EXPECTED_IDS, UNEXPECTED)),
    ),
    "seats_reserved": FactCounter("Lost members whose partitions were reserved."),
    "seats_ended": FactCounter(
        "Reserved places that were taken or given up; not_lost: the process was back before its"
        " session ended.",
        ("outcome",),
        _each(("expired", "not_lost", "taken")),
    ),
    "members_fenced": FactCounter(
        "Requests under an instance id that another member holds.", ("api",), _each(MEMBER_APIS)
    ),
    "members_removed": FactCounter("Members removed from their group.", ("cause",), CAUSES),
    "offsets_committed": FactCounter("Offsets stored, one per partition of a commit."),
    "offsets_removed": FactCounter(
        "Offsets deleted, on request or because they had expired.",
        ("reason",),
        _each(("expired", "requested")),
    ),
    "partition_loads_failed": FactCounter("Failed loads of a partition; they are retried."),
    "partitions_closed": FactCounter(
        "Partitions closed and reloaded, by error.", ("error",), FAILURES
    ),
    "pending_members_dropped": FactCounter(
        "Member ids handed out and never used.", ("reason",), _each(("expired", "limit"))
    ),
    "replayed_records": FactCounter("Records read back from the log when partitions were loaded."),
    "requests_refused": FactCounter(
        "Requests refused that were stale, or for which the group had no room, by API and error;"
        " fenced ones are counted separately.",
        ("api", "error"),
        list(product(MEMBER_APIS, STALE)),
    ),
}
"""By name without prefix and suffix."""
