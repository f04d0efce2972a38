"""The event that a fact is stored as. Pure; on any thread."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    Fact,
    GroupCreated,
    GroupDeleted,
    GroupDropped,
    GroupEmptied,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    NotedFact,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.protocol.group_events import Event

Fields = dict[str, Any]


def event_of(noted: NotedFact) -> Event | None:
    """The event, without what the log adds (seq, epoch, node); None if the fact is none."""
    fact = noted.fact
    row = _EVENTS.get(type(fact))
    if row is None:
        return None
    kind, fields = row
    head = fact.group, kind, fact.generation, fact.state
    return Event(-1, -1, -1, noted.wall, noted.now, *head, fields=fields(fact))


def type_of(fact: str) -> str:
    """The type of event that facts of a class, given by name, are stored as; or that name."""
    return _TYPES.get(fact, fact)


def _who(who: Who | None) -> Fields | None:
    if who is None:
        return None
    return {
        "member": who.member,
        "instance": who.instance,
        "client_id": who.client_id,
        "host": who.host or None,
        "software": None,
        "api_version": who.api_version,
        "principal": None,
    }


def _cause(cause: Cause) -> Fields:
    return {
        "code": cause.code.value,
        "who": _who(cause.who),
        "reason": cause.reason,
        "reason_cut": False,
        "likely": None,
        "evidence": {},
    }


# Any: each function takes the fact of its own row.
_EVENTS: Final[Mapping[type[Fact], tuple[str, Callable[[Any], Fields]]]] = {
    GroupCreated: ("group_created", lambda fact: {"who": None}),
    GroupDeleted: (
        "group_deleted",
        lambda fact: {"why": "expired" if fact.expired else "request", "who": None},
    ),
    GroupDropped: ("group_deleted", lambda fact: {"why": "unused", "who": None}),
    GroupEmptied: ("group_emptied", lambda fact: {"cause": _cause(fact.cause)}),
    MemberFenced: (
        "member_fenced",
        lambda fact: {
            "who": _who(fact.who),
            "api": fact.api,
            "current_member": fact.current_member,
        },
    ),
    MemberJoined: (
        "member_joined",
        lambda fact: {
            "who": _who(fact.who),
            "kind": "static" if fact.who.instance is not None else "dynamic",
        },
    ),
    MemberRemoved: (
        "member_removed",
        lambda fact: {"who": _who(fact.who), "cause": _cause(fact.cause)},
    ),
    MemberReplaced: (
        "member_replaced",
        lambda fact: {
            "who": _who(fact.who),
            "old_member": fact.old_member,
            "quick": fact.quick,
        },
    ),
    RebalanceCauseAdded: (
        "rebalance_cause_added",
        lambda fact: {"cause": _cause(fact.cause)},
    ),
    RebalanceCompleted: (
        "rebalance_completed",
        lambda fact: {"duration_ms": fact.duration_ms},
    ),
    RebalanceJoined: (
        "rebalance_joined",
        lambda fact: {
            "leader": fact.leader,
            "protocol": fact.protocol,
            "duration_ms": fact.duration_ms,
        },
    ),
    RebalanceStarted: (
        "rebalance_started",
        lambda fact: {
            "cause": _cause(fact.cause),
            "from_state": fact.from_state,
            "members": fact.members,
            "deadline_ms": fact.deadline_ms,
        },
    ),
}

_TYPES: Final = {kind.__name__: name for kind, (name, _) in _EVENTS.items()}
