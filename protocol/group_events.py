"""The format of `__group_events`: one JSON object for each thing that happened to a group.

Used by the writer and by all readers: the commands, the pages and the analysis. The types and their
fields are described in `group_event_types`, the codes in `group_event_words`; docs/events.md is
generated from all three. The facts behind the events are noted by the core.
"""

import json
from collections.abc import Mapping
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

INFERRED: Final[Mapping[str, tuple[str, str]]] = {
    "source": ("string", "`log`: inferred from records of `__consumer_offsets`."),
    "confidence": ("number", "How sure that is, from 0 to 1."),
}
"""Name, JSON type and meaning of two fields that any type of event has if it is inferred. An event
that a coordinator stored has neither."""
SEEN_START: Final[Mapping[str, tuple[str, str]]] = {
    "not_before_ms": ("int", "Unix ms when coordinators said that it was not there yet."),
    "first_seen_ms": ("int", "Unix ms when they said for the first time that it was."),
}
"""Further fields of `rebalance_started` if it is inferred, and coordinators were asked."""


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
    """Trigger of a change. The values are part of the stored event format."""

    MEMBER_JOINED = "member_joined"
    STATIC_MEMBER_JOINED = "static_member_joined"
    STATIC_MEMBER_RETURNED_CHANGED = "static_member_returned_changed"
    STATIC_MEMBER_RETURNED_UNREADY = "static_member_returned_unready"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    MEMBER_REJOINED = "member_rejoined"
    METADATA_CHANGED = "metadata_changed"
    REJOINED_AFTER_LOAD = "rejoined_after_load"
    MEMBER_LEFT = "member_left"
    MEMBER_REMOVED_BY_ADMIN = "member_removed_by_admin"
    SESSION_EXPIRED = "session_expired"
    JOIN_TIMEOUT = "join_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    PENDING_MEMBER_EXPIRED = "pending_member_expired"
    GROUP_SHRUNK = "group_shrunk"
    ASSIGNMENT_LOST = "assignment_lost"
    OPERATOR = "operator"
    SEAT_EXPIRED = "seat_expired"
    SEAT_REVOKED = "seat_revoked"
    WINDOW_OVER = "window_over"
    EXPECTED_COMPLETE = "expected_complete"
    EXPECTED_MISSING = "expected_missing"
    TOPICS_CHANGED = "topics_changed"
    POLICY_CHANGED = "policy_changed"


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
