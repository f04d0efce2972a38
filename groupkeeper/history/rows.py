"""Table rows as the folds return them: dicts of columns, with times in Unix milliseconds."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from groupkeeper.history.fields import LAST_MS, Part, checked, number, with_fields
from groupkeeper.history.rounds import UNDER_WAY, Round
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import Event, decode

# Any: each column has its own type.
Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Table name -> rows. Absent columns are null, see `analytics.schemas`."""
TABLES: Final = (
    *("events", "rounds", "ownership", "sessions", "refusals", "snapshots", "members"),
    *("assignments", "configs", "epochs", "coverage"),
)

EVENTS: Final = "events"
LOG: Final = "log"
"""Values of `source`: stored by a coordinator, or inferred from records."""
SEEN: Final = 0.99
"""Confidence of direct statements of records, if none is missing."""


class KnownOffsets(NamedTuple):
    """How far a log is known. From `from_offset` on nothing was compacted or lost. `lost_until`
    lists, in rising order, the first offset after each loss that was not compaction.
    """

    from_offset: int = 0
    lost_until: tuple[int, ...] = ()


ALL: Final = KnownOffsets()
"""Nothing is missing."""

BY_BOTH: Final = ("rounds", "ownership", "sessions")
"""Tables with rows from both stored events and records."""


class RowWriter:
    """Collects the rows of one partition of the logs, except those of the tables `left_out`."""

    def __init__(
        self, partition: int, known: KnownOffsets = ALL, left_out: Collection[str] = ()
    ) -> None:
        """`known`: how far the offsets log is complete."""
        self.partition, self.known, self.left_out = partition, known, left_out
        self.rows: Rows = {name: [] for name in TABLES}
        self.inferred: Rows = {name: [] for name in BY_BOTH}
        """Rows of one group inferred from records, until `GroupHistory` takes them."""

    def add(self, table: str, **values: object) -> None:
        """Add a row from a record, with these columns and the partition."""
        if table not in self.left_out:
            rows = self.inferred[table] if table in BY_BOTH else self.rows[table]
            rows.append({"partition": self.partition, **values})

    def take(self) -> Rows:
        """Return the rows added since the last call."""
        taken = {name: [*rows] for name, rows in self.rows.items()}
        for rows in self.rows.values():
            rows.clear()
        return taken


EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Assignors whose members give up all partitions before they rejoin, in all known clients."""
COOPERATIVE: Final = "cooperative"
"""Part of the names of assignors whose members keep partitions while rejoining (KIP-429)."""


class Told(NamedTuple):
    """An event, its source, and the offset of its record in the log of that source."""

    offset: int
    event: Event
    source: str = EVENTS
    confidence: float = 1.0

    def stored(self) -> Event:
        """Return the event with the fields of `INFERRED`, if it is inferred."""
        if self.source == EVENTS:
            return self.event
        about = {"source": self.source, "confidence": self.confidence}
        return with_fields(self.event, {**self.event.fields, **about})


class RowSource(NamedTuple):
    """The group, partition and source of rows."""

    group: str
    partition: int
    source: str = EVENTS

    @property
    def confidence(self) -> float:
        """Confidence of direct statements, as opposed to inferred ones."""
        return 1.0 if self.source == EVENTS else SEEN

    @property
    def columns(self) -> Row:
        """Columns common to all of its rows."""
        return {**self._asdict(), "confidence": self.confidence}


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
"""Least and greatest value of numbers of the envelope."""
REFUSALS: Final = frozenset({"requests_refused", "member_fenced"})
"""Types of events with a row in `refusals`."""
_OF_ROUND: Final = (
    *("group", "epoch", "round", "generation", "outcome", "from_state", "protocol", "ended_by"),
    *("join_ms", "leader_ms", "duration_ms", "partitions", "moved"),
)
"""Columns of `rounds` that are attributes of `Round`."""
_NOT_IN_RECORDS: Final = dict.fromkeys(("epoch", "round", "started", "missing", "duration_ms"))
_CHANGES: Final = dict.fromkeys(("joined", "removed", "replaced"))


def instant(ms: int | None) -> int | None:
    """Return a time in Unix ms; None if it is negative (unknown) or after the year 9999."""
    return ms if ms is not None and 0 <= ms <= LAST_MS else None


def member_columns(who: Part | None) -> Row:
    """Return `member`, `instance`, `client_id`, `host` and `software` of a client in event form."""
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
    """Return name and version of a client library from an event; None if it has none."""
    if not isinstance(software, dict):
        return None
    words = (software.get("name"), software.get("version"))
    return " ".join(each for each in words if each and isinstance(each, str)) or None


def text(value: object) -> str | None:
    """Return a string of an event; None for other types."""
    return value if isinstance(value, str) else None


# -- events --------------------------------------------------------------------------------------


def event_row(
    partition: int,
    offset: int,
    event: Event,
    fields: Part,
    encode: Callable[[object], str] = _ENCODER.encode,
) -> Row:
    """A row of `events`. `fields` are the known, checked ones; `encode` serializes all fields."""
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
    """Return the name of a number of the envelope that no server writes; None if all are valid."""
    seq, epoch, node, at_ms, mono_ms, _, _, generation, _, round_, _, _ = event
    if (  # fast path: nearly all are valid
        -1 <= epoch <= _INT[1]
        and -1 <= node <= _INT[1]
        and -1 <= generation <= _INT[1]
        and -1 <= round_ <= _INT[1]
        and 0 <= at_ms <= LAST_MS
        and _LONG[0] <= seq <= _LONG[1]
        and _LONG[0] <= mono_ms <= _LONG[1]
    ):
        return None
    for name, (least, most) in _NUMBERS.items():
        if not least <= getattr(event, name) <= most:
            return name
    return None


def decoded_row(partition: int, offset: int, key: bytes | None, value: bytes) -> Row:
    """A row of `events`, from a record's key and value. Raises ValueError with one line."""
    event = decode(key, value)
    if (name := out_of_range(event)) is not None:
        raise ValueError(f"a group event whose {name} is out of range")
    fields = checked(event)[0] if event.type in TYPES else {}
    try:
        return event_row(partition, offset, event, fields, _STRICT.encode)
    except ValueError:
        raise ValueError("a group event whose fields are not valid JSON") from None


def _time(told: int | None, at_ms: int) -> int:
    """A time from an event's fields; that of the event itself if absent or impossible."""
    return at_ms if told is None or not 0 <= told <= LAST_MS else told


def refusal_row(partition: int, offset: int, event: Event) -> Row:
    """A row of `refusals`, from a `requests_refused` or `member_fenced` with checked fields."""
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


# -- rounds --------------------------------------------------------------------------------------


def keeps_partitions(protocol: str | None, is_told: bool) -> bool | None:
    """Return whether members keep partitions while they rejoin; None if unknown. The name of a
    known assignor decides; for others `is_told`: whether members stated owned or revoked
    partitions.
    """
    if protocol in EAGER:
        return False
    return True if is_told or COOPERATIVE in (protocol or "") else None


def is_cooperative(current: Round) -> bool | None:
    """Return whether members kept partitions while they rejoined; None if unknown."""
    evidence = (each.get("evidence") or {} for each in (current.cause or {}, *current.more_causes))
    is_told = any("revoked" in each or "owned" in each for each in evidence)
    return keeps_partitions(current.protocol, is_told)


def round_row(
    partition: int, told: Told, current: Round, unowned_ms: int | None, away_ms: int | None
) -> Row:
    """A row of `rounds`. `told` is its last event. Values that records do not show are null: the
    start and, without an earlier state, the numbers of members that came and went.
    """
    cause = current.cause or {}
    by = member_columns(cause.get("who"))
    last = member_columns((current.last or {}).get("who"))
    is_whole = current.arrived is not None and len(current.joined) == current.arrived
    row = {
        **{name: getattr(current, name) for name in _OF_ROUND},
        "partition": partition,
        "offset": told.offset,
        "started": current.started_at_ms,
        "ended": None if current.outcome == UNDER_WAY else instant(current.ended_at_ms),
        "cause": cause.get("code") or "unknown",
        "likely": cause.get("likely"),
        "reason": cause.get("reason"),
        "more_causes": list(
            dict.fromkeys(each["code"] for each in current.more_causes if each.get("code"))
        ),
        **{f"by_{name}": value for name, value in by.items()},
        "is_cooperative": is_cooperative(current),
        "members": current.arrived,
        "joined": len(current.added),
        "removed": len(current.removed),
        "replaced": len(current.replaced),
        "missing": [each["member"] for each in current.missing],
        "last_member": text((current.last or {}).get("member")),
        "last_instance": text((current.last or {}).get("instance")),
        "last_client_id": last["client_id"],
        "last_host": last["host"],
        "held_ms": _held_ms(current.joined) if is_whole else None,
        "unowned_ms": unowned_ms,
        "away_ms": away_ms,
        "source": told.source,
        "confidence": told.confidence,
    }
    if told.source == EVENTS:
        return row
    return row | _NOT_IN_RECORDS | (_CHANGES if current.from_state is None else {})


def _held_ms(joined: list[Part]) -> int | None:
    """Return how much later the last member joined than the one before it, in ms."""
    if len(joined) < 2:
        return None
    before, last = (number(each, "after_ms") for each in joined[-2:])
    return None if before is None or last is None or last < before else last - before
