"""Log lines of facts: why a group rebalances, in words that an operator can search for.

They say what the events say, in short. Members that join, rejoin and commit have no lines: they are
in the line of the rebalance that they cause, in the metrics, and in the events. docs/operations.md
lists the lines.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from groupkeeper.coordinator.causes import Cause, CauseCode, Who
from groupkeeper.coordinator.facts import (
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
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.logs import Logger, shows

IDS_SHOWN: Final = 5
"""How many member ids of a list are in a line."""

_UUID = re.compile(r"(-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

_log = Logger("groups")


def write_line(_: Origin, noted: NotedFact) -> None:
    """Write the line of a fact, if its kind has one."""
    line = _LINES.get(type(noted.fact))
    if line is not None:
        line(noted.fact)


def short_id(member_id: str) -> str:
    """A member id with the first 8 digits of its UUID, which are enough to search for; in full
    while lines of level debug are written.
    """
    return member_id if shows("debug") else _UUID.sub(r"\1", member_id)


# -- rebalances ----------------------------------------------------------------------------------


def _rebalance_started(fact: RebalanceStarted) -> None:
    if not fact.members:  # it ends at once: see the line of the group that is empty
        return
    _log.info(
        "rebalance started",
        group=fact.group,
        generation=fact.generation,
        round=fact.round,
        members=fact.members,
        **_of_cause(fact.cause),
    )


def _rebalance_cause_added(fact: RebalanceCauseAdded) -> None:
    _log.info("rebalance cause added", group=fact.group, round=fact.round, **_of_cause(fact.cause))


def _rebalance_joined(fact: RebalanceJoined) -> None:
    if fact.missing:
        _log.info(
            "members did not rejoin",
            group=fact.group,
            round=fact.round,
            waited_ms=fact.duration_ms,
            count=len(fact.missing),
            missing=_ids([member_id for member_id, _, _ in fact.missing]),
        )


def _rebalance_completed(fact: RebalanceCompleted) -> None:
    _log.info(
        "rebalance completed",
        group=fact.group,
        generation=fact.generation,
        round=fact.round,
        members=fact.members,
        took_ms=fact.duration_ms,
        leader_ms=fact.leader_ms,
    )


def _rebalance_abandoned(fact: RebalanceAbandoned) -> None:
    if fact.why == "emptied":  # the next line says so
        return
    _log.info("rebalance abandoned", group=fact.group, round=fact.round, why=fact.why)


# -- members -------------------------------------------------------------------------------------


def _member_removed(fact: MemberRemoved) -> None:
    fields = {"cause": str(fact.cause.code)} | _of_who(fact.who)
    remover = fact.cause.who
    if fact.cause.code is CauseCode.MEMBER_REMOVED_BY_ADMIN and remover is not None:
        fields |= {"by_client_id": remover.client_id, "by_host": remover.host}
    fields |= _why(fact.cause)
    _log.info("member removed", group=fact.group, **fields)


def _pending_member_dropped(fact: PendingMemberDropped) -> None:
    _log.info("member id was not used", group=fact.group, **_of_cause(fact.cause))


def _member_replaced(fact: MemberReplaced) -> None:
    _log.info(
        "member replaced",
        group=fact.group,
        **_of_who(fact.who),
        old_member=short_id(fact.old_member),
        rebalance=not fact.quick,
        away_ms=fact.away_ms,
        **_guess(fact.likely, fact.evidence),
    )


def _member_fenced(fact: MemberFenced) -> None:
    _log.warning(
        "member fenced",
        group=fact.group,
        api=fact.api,
        instance=fact.who.instance,
        refused=short_id(fact.who.member),
        refused_host=fact.who.host,
        holder=short_id(fact.current_member),
        holder_host=fact.current_host,
        **_guess(fact.likely, fact.evidence),
    )


def _members_not_back(fact: MembersNotBack) -> None:
    _log.info(
        "members did not come back after the load",
        group=fact.group,
        count=len(fact.absent),
        missing=_ids([who.member for who in fact.absent]),
    )


# -- groups and offsets --------------------------------------------------------------------------


def _group_emptied(fact: GroupEmptied) -> None:
    _log.info(
        "group empty",
        group=fact.group,
        generation=fact.generation,
        round=fact.round,
        **_of_cause(fact.cause),
    )


def _group_deleted(fact: GroupDeleted) -> None:
    who = {} if fact.who is None else _of_who(fact.who)
    _log.info("group deleted", group=fact.group, why=fact.why, **who)


def _offsets_removed(fact: OffsetsRemoved) -> None:
    if fact.why == "request" and fact.who is not None:
        count = fact.offsets
        _log.info("offsets deleted", group=fact.group, offsets=count, **_of_who(fact.who))


def _offsets_reset(fact: OffsetsReset) -> None:
    _log.debug(
        "offsets committed from outside",
        group=fact.group,
        topic=fact.topic,
        offsets=fact.count,
        **_of_who(fact.who),
    )


def _limit_reached(fact: LimitReached) -> None:
    _log.warning(
        "limit reached",
        limit=fact.limit,
        most=fact.most,
        group=fact.group,
        **_of_who(fact.who),
    )


# Any: each function takes the fact of its own row.
_LINES: Final[Mapping[type[Fact], Callable[[Any], None]]] = {
    RebalanceStarted: _rebalance_started,
    RebalanceCauseAdded: _rebalance_cause_added,
    RebalanceJoined: _rebalance_joined,
    RebalanceCompleted: _rebalance_completed,
    RebalanceAbandoned: _rebalance_abandoned,
    MemberRemoved: _member_removed,
    PendingMemberDropped: _pending_member_dropped,
    MemberReplaced: _member_replaced,
    MemberFenced: _member_fenced,
    MembersNotBack: _members_not_back,
    GroupEmptied: _group_emptied,
    GroupDeleted: _group_deleted,
    OffsetsRemoved: _offsets_removed,
    OffsetsReset: _offsets_reset,
    LimitReached: _limit_reached,
}


# -- parts ---------------------------------------------------------------------------------------


def _of_cause(cause: Cause) -> dict[str, object]:
    fields: dict[str, object] = {"cause": str(cause.code)}
    if cause.who is not None:
        fields |= _of_who(cause.who)
    return fields | _why(cause)


def _why(cause: Cause) -> dict[str, object]:
    """The client's words, the guess and its numbers."""
    words: dict[str, object] = {"reason": cause.reason} if cause.reason else {}
    return words | _guess(cause.likely, cause.evidence)


def _guess(likely: str | None, evidence: Mapping[str, Any]) -> dict[str, object]:
    fields: dict[str, object] = {} if likely is None else {"likely": likely}
    for name, value in evidence.items():
        if value is not None:
            fields[name] = ", ".join(value) if isinstance(value, list) else value
    return fields


def _of_who(who: Who) -> dict[str, object]:
    fields: dict[str, object] = {}
    if who.member:
        fields["member"] = short_id(who.member)
    if who.instance is not None:
        fields["instance"] = who.instance
    fields |= {"client_id": who.client_id, "host": who.host}
    if who.software_name:
        fields["software"] = f"{who.software_name} {who.software_version}".rstrip()
    return fields


def _ids(member_ids: Sequence[str]) -> str:
    shown = ", ".join(map(short_id, member_ids[:IDS_SHOWN]))
    return shown + (", ..." if len(member_ids) > IDS_SHOWN else "")
