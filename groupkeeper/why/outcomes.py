"""Describes how a round went: late members, the leader, the standstill, and what moved."""

from typing import Final

from groupkeeper.history.fields import number
from groupkeeper.history.rounds import (
    COMPLETED,
    EMPTIED,
    LOST,
    SUPERSEDED,
    UNDER_WAY,
    Outage,
    Round,
)
from groupkeeper.history.unread import keeps_partitions
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.why.sessions import outlasted_ms, unheard
from groupkeeper.why.texts import count, name_of, person, short_id, some_of, span

LATE_MS: Final = 1_000
"""Delay from which the last member to join is named."""
LEADER_MS: Final = 1_000
"""Assignment time from which the leader is named."""


def late_text(current: Round) -> str:
    """Name members that did not rejoin, and the last one that did if it was late."""
    texts = []
    missing = [name_of(each.get("who") or each) for each in current.missing]
    if missing:
        kept = [each for each in current.missing if not each.get("removed")]
        fate = "; its place is kept" if kept and len(missing) == 1 else ""
        fate = "; static ones keep their places" if kept and len(missing) > 1 else fate
        after = f" after {span(current.join_ms)}" if current.join_ms is not None else ""
        texts.append(f"{some_of(missing)} had not rejoined{after}{fate}.")
    last = current.last
    if last and len(current.joined) > 1 and last["after_ms"] >= LATE_MS:
        by = (current.cause or {}).get("who") or {}
        known = by.get("member") == last["member"]
        who = name_of(by) if known else person(last.get("who") or last)
        what = "join" if current.group_type is None else "reach the epoch"
        text = f"Last to {what} was {who}, {span(last['after_ms'])} after"
        before = sorted(each["after_ms"] for each in current.joined)[-2]
        gap = last["after_ms"] - before
        behind = f", {span(gap)} behind the one before." if gap >= LATE_MS else "."
        texts.append(f"{text} the start{behind}")
    return " ".join(texts)


def leader_text(current: Round) -> str:
    """Name the leader if it took long to assign."""
    if current.leader_ms is None or current.leader_ms < LEADER_MS:
        return ""
    who = short_id(current.leader or "")
    return f"The leader{' ' + who if who else ''} took {span(current.leader_ms)} to assign."


def outcome_text(current: Round) -> str:
    """Describe the end of a round, and how long consumption stopped."""
    still = current.standstill_ms
    for_ms = f" after {span(still)}" if still else ""
    match current.outcome:
        case outcome if outcome == UNDER_WAY:
            return "It is still in progress."
        case outcome if outcome == EMPTIED:
            return f"No member was left{for_ms}: the group is empty."
        case outcome if outcome == SUPERSEDED:
            if current.group_type is not None:
                return f"The next epoch began{for_ms}, before all members had reached this one."
            return f"Another rebalance began{for_ms}, before this one had assignments."
        case outcome if outcome == LOST:
            return "The coordinator closed or moved before the rebalance completed."
    assert current.outcome == COMPLETED
    return _standstill(current)


def _standstill(current: Round) -> str:
    if current.standstill_ms is None:
        return ""
    still = span(current.standstill_ms)
    took = f"The rebalance took {span(current.duration_ms or 0)}"
    if current.protocol_type not in (None, CONSUMER):
        return f"{took}."
    if current.from_state == "Empty":
        return f"Consumption began after {still}." if current.standstill_ms else ""
    if keeps_partitions(current):
        text = f"{took}; partitions that stayed were consumed meanwhile."
    elif not current.standstill_ms:
        text = "Consumption stood still for less than 1 ms."
    else:
        text = f"Consumption stood still for {'up to ' if current.unassigned_ms else ''}{still}."
    silent = number((current.cause or {}).get("evidence") or {}, "silent_ms")
    if silent and current.removed:
        text += f" The partitions of {name_of(current.removed[0]['who'])} were not consumed for "
        text += f"{span(silent + current.standstill_ms)}."
    return text


def moved_text(current: Round) -> str:
    """Say how many partitions moved, or were assigned first."""
    if current.outcome != COMPLETED:
        return ""
    if current.moved is None or current.from_state == "Empty":
        return _assigned(current)
    if current.partitions is None:
        return f"{count(current.moved, 'partition')} moved."
    if current.source and not current.moved:  # a first owner does not count in records
        verb = "is" if current.partitions == 1 else "are"
        return f"{count(current.partitions, 'partition')} {verb} assigned; none changed its owner."
    return f"{current.moved} of {count(current.partitions, 'partition')} moved."


def _assigned(current: Round) -> str:
    if current.partitions is None or current.assignment is None:
        return ""
    if current.source and not current.partitions:  # nor do records list members without partitions
        return "No partition was assigned."
    owners = sum(any((each.get("partitions") or {}).values()) for each in current.assignment)
    of = f"{owners} of " if owners < len(current.assignment) else ""
    members = count(len(current.assignment), "member")
    return f"{count(current.partitions, 'partition')} went to {of}{members}."


def outage_of(current: Round) -> str:
    """Describe an outage longer than the session of a member that did not return."""
    if current.outage is None or outlasted_ms(current) is None:
        return ""
    lost = count(len(unheard(current)), "member")
    text = outage_text(current.outage)
    return f"{text[0].upper()}{text[1:]} before the load, and {lost} did not come back."


def outage_text(outage: Outage) -> str:
    """Describe an outage of the coordinator; after a kill, it is measured from the last event."""
    if outage.is_exact:
        return f"the coordinator was closed for {span(outage.ms)}"
    return f"no event was stored for {span(outage.ms)}"
