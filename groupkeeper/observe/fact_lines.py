"""Log lines of facts: why a group rebalances, in words that an operator can search for.

They are a short form of the events. Members that join, rejoin and commit have no lines: they appear
in the line of the rebalance that they cause, in the metrics, and in the events. docs/operations.md
lists the lines.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    AssignmentChanged,
    ConfigsChanged,
    Fact,
    GroupDeleted,
    GroupEmptied,
    LimitReached,
    MemberFenced,
    MemberRemoved,
    MemberReplaced,
    MembersNotBack,
    NotedFact,
    OffsetsRemoved,
    OffsetsReset,
    PendingMemberDropped,
    PolicyRefused,
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceDeferred,
    RebalanceJoined,
    RebalanceStarted,
    SeatReserved,
    StandbyActivated,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import AuditLines
from groupkeeper.protocol.group_events import CauseCode

IDS_SHOWN: Final = 5
"""Maximum number of member ids in a line."""

_UUID = re.compile(r"(-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

_log = Logger("groups")

_Fields = dict[str, object]

_ROUND: Final = ("generation", "round")


def write_line(_: Origin, noted: NotedFact) -> None:
    """Write the line of a fact, if its kind has one."""
    fact = noted.fact
    line = _LINES.get(type(fact))
    if line is not None and (line.is_told is None or line.is_told(fact)):
        _log.write(line.level, line.event, lambda: line.fields(fact))


def short_id(member_id: str) -> str:
    """Return a member id with only the first 8 digits of its UUID, enough to search for."""
    return _UUID.sub(r"\1", member_id)


# -- rebalances ----------------------------------------------------------------------------------


def _rebalance_joined(fact: RebalanceJoined) -> _Fields:
    return {
        "group": fact.group,
        "round": fact.round,
        "waited_ms": fact.duration_ms,
        "count": len(fact.missing),
        "missing": _ids([member_id for member_id, _, _ in fact.missing]),
    }


# -- members -------------------------------------------------------------------------------------


def _member_removed(fact: MemberRemoved) -> _Fields:
    fields = {"group": fact.group, "cause": str(fact.cause.code)} | _of_who(fact.who)
    remover = fact.cause.who
    if fact.cause.code is CauseCode.MEMBER_REMOVED_BY_ADMIN and remover is not None:
        fields |= {"by_client_id": remover.client_id, "by_host": remover.host}
        fields |= {"by_principal": remover.principal} if remover.principal else {}
    return fields | _why(fact.cause)


def _member_replaced(fact: MemberReplaced) -> _Fields:
    return {
        "group": fact.group,
        **_of_who(fact.who),
        "old_member": short_id(fact.old_member),
        "rebalance": not fact.quick,
        "away_ms": fact.away_ms,
        **_guess(fact.likely, fact.evidence),
    }


def _member_fenced(fact: MemberFenced) -> _Fields:
    return {
        "group": fact.group,
        "api": fact.api,
        "instance": fact.who.instance,
        "refused": short_id(fact.who.member),
        "refused_host": fact.who.host,
        "holder": short_id(fact.current_member),
        "holder_host": fact.current_host,
        **_guess(fact.likely, fact.evidence),
    }


def _members_not_back(fact: MembersNotBack) -> _Fields:
    missing = _ids([who.member for who in fact.absent])
    return {"group": fact.group, "count": len(fact.absent), "missing": missing}


def _assignment_changed(fact: AssignmentChanged) -> _Fields:
    members = [member for member, _, _ in fact.assignments]
    return {"group": fact.group, "count": len(members), "members": _ids(members)}


def _told(*names: str) -> Callable[[Any], _Fields]:
    """Return a function for the fields of a fact: its group and these attributes.

    `a=b` is attribute b under the name a. Causes and clients are expanded. Any: each fact has its
    own attributes.
    """

    def fields_of(fact: Any) -> _Fields:
        fields: _Fields = {"group": fact.group}
        for name, _, attribute in (each.partition("=") for each in names):
            value = getattr(fact, attribute or name)
            if isinstance(value, Cause):
                fields |= _of_cause(value)
            elif name == "who":
                fields |= {} if value is None else _of_who(value)
            else:
                fields[name] = value
        return fields

    return fields_of


class _Line(NamedTuple):
    """The line of a kind of facts. Any: each function takes facts of its own row."""

    event: str
    fields: Callable[[Any], _Fields]
    """Called only if the line is written: their rate is limited."""
    is_told: Callable[[Any], bool] | None = None
    """None: always."""
    level: str = "info"


_LINES: Final[Mapping[type[Fact], _Line]] = {
    RebalanceStarted: _Line(
        # Without members it ends immediately: see the line `group empty`.
        "rebalance started",
        _told(*_ROUND, "members", "cause"),
        lambda fact: fact.members > 0,
    ),
    RebalanceCauseAdded: _Line("rebalance cause added", _told("round", "cause")),
    RebalanceJoined: _Line(
        "members did not rejoin", _rebalance_joined, lambda fact: bool(fact.missing)
    ),
    RebalanceCompleted: _Line(
        "rebalance completed", _told(*_ROUND, "members", "took_ms=duration_ms", "leader_ms")
    ),
    RebalanceAbandoned: _Line(
        "rebalance abandoned",
        _told("round", "why"),
        lambda fact: fact.why != "emptied",  # covered by the next line
    ),
    MemberRemoved: _Line("member removed", _member_removed),
    SeatReserved: _Line("seat reserved", _told("cause", "reserved_ms=until_ms")),
    RebalanceDeferred: _Line("rebalance deferred", _told("who", "policy", "for_ms")),
    StandbyActivated: _Line("standby activated", _told("who", "old_member", "silent_ms")),
    AssignmentChanged: _Line("partitions moved", _assignment_changed),
    PolicyRefused: _Line("policy refused", _told("policies", "protocol"), level="warning"),
    ConfigsChanged: _Line("group configs changed", _told("who", "before", "after")),
    PendingMemberDropped: _Line("member id was not used", _told("cause")),
    MemberReplaced: _Line("member replaced", _member_replaced),
    MemberFenced: _Line("member fenced", _member_fenced, level="warning"),
    MembersNotBack: _Line("members did not come back after the load", _members_not_back),
    GroupEmptied: _Line("group empty", _told(*_ROUND, "cause")),
    GroupDeleted: _Line("group deleted", _told("why", "who")),
    OffsetsRemoved: _Line(
        "offsets deleted",
        _told("offsets", "who"),
        lambda fact: fact.why == "request" and fact.who is not None,
    ),
    LimitReached: _Line("limit reached", _told("limit", "most", "who"), level="warning"),
}

LINE_KINDS: Final = frozenset(_LINES)
"""Kinds of facts that may have a line."""


# -- who changed what ----------------------------------------------------------------------------


class AuditReader:
    """Tells in lines of the logger `access` who changed groups, of those that are administered."""

    def __init__(self) -> None:
        self._lines = AuditLines()

    def read(self, _: Origin, noted: NotedFact) -> None:
        """Take a fact. On the loop."""
        fact = noted.fact
        find = _CHANGES.get(type(fact))
        found = None if find is None else find(fact)
        if found is not None:
            who, change = found
            self._lines.tell("group changed", who, [f"{fact.group}: {change}"])


_Change = tuple[Who, str] | None
"""The client that changed a group, and how; None if none did."""


def _removal(fact: MemberRemoved | SeatReserved | StandbyActivated) -> _Change:
    cause = fact.cause
    if cause.code is not CauseCode.MEMBER_REMOVED_BY_ADMIN or cause.who is None:
        return None
    member = fact.old_member if isinstance(fact, StandbyActivated) else fact.who.member
    return cause.who, f"member {short_id(member)} removed"


def _deletion(fact: GroupDeleted) -> _Change:
    return None if fact.why != "request" or fact.who is None else (fact.who, "deleted")


def _forgotten(fact: OffsetsRemoved) -> _Change:
    if fact.why != "request" or fact.who is None:
        return None
    return fact.who, f"offsets deleted: {fact.offsets}"


def _reset(fact: OffsetsReset) -> _Change:
    return fact.who, f"offsets of {fact.topic} set: {fact.count}"


_CHANGES: Final[Mapping[type[Fact], Callable[[Any], _Change]]] = {
    MemberRemoved: _removal,
    SeatReserved: _removal,
    StandbyActivated: _removal,
    GroupDeleted: _deletion,
    OffsetsRemoved: _forgotten,
    OffsetsReset: _reset,
}

CHANGE_KINDS: Final = frozenset(_CHANGES)
"""Kinds of facts that `AuditReader` looks at."""


# -- parts ---------------------------------------------------------------------------------------


def _of_cause(cause: Cause) -> _Fields:
    fields: _Fields = {"cause": str(cause.code)}
    if cause.who is not None:
        fields |= _of_who(cause.who)
    return fields | _why(cause)


def _why(cause: Cause) -> _Fields:
    """Return the client's reason, the guess and its evidence."""
    words: _Fields = {"reason": cause.reason} if cause.reason else {}
    return words | _guess(cause.likely, cause.evidence)


def _guess(likely: str | None, evidence: Mapping[str, Any]) -> _Fields:
    fields: _Fields = {} if likely is None else {"likely": likely}
    for name, value in evidence.items():
        if value is not None:
            fields[name] = ", ".join(value) if isinstance(value, list) else value
    return fields


def _of_who(who: Who) -> _Fields:
    fields: _Fields = {}
    if who.member:
        fields["member"] = short_id(who.member)
    if who.instance is not None:
        fields["instance"] = who.instance
    fields |= {"client_id": who.client_id, "host": who.host}
    if who.software_name:
        fields["software"] = f"{who.software_name} {who.software_version}".rstrip()
    if who.principal:
        fields["principal"] = who.principal
    return fields


def _ids(member_ids: Sequence[str]) -> str:
    shown = ", ".join(map(short_id, member_ids[:IDS_SHOWN]))
    return shown + (", ..." if len(member_ids) > IDS_SHOWN else "")
