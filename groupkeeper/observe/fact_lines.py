"""Facts as log lines: why a group rebalances, in words an operator can search for.

Only what is worth a line of its own: joins and leaves of single members are in the rebalance they
cause, and in the metrics.
"""

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.facts import (
    GroupDeleted,
    GroupEmptied,
    LimitReached,
    MemberFenced,
    NotedFact,
    OffsetsCommitted,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceStarted,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.logs import Logger

_log = Logger("groups")


def write_line(_: Origin, noted: NotedFact) -> None:
    """One line for a fact that an operator may look for; nothing for the others."""
    fact = noted.fact
    match fact:
        case OffsetsCommitted():  # nearly all are
            pass
        case RebalanceStarted():
            _log.info(
                "rebalance started",
                group=fact.group,
                generation=fact.generation,
                members=fact.members,
                **_words(fact.cause),
            )
        case RebalanceCompleted():
            _log.info(
                "rebalance completed",
                group=fact.group,
                generation=fact.generation,
                members=fact.members,
                took_ms=fact.duration_ms,
            )
        case RebalanceCauseAdded():
            _log.debug("rebalance goes on", group=fact.group, **_words(fact.cause))
        case MemberFenced():
            _log.warning(
                "member fenced",
                group=fact.group,
                api=fact.api,
                instance=fact.who.instance,
                refused=fact.who.member,
                refused_host=fact.who.host,
                holder=fact.current_member,
            )
        case GroupEmptied():
            _log.info(
                "group empty", group=fact.group, generation=fact.generation, **_words(fact.cause)
            )
        case LimitReached():
            _log.warning(
                "limit reached",
                limit=fact.limit,
                most=fact.most,
                group=fact.group,
                member=fact.who.member,
                client_id=fact.who.client_id,
                host=fact.who.host,
            )
        case GroupDeleted():
            _log.info("group deleted", group=fact.group, expired=fact.expired)


def _words(cause: Cause) -> dict[str, object]:
    words: dict[str, object] = {"cause": str(cause.code)}
    if cause.who is not None:
        words["member"] = cause.who.member
        if cause.who.instance is not None:
            words["instance"] = cause.who.instance
        words["client_id"] = cause.who.client_id
        words["host"] = cause.who.host
    if cause.reason:
        words["reason"] = cause.reason
    return words
