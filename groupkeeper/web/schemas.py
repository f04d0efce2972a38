"""JSON Schemas of the API, for its OpenAPI document and for checking request bodies. Those of
events and rounds are generated from their definitions.
"""

from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin, get_type_hints

from groupkeeper.apis.leave_group import PART_MEMBERS
from groupkeeper.history.rounds import JSON_FIELDS, Outage, Round
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import ENVELOPE, INFERRED, SEEN_START
from groupkeeper.web.group_list import STATES
from groupkeeper.web.json_schema import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    Schema,
    array,
    or_null,
    record,
    ref,
    told,
)

MEMBERS_MOST: Final = PART_MEMBERS
"""Maximum number of members removed by a request, in one step with one rebalance."""
OFFSETS_MOST: Final = 1_000
"""Maximum number of offsets in a request, one per partition."""
REASON_MOST: Final = 1_000
"""Maximum length of a reason, in characters."""
NAME_MOST: Final = 32_767
"""Maximum length of ids and topic names: Kafka's protocol has int16 lengths for strings."""
EARLIEST, LATEST = "earliest", "latest"

_ABOUT: Final[Mapping[str, Schema]] = {
    "cluster": TEXT | {"description": "Cluster id."},
    "node": NUMBER | {"description": "Node id of the server; -1 of an observer."},
}
_OBSERVES: Final = TEXT | {
    "description": "Bootstrap servers of the observed cluster. Absent unless this is an observer."
}
_UNREAD: Final = told(
    or_null(record(partitions=NUMBER, for_ms=NUMBER)),
    "Of an observer, null while it reads all partitions of `__consumer_offsets`: how many it could "
    "not read when last tried, and for how many ms there have been any. What their groups are is "
    "as of then. Absent unless this is an observer.",
)


def answer(**properties: Schema) -> Schema:
    """Return the schema of a response, with the fields that identify the server."""
    whole = record(**_ABOUT, **properties)
    whole["properties"]["observes"] = _OBSERVES
    whole["properties"]["unread"] = _UNREAD
    return whole


_AT: Final = "Unix milliseconds."
_STATE: Final[Schema] = {"type": "string", "enum": [*STATES]}
_ROW: Final[Mapping[str, Schema]] = {
    "group": TEXT,
    "type": told(TEXT, "`classic`; of an observer also `consumer`, `share` or `streams`."),
    "state": _STATE,
    "protocol_type": told(TEXT, "`consumer` for consumers; empty if there never were members."),
    "members": told(NUMBER, "Number of members."),
    "generation": NUMBER,
    "round": told(NUMBER, "Rebalances since the group was created or loaded."),
    "in_state_since_ms": told(NUMBER, _AT),
    "last_cause": told(
        or_null(ref("LastCause")),
        "Cause of the last rebalance since the server's start; earlier ones are in `rounds`.",
    ),
    "lag": told(or_null(ref("Lag")), "Null without committed offsets."),
}
_WHO: Final[Mapping[str, Schema]] = {
    "member": TEXT,
    "instance": or_null(TEXT),
    "client_id": TEXT,
    "host": or_null(TEXT),
    "software": or_null(ref("Software")),
}
_SESSION: Final = told(or_null(NUMBER), "Null if an observer does not know it.")
_EPOCH: Final = told(or_null(NUMBER), "Its epoch (KIP-848); null in a classic group.")
_TIMER: Final = or_null(ref("Timer"))
_NEXT: Final = told(or_null(TEXT), "Cursor for the next page; null at the end.")
_UNKNOWN: Final = told(
    {"type": "object", "additionalProperties": NUMBER},
    "Number of events by type or field unknown to this server.",
)


def _seen(about: str) -> Schema:
    return told(or_null(FLAG), f"{about} Null if an observer cannot know it.")


def _live() -> Schema:
    member = record(
        **_WHO,
        session_timeout_ms=_SESSION,
        rebalance_timeout_ms=NUMBER,
        is_new=told(FLAG, "Whether the member's first join phase is in progress."),
        joined=_seen("Whether its JoinGroup waits for the end of the join phase."),
        synced=_seen("Whether it has sent SyncGroup."),
        heard=_seen("Whether it has sent a request since the coordinator was loaded."),
        heard_ms_ago=or_null(told(NUMBER, "Null for an observer, which sees no heartbeats.")),
        connection=or_null(told(TEXT, "`open`, `closed`, or null if unknown.")),
        reserved_ms=or_null(told(NUMBER, "Time since its place is reserved; null if it is not.")),
        standby=told(FLAG, "Whether it gets no partitions for now."),
    )
    member["properties"]["epoch"] = _EPOCH
    rebalance = record(
        phase={"type": "string", "enum": ["join", "sync", "reconcile"]},
        since_ms=told(NUMBER, "Time since the phase started."),
        initial_delay=told(FLAG, "Whether a group that was Empty waits for more members."),
        cause=OBJECT,
    )
    pending = record(member=TEXT, expires_in_ms=or_null(NUMBER))
    seen = record(first_ms=NUMBER, last_ms=NUMBER, came=array(TEXT), gone=array(TEXT))
    whole = record(
        group=TEXT,
        state=_STATE,
        state_ms=or_null(told(NUMBER, "Time in this state; null if unknown.")),
        generation=NUMBER,
        round=NUMBER,
        protocol_type=TEXT,
        protocol=or_null(TEXT),
        leader=or_null(TEXT),
        members=array(member),
        seats_end_in_ms=or_null(told(NUMBER, "Time until reserved places are given up.")),
        pending=array(pending),
        pending_count=NUMBER,
        waiting_for=told(array(TEXT), "Ids of members that the phase waits for."),
        waiting_for_count=NUMBER,
        rebalance=told(or_null(rebalance), "The rebalance in progress."),
        phase_timer=told(_TIMER, "The timer that ends the phase."),
        next_timer=told(_TIMER, "The next timer to fire."),
    )
    about = "Of an observer: when the rebalance in progress was seen, and who came or is gone."
    whole["properties"]["seen"] = told(seen, about)
    return whole


def _event() -> Schema:
    kinds = {"int": NUMBER, "string": TEXT, "string or null": or_null(TEXT)}
    envelope = {name: told(kinds[kind], about) for name, (kind, about) in ENVELOPE.items()}
    envelope["type"] = envelope["type"] | {"examples": [*TYPES]}
    about = "As stored; each type has further fields: see docs/events.md."
    return told(record(**envelope) | {"additionalProperties": True}, about)


def _round() -> Schema:
    hints = get_type_hints(Round)
    properties = {name: of_type(hints[name]) for name in JSON_FIELDS}
    schema = record(
        kind={"const": "round"},
        **properties,
        cause_text=told(TEXT, "The cause in a sentence."),
        text=told(TEXT, "The paragraph printed by `groupkeeper why`."),
        advice=told(or_null(TEXT), "Advice; null while the round is in progress."),
    )
    seen = {name: told(or_null(NUMBER), about) for name, (_, about) in SEEN_START.items()}
    schema["properties"] |= _inferred() | seen
    return schema


def _inferred() -> dict[str, Schema]:
    """Properties of what may be inferred; not required."""
    kinds = {"string": TEXT, "number": {"type": "number"}}
    return {
        name: told(kinds[kind], f"{about} Absent if a coordinator stored the events.")
        for name, (kind, about) in INFERRED.items()
    }


def _last_cause() -> Schema:
    schema = record(code=TEXT, text=TEXT, at_ms=told(NUMBER, _AT))
    schema["properties"] |= _inferred()
    return schema


def _events_row() -> Schema:
    lines = array(record(at_ms=told(NUMBER, _AT), text=TEXT))
    return record(
        kind={"const": "events"},
        type=TEXT,
        epoch=NUMBER,
        seq=told(NUMBER, "Of the first event."),
        count=told(NUMBER, "Number of events of this type between two rebalances."),
        first_ms=told(NUMBER, _AT),
        last_ms=told(NUMBER, _AT),
        text=told(TEXT, "The sentence of `groupkeeper why` about them, or about the last."),
        lines=told(lines, "The last events, newest first."),
    )


# Any: type hints.
def of_type(hint: Any) -> Schema:
    """Return the schema for a type hint."""
    simple = {int: NUMBER, str: TEXT, float: {"type": "number"}, bool: FLAG}
    if hint in simple:
        return simple[hint]
    if hint is Outage:
        return record(ms=NUMBER, is_exact=told(FLAG, "False if measured from the last event."))
    some = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) is list:
        return array(of_type(some[0]))
    return or_null(of_type(some[0])) if type(None) in get_args(hint) else OBJECT


def _error() -> Schema:
    schema = answer(error=told(TEXT, "Problem and remedy."))
    schema["properties"]["stable"] = told({"const": False}, "Only for a static member's probe.")
    return schema


def schemas() -> dict[str, Schema]:
    """Return all schemas by name."""
    return (
        {"Error": _error()}
        | _of_groups()
        | _of_lag()
        | _of_members()
        | _of_events()
        | _of_changes()
    )


def _of_groups() -> dict[str, Schema]:
    own = {"protocol": or_null(TEXT), "leader": or_null(TEXT), "live": or_null(ref("Live"))}
    own["configs"] = told(OBJECT, "Configs that are set for the group, by name.")
    own["writes_enabled"] = told(
        FLAG, "Whether the client may change groups: by its token's role, or `http.api.write`."
    )
    return {
        "Groups": answer(
            groups=array(ref("GroupRow")),
            next=_NEXT,
            total=told(NUMBER, "Number of matching groups on all pages."),
            not_active=told(
                array(record(partition=NUMBER, state=TEXT, reason=told(TEXT, "Why, in words."))),
                "Partitions that are not active; their groups are missing in the list.",
            ),
        ),
        "GroupRow": record(**_ROW),
        "Group": answer(**_ROW, **own),
        "LastCause": _last_cause(),
        "Lag": record(
            records=told(NUMBER, "Sum over the partitions of topics that are subscribed."),
            seconds=told(
                or_null({"type": "number"}),
                "Maximum over these partitions of the time since the next record was written; null"
                " if any is unknown.",
            ),
        ),
        "Live": _live(),
        "Software": record(name=TEXT, version=TEXT),
        "Timer": record(name=TEXT, member=or_null(TEXT), in_ms=NUMBER),
    }


def _of_lag() -> dict[str, Schema]:
    ago = "Time since the next record was written; 0 without lag, null if unknown or unsubscribed."
    partition = record(
        topic=TEXT,
        partition=NUMBER,
        committed=told(NUMBER, "Committed offset."),
        end=told(NUMBER, "Log end offset."),
        lag=told(NUMBER, "Lag in records."),
        lag_ms=told(or_null(NUMBER), ago),
        subscribed=told(FLAG, "False if the group has members, and none subscribes the topic."),
    )
    moment = {"at_ms": told(NUMBER, _AT), "records": NUMBER, "lag_ms": or_null(NUMBER)}
    about = "One point a minute since the first request for the group, at most an hour."
    history = told(array(record(**moment)), about)
    whole = answer(group=TEXT, **moment, partitions=array(partition), history=history)
    return {"GroupLag": whole}


def _of_members() -> dict[str, Schema]:
    return {
        "Members": answer(group=TEXT, generation=NUMBER, members=array(ref("Member"))),
        "Member": record(
            member_id=TEXT,
            instance_id=or_null(TEXT),
            client_id=TEXT,
            host=or_null(TEXT),
            software=or_null(ref("Software")),
            epoch=_EPOCH,
            session_timeout_ms=_SESSION,
            rebalance_timeout_ms=NUMBER,
            last_heard_ms=told(or_null(NUMBER), f"{_AT} Null if none since the load."),
            connection=or_null(TEXT),
            reserved_ms=or_null(NUMBER),
            standby=FLAG,
            assignment=told(or_null(array(ref("Owned"))), "Null if not a consumer's."),
        ),
        "Owned": record(topic=TEXT, partitions=array(NUMBER)),
        "Instance": answer(
            group=TEXT,
            instance=TEXT,
            member_id=TEXT,
            stable={"const": True},
            since_ms=told(NUMBER, f"Time when the group became Stable. {_AT}"),
            generation=NUMBER,
            owns=or_null(array(ref("Owned"))),
        ),
    }


def _of_events() -> dict[str, Schema]:
    event = _event()
    stored = told(FLAG, "Whether events are stored (`group.events.enabled`).")
    before = told(or_null(TEXT), "`before` of a request for earlier rounds; null at the first.")
    entry = {"anyOf": [ref("Round"), ref("EventEntry"), ref("LiveEntry")]}
    return {
        "Events": answer(
            group=TEXT,
            events=array(ref("Event")),
            next=told(or_null(TEXT), "`after` of the next request; null without events."),
            more=told(FLAG, "Whether more events are available now."),
        ),
        "Event": event,
        "Rounds": answer(
            group=TEXT,
            rounds=array(ref("Round")),
            events_enabled=stored,
            next=before,
            unknown=_UNKNOWN,
        ),
        "Round": _round(),
        "Why": answer(group=TEXT, entries=array(entry), next=before, unknown=_UNKNOWN),
        "Timeline": answer(
            group=TEXT,
            entries=array({"anyOf": [ref("Round"), ref("EventsRow")]}),
            events_enabled=stored,
            next=before,
            unknown=_UNKNOWN,
        ),
        "EventsRow": _events_row(),
        "EventEntry": _with(event, kind={"const": "event"}, text=TEXT),
        "LiveEntry": _with(_live(), kind={"const": "live"}),
    }


def _of_changes() -> dict[str, Schema]:
    name = TEXT | {"minLength": 1, "maxLength": NAME_MOST}
    named: Schema = {
        "type": "object",
        "properties": {"member_id": name, "instance_id": name},
        "minProperties": 1,
        "description": "A `member_id` or an `instance_id`.",
    }
    members = array(named) | {"minItems": 1, "maxItems": MEMBERS_MOST}
    place = {"topic": name, "partition": NUMBER | {"minimum": 0, "maximum": 2**31 - 1}}
    at = {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": 2**63 - 1,
        "pattern": f"^({EARLIEST}|{LATEST})$",
    }
    wanted = record(**place, offset=told(at, f"A number, `{EARLIEST}` or `{LATEST}`."))
    error = told(or_null(TEXT), "Kafka's error name; null if the member was removed.")
    result = record(member_id=or_null(TEXT), instance_id=or_null(TEXT), error=error)
    limits = {"minItems": 1, "maxItems": OFFSETS_MOST}
    reason = told(TEXT | {"minLength": 1, "maxLength": REASON_MOST}, "For events and logs.")
    before = told(or_null(NUMBER), "Committed offset before; null for none.")
    end = told(or_null(NUMBER), "Log end offset; null if unknown.")
    reset = record(**place, offset=NUMBER, before=before, end=end)
    deleted = record(**place, before=before, error=told(or_null(TEXT), "Kafka's error name."))
    head = {"group": TEXT, "dry_run": FLAG}
    return {
        "Removal": _dry(record(members=members), reason=reason),
        "Removed": answer(**head, members=array(result)),
        "Offsets": _dry(record(offsets=array(wanted) | limits)),
        "Reset": answer(**head, offsets=array(reset)),
        "Places": _dry(record(offsets=array(record(**place)) | limits)),
        "DeletedOffsets": answer(**head, offsets=array(deleted)),
        "Deletion": _dry(record()),
        "DeletedGroup": answer(**head, offsets=told(NUMBER, "How many go with it.")),
    }


def _dry(body: Schema, **more: Schema) -> Schema:
    """Return the schema of a body with optional fields, `dry_run` among them."""
    about = "Check, answer with what would happen, and change nothing."
    properties = body["properties"] | more | {"dry_run": told(FLAG, about)}
    return body | {"properties": properties}


def _with(schema: Schema, **more: Schema) -> Schema:
    properties = more | schema["properties"]
    return schema | {"properties": properties, "required": [*more, *schema["required"]]}
