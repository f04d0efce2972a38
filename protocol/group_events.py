"""The format of `__group_events`: one JSON object for each thing that happened to a group.

Used by the writer and by all readers: the commands, the pages and the analysis. `TYPES` describes
the types and their fields, `group_event_words` the codes; docs/events.md is generated from both.
The facts behind the events are noted by the core.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from orjson import dumps, loads

VERSION: Final = 1
"""The version of the envelope and of all fields. Readers keep types and fields they do not know."""

TOPIC: Final = "__group_events"
"""The key of a record is the group id in UTF-8, its value the event, its time that of the event."""

SHORTENED: Final = "shortened"
"""A field of any type: lists that were cut to keep the event small, with their true length."""


class Event(NamedTuple):
    """One event: the envelope, and the fields of its type."""

    seq: int
    epoch: int
    node: int
    at_ms: int
    mono_ms: int
    group: str | None
    type: str
    generation: int = 0
    state: str = ""
    round: int = 0
    fields: Mapping[str, Any] = MappingProxyType({})
    v: int = VERSION


class CauseCode(StrEnum):
    """The one trigger of a change. The values are part of the stored event format."""

    MEMBER_JOINED = "member_joined"
    STATIC_MEMBER_JOINED = "static_member_joined"
    STATIC_MEMBER_RETURNED_CHANGED = "static_member_returned_changed"
    STATIC_MEMBER_RETURNED_UNREADY = "static_member_returned_unready"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    MEMBER_REJOINED = "member_rejoined"
    MEMBER_LEFT = "member_left"
    MEMBER_REMOVED_BY_ADMIN = "member_removed_by_admin"
    SESSION_EXPIRED = "session_expired"
    JOIN_TIMEOUT = "join_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    PENDING_MEMBER_EXPIRED = "pending_member_expired"
    GROUP_SHRUNK = "group_shrunk"
    ASSIGNMENT_LOST = "assignment_lost"
    OPERATOR = "operator"


ENVELOPE: Final[Mapping[str, tuple[str, str]]] = {
    "v": ("int", "Version of the format, 1."),
    "seq": ("int", "Rises by one with each event of the partition within an epoch."),
    "epoch": ("int", "Leader epoch of the writer: (epoch, seq) orders all events of a partition."),
    "node": ("int", "Node id of the coordinator."),
    "at_ms": ("int", "Wall clock, Unix milliseconds."),
    "mono_ms": ("int", "Monotonic milliseconds: for durations between events of one epoch."),
    "group": ("string or null", "Group id; null for events of the partition itself."),
    "type": ("string", "Type of the event, see below."),
    "generation": ("int", "Generation of the group after the event."),
    "state": ("string", "State of the group after the event, as DescribeGroups names it."),
    "round": ("int", "Number of the group's rebalance that it belongs to; 0 outside of one."),
}
"""Name, JSON type and meaning of the fields of every event."""


_LENIENT: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)


def encode(event: Event) -> bytes:
    """Encode the event as the value of a record: compact JSON in UTF-8, the envelope first. Raises
    TypeError and ValueError for fields that JSON does not have.
    """
    whole: dict[str, Any] = {  # in the order of `ENVELOPE`
        "v": event.v,
        "seq": event.seq,
        "epoch": event.epoch,
        "node": event.node,
        "at_ms": event.at_ms,
        "mono_ms": event.mono_ms,
        "group": event.group,
        "type": event.type,
        "generation": event.generation,
        "state": event.state,
        "round": event.round,
    }
    whole.update(event.fields)
    try:
        return dumps(whole)
    except TypeError:  # half a surrogate pair, which a client may send
        return _LENIENT.encode(whole).encode("utf-8", "backslashreplace")


def decode(key: bytes | None, value: bytes) -> Event:
    """Decode an event, unknown types and fields included. Raises ValueError in a line."""
    try:
        whole = loads(value)
    except ValueError:  # half a surrogate pair, or no JSON
        whole = _leniently(value)
    if not isinstance(whole, dict):
        raise ValueError("not a group event: no JSON object")
    if whole.get("v") != VERSION:
        raise ValueError(f"a group event of version {whole.get('v')}; this reads version {VERSION}")
    try:
        envelope = _envelope_in(whole)
    except KeyError as missing:
        raise ValueError(f"a group event without {missing.args[0]}") from None
    if (*map(type, envelope),) not in _ENVELOPE_TYPES:
        envelope = _envelope_in(_leniently(value))  # orjson makes floats of integers over 64 bits
        for (name, (kind, _)), part in zip(ENVELOPE.items(), envelope, strict=True):
            if type(part) not in _TYPES[kind]:
                raise ValueError(f"a group event whose {name} is no {kind}")
    if key is not None and key != (whole["group"] or "").encode("utf-8", "backslashreplace"):
        raise ValueError(f"a group event of {whole['group']!r} under the key {key!r}")
    for name in ENVELOPE:
        del whole[name]
    return Event._make((*envelope[1:], whole, envelope[0]))


def _leniently(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a group event: no JSON: {error}") from None


_envelope_in = itemgetter(*ENVELOPE)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "string": (str,),
    "string or null": (str, type(None)),
}
_ENVELOPE_TYPES: Final = frozenset(product(*(_TYPES[kind] for kind, _ in ENVELOPE.values())))
"""All combinations of types of an envelope, for one look-up: reading a log spends most time
here."""


# -- parts of events -----------------------------------------------------------------------------

WHO: Final[Mapping[str, tuple[str, str]]] = {
    "member": ("string", "Member id; empty if the request named none."),
    "instance": ("string or null", "`group.instance.id`; null for a dynamic member."),
    "client_id": ("string", "`client.id` from the request's header; empty if there was none."),
    "host": ("string or null", "Address as Kafka prints it, `/10.0.0.7`."),
    "software": ("object or null", "`name` and `version` as the client's ApiVersions v3 has them."),
    "api_version": ("int or null", "Version of the request; null if no request did it."),
    "principal": ("string or null", "Who has logged in; null without a login."),
}
"""A member, or a client that sent a request."""

CAUSE: Final[Mapping[str, tuple[str, str]]] = {
    "code": ("string", "What triggered it: see the codes."),
    "who": ("who or null", "Who triggered it; null if no client did."),
    "reason": ("string or null", "The client's own words (KIP-800), at most 1 KiB."),
    "reason_cut": ("bool", "The words were longer."),
    "likely": ("string or null", "What probably is behind the code; null without evidence."),
    "evidence": ("object", "The numbers behind `code` and `likely`; empty if there are none."),
}
"""The cause of an event."""


@dataclass(frozen=True, slots=True)
class EventType:
    """One type of event."""

    meaning: str
    fields: Mapping[str, tuple[str, str]]
    """Name, JSON type and meaning."""


_CAUSE = {"cause": ("cause", "What triggered it.")}
_WHO = {"who": ("who", "The member.")}
_SENDER = {"who": ("who or null", "The sender of the request; null if no request did it.")}
_PARTITIONS: Final = "map of topic to list of int"
_TIMEOUTS: Final = {
    "session_timeout_ms": ("int or null", "Its `session.timeout.ms`."),
    "rebalance_timeout_ms": ("int or null", "Its rebalance timeout."),
}
_HEARTBEATS: Final = (
    "int or null",
    "Its heartbeats since it joined, or since the load; null if it was no member.",
)
_RHYTHM: Final = {
    "heartbeats": _HEARTBEATS,
    "longest_gap_ms": ("int or null", "The longest time between two of them."),
}
_GUESS: Final = {
    "likely": ("string or null", "`duel` or `rolling_restart`; null without evidence."),
    "evidence": ("object", "The numbers behind it."),
}

TYPES: Final[Mapping[str, EventType]] = {
    "rebalance_started": EventType(
        "A join phase began: all members have to send JoinGroup.",
        _CAUSE
        | {
            "from_state": ("string", "State of the group before."),
            "members": ("int", "Members that the group has."),
            "expected": ("list of string", "Ids of the members that still have to rejoin."),
            "deadline_ms": ("int", "The longest that the join phase may take."),
        },
    ),
    "rebalance_cause_added": EventType(
        "Something else that needs a rebalance happened during the join phase.", _CAUSE
    ),
    "rebalance_joined": EventType(
        "The join phase ended with a new generation; its leader was asked for the assignments.",
        {
            "leader": ("string", "Member id of the leader."),
            "protocol": ("string", "The elected protocol, for consumers their assignor."),
            "duration_ms": ("int", "Length of the join phase."),
            "joined": ("list", "`member`, `instance` and `after_ms`, in the order of arrival."),
            "missing": (
                "list",
                "`member`, `instance`, `removed` of those that did not rejoin; static ones stay.",
            ),
            "ended_by": ("string", "`all_joined` or `timeout`."),
            "last": ("string or null", "Member id of the one that arrived last."),
        },
    ),
    "rebalance_completed": EventType(
        "The leader's assignments were stored; every member gets its own.",
        {
            "leader_ms": ("int", "From the end of the join phase to the leader's SyncGroup."),
            "duration_ms": ("int", "From the start of the join phase."),
            "assignment": (
                "list or null",
                "`member`, `instance` and `partitions` (as in `commits`); else null.",
            ),
            "moved": (
                "int or null",
                (
                    "Partitions with another member than before; null if one side is unknown or"
                    " empty, and of the first plan of a cooperative rebalance, which only takes."
                ),
            ),
            "unassigned_ms": (
                "int or null",
                "Estimate: how long the partition stood still that did longest; null as `moved`.",
            ),
        },
    ),
    "rebalance_abandoned": EventType(
        "The rebalance ended without assignments.",
        {"why": ("string", "`emptied`: no member is left; `superseded`: another one began.")},
    ),
    "member_joined": EventType(
        "A member was added.", _WHO | {"kind": ("string", "`dynamic` or `static`.")} | _TIMEOUTS
    ),
    "member_rejoined": EventType(
        "A member sent JoinGroup again. Not written for an unchanged one during a join phase: it is"
        " in `joined` of `rebalance_joined`.",
        _WHO
        | {
            "changed": (
                "list of string",
                "What differs: `metadata`, `protocols`, `timeouts`; empty for nothing.",
            )
        }
        | _TIMEOUTS,
    ),
    "member_replaced": EventType(
        "A static member restarted and has a new member id (KIP-345).",
        _WHO
        | {
            "old_member": ("string", "Its member id before."),
            "quick": ("bool", "Answered at once, without a rebalance."),
            "away_ms": ("int", "Since the last request under the old id, or since the load."),
        }
        | _GUESS
        | _TIMEOUTS
        | _RHYTHM,
    ),
    "member_fenced": EventType(
        "A request was refused with FENCED_INSTANCE_ID: another member has its instance id.",
        _SENDER
        | {
            "api": ("string", "The refused request."),
            "current_member": ("string", "Member id that holds the instance id now."),
            "current_host": ("string or null", "Its address."),
        }
        | _GUESS,
    ),
    "member_removed": EventType(
        "A member left, was removed, or never used the id that it had been given.",
        {"who": ("who", "The removed member; `cause` has who removed it.")} | _CAUSE | _RHYTHM,
    ),
    "requests_refused": EventType(
        "Stale requests were refused; at most one event per sender, API and error in ten seconds.",
        _SENDER
        | {
            "api": ("string", "The refused requests."),
            "error": ("string", "Kafka's name of the error."),
            "count": ("int", "How many."),
            "first_ms": ("int", "Unix milliseconds of the first one."),
            "last_ms": ("int", "Of the last one."),
        },
    ),
    "commits": EventType(
        "What one member committed in about a minute.",
        _SENDER
        | {
            "requests": ("int", "Accepted OffsetCommits."),
            "partitions": (_PARTITIONS, "What they were for."),
            "heartbeats": _HEARTBEATS,
            "longest_gap_ms": (
                "int or null",
                "The longest time between two of them since the minute before.",
            ),
        },
    ),
    "group_created": EventType("A group id was used for the first time.", _SENDER),
    "group_emptied": EventType("The last member is gone.", _CAUSE),
    "group_deleted": EventType(
        "The group is gone.",
        {
            "why": (
                "string",
                "`request` (DeleteGroups), `expired` (its last offset), or `unused` (no offsets).",
            )
        }
        | _SENDER,
    ),
    "offsets_expired": EventType(
        "Committed offsets were older than `offsets.retention.minutes` allows.",
        {"count": ("int", "How many."), "partitions": (_PARTITIONS, "What they were for.")},
    ),
    "offsets_deleted": EventType(
        "Committed offsets were deleted; of many, a few thousand per event.",
        {
            "count": ("int", "How many."),
            "partitions": (_PARTITIONS, "What they were for."),
            "why": ("string", "`request` (OffsetDelete), `group_deleted` or `topic_deleted`."),
        }
        | _SENDER,
    ),
    "offsets_reset": EventType(
        "A client that is no member committed for an Empty group, one event per topic: a reset of"
        " its offsets, or a consumer that assigns its partitions itself. Of one that goes on within"
        " 60 s on the same connection, only a commit that lowers an offset, or sets the first one"
        " of a partition, has events; the others are in `commits`.",
        _SENDER
        | {
            "topic": ("string", "Name of the topic."),
            "partitions": ("list of int", "Its partitions."),
            "from": ("list of int or null", "Committed offset of each before; null for none."),
            "to": ("list of int", "Committed offset of each now."),
        },
    ),
    "events_dropped": EventType(
        "Events were left out because of a limit.",
        {
            "count": ("int", "How many."),
            "types": ("map of type to int", "How many of each type."),
            "causes": (
                "map of code to int",
                "Causes of the rebalances that were left out as a whole, by code.",
            ),
            "who": ("who or null", "Whose events, if all are of one sender."),
        },
    ),
    "coordinator_loaded": EventType(
        "The partition of the group was loaded from its log, after a start or a failure.",
        {
            "records": ("int", "Records read."),
            "groups": ("int", "Groups found."),
            "members": ("int", "Members found; their sessions begin anew."),
            "duration_ms": ("int", "From the claim to the first answer."),
        },
    ),
    "coordinator_closed": EventType(
        "The partition stopped to serve.", {"why": ("string", "What failed, or `stopped`.")}
    ),
    "not_back": EventType(
        "After a load, members did not contact this coordinator before they were removed.",
        {"absent": ("list of who", "Those members.")},
    ),
}
"""Every type of event, in the order in which docs/events.md shows them."""
