"""Tells the rebalances of a consumer group (KIP-848) as events: each epoch of the group is one.

An epoch begins with the record of the group's epoch, and is over when all members have reached it
and wait for no partition. Its cause is what the same step of the coordinator wrote before this
record: a new or changed member, tombstones of members, a resolved pattern; if it wrote nothing
else, topics have changed. The next epoch supersedes one that is not over.

Source: KIP-848, Kafka 4.1 `GroupMetadataManager`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from groupkeeper.history.causes import (
    JOINED,
    REMOVED,
    RETURNED_CHANGED,
    STATIC_JOINED,
    SUBSCRIPTION,
    UNKNOWN,
)
from groupkeeper.history.departures import Departure
from groupkeeper.history.evidence import Evidence
from groupkeeper.history.newer_departures import SURE, TOPICS_CHANGED
from groupkeeper.history.newer_members import NewerMember
from groupkeeper.history.records import GroupRecord
from groupkeeper.history.rows import SEEN, Told, instant
from groupkeeper.history.story import NOTHING, inferred

CONSUMER: Final = "consumer"
"""Type of the groups that have rebalances here, as ListGroups names it."""

# Any: JSON.
_Fields = Mapping[str, Any]


@dataclass(slots=True)
class GoneMember:
    """A member that is gone, and why."""

    member: NewerMember
    why: Departure
    evidence: Evidence


@dataclass(slots=True)
class EpochChanges:
    """Changes of one step of the coordinator, in the order of its records."""

    joined: list[NewerMember] = field(default_factory=list)
    gone: list[GoneMember] = field(default_factory=list)
    replaced: list[tuple[NewerMember, NewerMember]] = field(default_factory=list)
    """Old and new member with the same instance id."""
    resubscribed: list[NewerMember] = field(default_factory=list)
    updated: list[NewerMember] = field(default_factory=list)
    """Members whose client, host or timeout is another."""
    topics: list[_Fields] = field(default_factory=list)
    """Evidence of changed topics."""
    waited: list[NewerMember] = field(default_factory=list)
    """Members whose pattern was resolved for the first time."""

    def causes(self) -> list[tuple[str, NewerMember | None]]:
        """Return the code of each change that raises the epoch, and its member. How many codes
        there are does not depend on why members are gone, which an answer of the cluster may say.
        """
        found: list[tuple[str, NewerMember | None]] = []
        if self.gone:
            codes = {each.why.code for each in self.gone}
            member = self.gone[0].member if len(self.gone) == 1 else None
            found.append((codes.pop() if len(codes) == 1 else UNKNOWN, member))
        found += [(RETURNED_CHANGED, new) for _, new in self.replaced]
        found += [(join_code(each), each) for each in self.joined]
        found += [(SUBSCRIPTION, each) for each in self.resubscribed]
        found += [(each.waits_as or JOINED, each) for each in self.waited]
        return found


def join_code(member: NewerMember) -> str:
    """Return the code of the cause that a new member is."""
    return JOINED if member.instance is None else STATIC_JOINED


@dataclass(slots=True)
class EpochRound:
    """The epoch that members are to reach."""

    epoch: int
    since_ms: int
    code: str
    """Code of its cause."""
    reached: dict[str, int] = field(default_factory=dict)
    """Member -> when it reached the epoch, in ms since the start."""


class Teller:
    """Makes the events of one record of a consumer group."""

    def __init__(self, record: GroupRecord, epoch: int, state: str) -> None:
        """`epoch`, `state`: of the group after the record."""
        self.record, self._epoch, self._state = record, epoch, state
        self.at_ms = instant(record.time_ms) or 0
        self.told: list[Told] = []

    def tell(
        self, type_: str, fields: _Fields = NOTHING, sure: float = SEEN, *, is_in_round: bool = True
    ) -> None:
        """Add an event. Rounds do not overlap, so 1 serves as the number of each."""
        told = inferred(self.record, type_, self.at_ms, fields, self._epoch)
        event = told.event._replace(round=int(is_in_round), state=self._state)
        self.told.append(told._replace(event=event, confidence=sure))

    # -- rounds ----------------------------------------------------------------------------------

    def started(self, changed: EpochChanges, from_state: str | None, members: int) -> EpochRound:
        """Add the start of an epoch, and what changed with it. `from_state`: None if a record
        before this one is not known.
        """
        causes = changed.causes() or [(TOPICS_CHANGED if from_state else UNKNOWN, None)]
        code, member = causes[0]
        alike = [each for each, _ in causes if each == code]
        who = None if member is None or len(alike) > 1 or code == UNKNOWN else member.who
        evidence = changed.topics[0] if code == TOPICS_CHANGED and changed.topics else {}
        likely = next((each.why.likely for each in changed.gone if each.why.code == code), None)
        cause = {"code": code, "who": who, "likely": likely, "evidence": evidence}
        known = {} if from_state is None else {"from_state": from_state}
        about = {"cause": cause, "members": members, "group_type": CONSUMER}
        self.tell("rebalance_started", about | known, SURE[code])
        for other in dict.fromkeys(each for each, _ in causes if each != code):
            self.tell("rebalance_cause_added", {"cause": {"code": other}})
        self.changes(changed, is_in_round=True)
        return EpochRound(self._epoch, self.at_ms, code)

    def changes(self, changed: EpochChanges, *, is_in_round: bool) -> None:
        """Add the members that are gone, joined, or changed."""
        for each in changed.gone:
            self.gone(each, is_in_round=is_in_round)
        for old, new in changed.replaced:
            away = {"away_ms": max(0, self.at_ms - old.heard_ms)} if old.heard_ms else {}
            about = _about(new) | {"old_member": old.member, "quick": not is_in_round} | away
            self.tell("member_replaced", about, is_in_round=is_in_round)
        for member in changed.joined:
            kind = "dynamic" if member.instance is None else "static"
            self.tell("member_joined", _about(member) | {"kind": kind}, is_in_round=is_in_round)
        for member in changed.updated:
            self.tell("member_rejoined", _about(member), is_in_round=is_in_round)

    def gone(self, gone: GoneMember, *, is_in_round: bool) -> None:
        """Add a member that is gone."""
        code, until_ms, likely = gone.why.code, gone.why.until_ms, gone.why.likely
        last_ms = gone.evidence.last_ms
        evidence = {} if last_ms is None else {"silent_ms": max(0, until_ms - last_ms)}
        who = None if code in (UNKNOWN, REMOVED) else gone.member.who
        cause = {"code": code, "who": who, "likely": likely, "evidence": evidence}
        fields = {"who": gone.member.who, "cause": cause}
        self.tell("member_removed", fields, SURE[code], is_in_round=is_in_round)

    def superseded(self, current: EpochRound) -> None:
        """Add the end of an epoch that not all members have reached."""
        self.tell("rebalance_abandoned", {"why": "superseded"}, SURE[current.code])

    def emptied(self, current: EpochRound) -> None:
        """Add the end of an epoch that left the group without members."""
        self.tell("rebalance_abandoned", {"why": "emptied"}, SURE[current.code])
        self.tell("group_emptied")

    def completed(
        self,
        current: EpochRound,
        members: Iterable[NewerMember],
        moved: int | None,
        unassigned_ms: int | None,
        names: Mapping[str, str],
    ) -> None:
        """Add the end of an epoch that all members have reached. `moved`: partitions with another
        owner than before; `unassigned_ms`: the longest time that one of them had none; `names`:
        topic id -> name.
        """
        arrived = sorted(members, key=lambda each: current.reached.get(each.member, 0))
        joined = [
            {
                "member": each.member,
                "instance": each.instance,
                "after_ms": current.reached.get(each.member, 0),
            }
            for each in arrived
        ]
        last = arrived[-1].member if arrived else None
        fields: dict[str, object] = {"protocol_type": CONSUMER, "joined": joined, "missing": []}
        after_ms = max(current.reached.values(), default=0)
        self.tell("rebalance_joined", fields | {"last": last, "duration_ms": after_ms})
        plan = [
            {"member": each.member, "instance": each.instance, "partitions": shown(each, names)}
            for each in arrived
            if each.owned
        ]
        took_ms = max(0, self.at_ms - current.since_ms)
        fields = {"moved": moved, "unassigned_ms": unassigned_ms, "kept": True}
        fields |= {"duration_ms": took_ms, "assignment": plan}
        self.tell("rebalance_completed", fields, SURE[current.code])

    def moved(self, member: NewerMember, names: Mapping[str, str]) -> None:
        """Add a change of a member's partitions outside of a round."""
        change = {"member": member.member, "instance": member.instance}
        about = {"assignment": [{**change, "partitions": shown(member, names)}]}
        self.tell("assignment_changed", about, is_in_round=False)


def shown(member: NewerMember, names: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the partitions of a member by topic, with names of topics as far as they are known."""
    found: dict[str, list[int]] = {}
    for topic, number in member.owned:
        found.setdefault(names.get(topic) or topic, []).append(number)
    return found


def _about(member: NewerMember) -> dict[str, object]:
    return {"who": member.who, "rebalance_timeout_ms": member.rebalance_ms}
