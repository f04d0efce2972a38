"""Describes the types of group events and their fields: TYPES, and parts that several types share.

`group_events` has the format and the envelope; docs/events.md is generated from both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WHO: Final[Mapping[str, tuple[str, str]]] = {
    "member": ("string", "Member id; empty if the request named none."),
    "instance": ("string or null", "`group.instance.id`; null for a dynamic member."),
    "client_id": ("string", "`client.id` from the request's header; empty if there was none."),
    "host": ("string or null", "Address of the client, such as `10.0.0.7`."),
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
            "group_type": (
                "string",
                (
                    "`consumer` for a consumer group (KIP-848), of which an observer tells"
                    " (docs/observe.md): each epoch of it is a rebalance; else absent."
                ),
            ),
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
            "protocol_type": (
                "string",
                "`consumer` for consumers and Kafka Streams, `connect`, ...",
            ),
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
            "kept": (
                "bool or null",
                (
                    "Whether consumers kept their partitions while they rejoined (KIP-429): their"
                    " JoinGroup named some as owned; null if unknown."
                ),
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
        "A static member restarted and has a new member id (KIP-345), or a client took the place"
        " of a lost member, whose partitions were reserved: `reserved_ms` (docs/policies.md).",
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
    "seat_reserved": EventType(
        "A member was lost, or left, and its partitions are reserved for its return"
        " (docs/policies.md): no rebalance.",
        {"who": ("who", "The lost member.")}
        | _CAUSE
        | {
            "partitions": (f"{_PARTITIONS} or null", "What it holds; null if that is not read."),
            "reserved_ms": ("int", "For how long; less if another member was lost before."),
        }
        | _RHYTHM,
    ),
    "rebalance_deferred": EventType(
        "A newcomer was let in without partitions, and without a rebalance (docs/policies.md).",
        {"who": ("who", "The newcomer.")}
        | _CAUSE
        | {
            "policy": ("string", "The config of the group that says so."),
            "for_ms": (
                "int or null",
                "Until the rebalance, unless more newcomers come; null if the member stands by.",
            ),
        },
    ),
    "standby_activated": EventType(
        "A standby got the partitions of a member that was removed, without a rebalance"
        " (docs/policies.md).",
        {
            "who": ("who", "The standby."),
            "old_member": ("string", "Member id of the one that was removed."),
            "silent_ms": ("int", "How long nothing had come from that one."),
            "partitions": (f"{_PARTITIONS} or null", "What it got; null if that is not read."),
        }
        | _CAUSE,
    ),
    "assignment_changed": EventType(
        "The server moved partitions between members, without a rebalance (docs/policies.md).",
        {
            "assignment": (
                "list",
                (
                    "The members that have others than before: `member`, `instance`, and all their"
                    " `partitions` (map of topic to list of int)."
                ),
            )
        },
    ),
    "policy_refused": EventType(
        "Policies of the group do nothing: its assignor keeps data of its own in assignments, or"
        " its members are no consumers (docs/policies.md).",
        {
            "policies": ("list of string", "Names of the configs."),
            "protocol": ("string or null", "The elected protocol."),
        },
    ),
    "configs_changed": EventType(
        "Configs of the group were changed.",
        _SENDER
        | {
            "before": ("object", "The configs that were set, by name."),
            "after": ("object", "The configs that are set, by name."),
        },
    ),
    "requests_refused": EventType(
        "Stale requests were refused, or JoinGroups for which the group has no room; at most one "
        "event per sender, API and error in ten seconds.",
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
    "group_converted": EventType(
        "Stored by an observer (docs/observe.md): the group has another type than before, with the"
        " members and offsets that it had (KIP-848).",
        {
            "from_type": ("string", "`classic` or `consumer`."),
            "to_type": ("string", "`consumer` or `classic`."),
        },
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
    "coordinator_stalled": EventType(
        "The coordinator answered no request of these groups for a second or more. Sessions and"
        " other timers of their members that ran meanwhile begin anew at its end. Written only if"
        " the partition has members.",
        {
            "what": (
                "string",
                (
                    "`process`: its event loop did not run; `log`: records did not become durable;"
                    " `clock`: the wall clock was moved, which ends no session."
                ),
            ),
            "from_ms": ("int", "Unix milliseconds of its begin."),
            "duration_ms": ("int", "How long it lasted; of `process` at least."),
            "jump_ms": ("int or null", "Of `clock`: how far it was moved, negative for back."),
        },
    ),
    "coordinator_closed": EventType(
        "The partition stopped to serve.", {"why": ("string", "What failed, or `stopped`.")}
    ),
    "not_back": EventType(
        "After a load, members did not contact this coordinator before they were removed.",
        {"absent": ("list of who", "Those members.")},
    ),
    "history_lost": EventType(
        "Stored by an observer (docs/observe.md): records of the partition of `__consumer_offsets`"
        " were lost before it read them, so what happened until then is unknown.",
        {
            "from_offset": ("int", "Offset that was to be read next."),
            "to_offset": ("int", "Offset at which reading goes on; a smaller one may begin anew."),
            "why": ("string", "What happened to the records."),
        },
    ),
}
"""Every type of event, in the order in which docs/events.md shows them."""
