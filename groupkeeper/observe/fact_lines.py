"""Log lines of facts: why a group rebalances, in words that an operator can search for.

Joins and leaves of single members have no lines: they are in the line of the rebalance that they
cause, and in the metrics.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.facts import (
    Fact,
    GroupDeleted,
    GroupEmptied,
    LimitReached,
    MemberFenced,
    NotedFact,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceStarted,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.logs import Logger

_log = Logger("groups")


def write_line(_: Origin, noted: NotedFact) -> None:
    """Write the line of a fact, if its kind has one."""
    line = _LINES.get(type(noted.fact))
    if line is not None:
        line(noted.fact)


def _rebalance_started(fact: RebalanceStarted) -> None:
    _log.info(
        "rebalance started",
        group=fact.group,
        generation=fact.generation,
        members=fact.members,
        **_fields(fact.cause),
    )


def _rebalance_cause_added(fact: RebalanceCauseAdded) -> None:
    _log.debug("rebalance cause added", group=fact.group, **_fields(fact.cause))


def _rebalance_completed(fact: RebalanceCompleted) -> None:
    _log.info(
        "rebalance completed",
        group=fact.group,
        generation=fact.generation,
        members=fact.members,
        took_ms=fact.duration_ms,
    )


def _member_fenced(fact: MemberFenced) -> None:
    _log.warning(
        "member fenced",
        group=fact.group,
        api=fact.api,
        instance=fact.who.instance,
        refused=fact.who.member,
        refused_host=fact.who.host,
        holder=fact.current_member,
    )


def _group_emptied(fact: GroupEmptied) -> None:
    _log.info("group empty", group=fact.group, generation=fact.generation, **_fields(fact.cause))


def _group_deleted(fact: GroupDeleted) -> None:
    _log.info("group deleted", group=fact.group, expired=fact.expired)


def _limit_reached(fact: LimitReached) -> None:
    _log.warning(
        "limit reached",
        limit=fact.limit,
        most=fact.most,
        group=fact.group,
        member=fact.who.member,
        client_id=fact.who.client_id,
        host=fact.who.host,
    )


# Any: each function takes the fact of its own row.
_LINES: Final[Mapping[type[Fact], Callable[[Any], None]]] = {
    RebalanceStarted: _rebalance_started,
    RebalanceCauseAdded: _rebalance_cause_added,
    RebalanceCompleted: _rebalance_completed,
    MemberFenced: _member_fenced,
    GroupEmptied: _group_emptied,
    GroupDeleted: _group_deleted,
    LimitReached: _limit_reached,
}


def _fields(cause: Cause) -> dict[str, object]:
    fields: dict[str, object] = {"cause": str(cause.code)}
    if cause.who is not None:
        fields["member"] = cause.who.member
        if cause.who.instance is not None:
            fields["instance"] = cause.who.instance
        fields["client_id"] = cause.who.client_id
        fields["host"] = cause.who.host
    if cause.reason:
        fields["reason"] = cause.reason
    return fields
