"""Rows of tables from what records of a classic group say, and from what was inferred of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.history.feed import Record
from groupkeeper.analytics.history.generations import Generation, Member, instant
from groupkeeper.analytics.history.holdings import Interval, Moved
from groupkeeper.analytics.history.inference import (
    CONFIDENCE,
    UNKNOWN,
    Cause,
    Changes,
    Departure,
)
from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.history.writer import Row, Writer
from groupkeeper.why.rounds import COMPLETED, EMPTIED, SUPERSEDED

SEEN: Final = 0.99
"""Confidence of what records say themselves, if none is missing."""


def kind_of(before: Generation | None, now: Generation) -> str:
    """What a record changed; `before` is None if no value comes before it.

    The order matters: a group that becomes empty also gets a new generation.
    """
    if before is None:
        if now.members:
            return "rebalance"
        return "emptied" if now.generation else "created"
    if now.generation < before.generation:
        return "reset"
    if before.members and not now.members:
        return "emptied"
    if now.generation > before.generation:
        return "rebalance"
    return "rewrite" if before.members.keys() == now.members.keys() else "static replacement"


def write_members(record: Record, now: Generation, out: Writer) -> None:
    """Rows of `members` and `assignments`."""
    at: Row = {
        "group": record.group,
        "partition": out.partition,
        "offset": record.offset,
        "time": instant(record.time_ms),
        "generation": now.generation,
    }
    members, assignments = out.table("members"), out.table("assignments")
    are_wanted = "assignments" not in out.left_out
    for each, subscription in zip(now.members.values(), now.subscriptions, strict=True):
        share = now.assigned[each.member]
        members.append(
            {
                **at,
                "member": each.member,
                "instance": each.instance,
                "client_id": each.client_id or None,
                "host": each.host or None,
                "is_leader": each.member == now.leader,
                "session_timeout_ms": each.session_ms,
                "rebalance_timeout_ms": each.rebalance_ms,
                "subscription_version": subscription.version,
                "topics": subscription.topics and [*subscription.topics],
                "owned_partitions": subscription.owned,
                "assigned_partitions": None if share is None else sum(map(len, share.values())),
            }
        )
        for topic, partitions in (share or {}).items() if are_wanted else ():
            of_topic = {**at, "member": each.member, "topic": topic}
            assignments.extend([{**of_topic, "topic_partition": number} for number in partitions])


def write_interval(
    group: str, interval: Interval, members: Mapping[str, Member], sure: float, out: Writer
) -> None:
    """A row of `ownership`."""
    (topic, partition), holding, until_ms = interval
    since, until = instant(holding.from_ms), None if until_ms is None else instant(until_ms)
    owner = members.get(holding.member or "")
    out.table("ownership").append(
        {
            "group": group,
            "topic": topic,
            "topic_partition": partition,
            "from": since,
            "until": until,
            "duration_ms": None if since is None or until is None else until - since,
            "member": holding.member,
            "instance": owner.instance if owner else None,
            "client_id": (owner.client_id or None) if owner else None,
            "host": (owner.host or None) if owner else None,
            "software": None,
            "is_owned": holding.member is not None,
            "generation": holding.generation,
            "partition": out.partition,
            "offset": holding.offset,
            "source": LOG,
            "confidence": sure,
        }
    )


def write_session(
    group: str, offset: int, member: Member, end: Departure | None, out: Writer
) -> None:
    """A row of `sessions`; open without an end."""
    out.add(
        "sessions",
        group=group,
        **_who(member),
        until=None if end is None else instant(end.until_ms),
        began_as=member.began_as,
        ended_by=end and end.code,
        likely=end and end.likely,
        old_member=member.old_member,
        away_ms=member.away_ms,
        session_timeout_ms=member.session_ms,
        rebalance_timeout_ms=member.rebalance_ms,
        offset=offset,
        source=LOG,
        confidence=CONFIDENCE.get(end.code, SEEN) if end else SEEN,
        **{"from": member.from_ms},
    )


def _who(member: Member) -> dict[str, object]:
    return {
        "member": member.member,
        "instance": member.instance,
        "client_id": member.client_id or None,
        "host": member.host or None,
    }


@dataclass(slots=True)
class Round:
    """What a record says about the rebalance before it. `changes` is None if the members before are
    not known; `end_ms` is the end of the join phase.
    """

    record: Record
    now: Generation
    changes: Changes | None
    cause: Cause
    end_ms: int
    moved: Moved

    def write(self, before: Generation | None, aborted: int, out: Writer) -> None:
        """A row of `rounds`, after one for each of those that were superseded."""
        for number in range(aborted):
            self._superseded(self.now.generation - aborted + number, out)
        record, now, changes, cause = self.record, self.now, self.changes, self.cause
        time_ms = instant(record.time_ms)
        is_empty = not now.members
        known = before is not None and bool(before.members) and not is_empty
        counts = {} if changes is None else _counts(changes, cause)
        away = [each.away_ms for each in (changes.joined if changes else ()) if each.away_ms]
        out.add(
            "rounds",
            group=record.group,
            offset=record.offset,
            generation=now.generation,
            ended=time_ms,
            outcome=EMPTIED if is_empty else COMPLETED,
            cause=cause.code,
            likely=cause.likely,
            more_causes=cause.more,
            from_state=self._from_state(before, aborted),
            protocol=now.protocol,
            is_cooperative=now.is_cooperative,
            members=len(now.members),
            leader_ms=None if time_ms is None else max(0, time_ms - self.end_ms),
            partitions=None if is_empty else now.partitions,
            moved=self.moved.moved if known else None,
            unowned_ms=self.moved.unowned_ms if known else None,
            away_ms=max(away, default=None),
            source=LOG,
            confidence=CONFIDENCE[cause.code],
            **counts,
            **_by(cause.by),
        )

    def _superseded(self, generation: int, out: Writer) -> None:
        """It ended at the latest with the next one's join phase."""
        all_alike = self.cause.code != UNKNOWN and not self.cause.more
        code = self.cause.code if all_alike else UNKNOWN
        out.add(
            "rounds",
            group=self.record.group,
            offset=self.record.offset,
            generation=generation,
            ended=self.end_ms,
            outcome=SUPERSEDED,
            cause=code,
            source=LOG,
            confidence=CONFIDENCE[code],
        )

    def _from_state(self, before: Generation | None, aborted: int) -> str | None:
        if self.changes is None:
            return None
        if aborted:
            return "CompletingRebalance"
        return "Stable" if before is not None and before.members else "Empty"


def _counts(changes: Changes, cause: Cause) -> dict[str, object]:
    """Members of one instance whose session expired before it came back are not replaced."""
    expired = sum(old.member in cause.departures for old, _ in changes.replaced)
    return {
        "joined": len(changes.joined) + expired,
        "removed": len(changes.gone) + expired,
        "replaced": len(changes.replaced) - expired,
    }


def _by(member: Member | None) -> dict[str, object]:
    if member is None:
        return {}
    return {f"by_{name}": value for name, value in _who(member).items()}
