"""One event, one row: the tables `events` and `refusals`."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.analytics.history.rows import Row
from groupkeeper.protocol.group_events import TYPES, Event, decode
from groupkeeper.why.fields import LAST_MS, Part, checked

_COMPACT: Final[Mapping[str, Any]] = {
    "ensure_ascii": False,
    "separators": (",", ":"),
    "check_circular": False,
}
_ENCODER: Final = json.JSONEncoder(**_COMPACT)
_STRICT: Final = json.JSONEncoder(**_COMPACT, allow_nan=False)
_NOBODY: Final[Mapping[str, None]] = dict.fromkeys(
    ("member", "instance", "client_id", "host", "software")
)
_INT: Final = (-1, (1 << 31) - 1)
_LONG: Final = (1 - (1 << 63), (1 << 63) - 1)
_NUMBERS: Final = {
    "at_ms": (0, LAST_MS),
    **dict.fromkeys(("epoch", "node", "generation", "round"), _INT),
    **dict.fromkeys(("seq", "mono_ms"), _LONG),
}
"""Of the envelope: the least and the most."""
REFUSALS: Final = frozenset({"requests_refused", "member_fenced"})
"""Types of events that have a row in `refusals`."""


def member_columns(who: Part | None) -> Row:
    """`member`, `instance`, `client_id`, `host` and `software` of a client, as events have it."""
    if who is None:
        return {**_NOBODY}
    return {
        "member": who.get("member") or None,
        "instance": who.get("instance"),
        "client_id": who.get("client_id") or None,
        "host": (who.get("host") or "").removeprefix("/") or None,
        "software": software_text(who.get("software")),
    }


def software_text(software: Any) -> str | None:
    """Name and version of a client library, as an event has them; None if it has none."""
    if not isinstance(software, dict):
        return None
    words = (software.get("name"), software.get("version"))
    return " ".join(each for each in words if each and isinstance(each, str)) or None


def text(value: object) -> str | None:
    """A text of an event; None if it is none."""
    return value if isinstance(value, str) else None


def event_row(
    partition: int,
    offset: int,
    event: Event,
    fields: Part,
    encode: Callable[[object], str] = _ENCODER.encode,
) -> Row:
    """Of the table `events`. `fields`: those that are known, checked. `encode` makes their JSON."""
    cause = fields.get("cause") or {}
    return {
        "group": event.group,
        "partition": partition,
        "offset": offset,
        "time": event.at_ms,
        "epoch": event.epoch,
        "seq": event.seq,
        "node": event.node,
        "mono_ms": event.mono_ms,
        "type": event.type,
        "generation": event.generation,
        "state": event.state,
        "round": event.round,
        "cause": cause.get("code"),
        "likely": fields.get("likely") or cause.get("likely"),
        **member_columns(fields.get("who") or cause.get("who")),
        "fields": encode(dict(event.fields)),
    }


def out_of_range(event: Event) -> str | None:
    """The number of the envelope that no server writes, by name; None if all are sound."""
    for name, (least, most) in _NUMBERS.items():
        if not least <= getattr(event, name) <= most:
            return name
    return None


def decoded_row(partition: int, offset: int, key: bytes | None, value: bytes) -> Row:
    """Of the table `events`, from a record's key and value. Raises ValueError with a line that says
    what is wrong.
    """
    event = decode(key, value)
    if (name := out_of_range(event)) is not None:
        raise ValueError(f"a group event whose {name} is out of range")
    fields = checked(event)[0] if event.type in TYPES else {}
    try:
        return event_row(partition, offset, event, fields, _STRICT.encode)
    except ValueError:
        raise ValueError("a group event whose fields are no JSON") from None


def _time(told: int | None, at_ms: int) -> int:
    """A time of an event's own; that of the event in its place if no clock shows it."""
    return at_ms if told is None or not 0 <= told <= LAST_MS else told


def refusal_row(partition: int, offset: int, event: Event) -> Row:
    """Of the table `refusals`: of a `requests_refused`, or a `member_fenced`. Its fields are
    checked.
    """
    fields, is_fenced = event.fields, event.type == "member_fenced"
    last, first = (_time(fields.get(name), event.at_ms) for name in ("last_ms", "first_ms"))
    count = fields.get("count")
    host = (fields.get("current_host") or "").removeprefix("/")
    return {
        "group": event.group,
        "partition": partition,
        "offset": offset,
        "time": last,
        "first": first,
        **member_columns(fields.get("who")),
        "api": fields.get("api"),
        "error": "FENCED_INSTANCE_ID" if is_fenced else fields.get("error"),
        "count": 1 if is_fenced or not count or count < 0 else count,
        "generation": event.generation,
        "round": event.round,
        "current_member": fields.get("current_member"),
        "current_host": host or None,
        "likely": fields.get("likely"),
    }
