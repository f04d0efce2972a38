"""Turns the records of one classic group, and the commits between them, into the events that its
coordinator would have stored, as far as two neighbouring records show them.

A record shows the end of a join phase and the assignments. The times at which members joined or
left follow from their commits (`history.inference`); the start of the join phase is unknown.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from groupkeeper.history.asked import NOT_ASKED, UNSEEN, Asked, SeenStart, seen_start
from groupkeeper.history.causes import CONFIDENCE, UNKNOWN
from groupkeeper.history.evidence import (
    RELOADED,
    STOPPED_FIRST,
    CauseEvidence,
    Commits,
    evidence_of,
)
from groupkeeper.history.inference import Changes, InferredCause, compare, explain
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import (
    CONVERTED,
    REBALANCE,
    RESET,
    CommitRun,
    Generation,
    GroupRecord,
    RecordedMember,
    unwritten,
)
from groupkeeper.history.rows import LOG, SEEN, KnownOffsets, Told, instant
from groupkeeper.protocol.group_events import SHORTENED, Event

MOST_ABORTED: Final = 1000
"""If the generation rises by more than this, the difference is not taken for aborted rounds."""
FIRST, NEW, KNOWN, LOST = "first", "new", "known", "lost"
NOTHING: Final[Mapping[str, object]] = {}


class Gap(NamedTuple):
    """The end of what is known of a group, at the record with this offset: the group was deleted,
    or the earlier history is unrelated. `at_ms` is -1 if unknown. Owners are known until
    `owned_ms`.
    """

    offset: int
    at_ms: int
    owned_ms: int

    @classmethod
    def at(cls, record: GroupRecord, known_ms: int = 0) -> Self:
        """The gap at this record; `known_ms` is the time of the previous record."""
        if instant(record.time_ms) is None:
            return cls(record.offset, -1, known_ms)
        return cls(record.offset, record.time_ms, record.time_ms)


StoryItem = Told | Gap


@dataclass(slots=True)
class Story:
    """The state between two records of a classic group. `before` is the last record with a value,
    without subscriptions: None if the group did not exist (`since` is NEW), if that is unknown
    (LOST), or if no record was read yet (FIRST). `since` is CONVERTED after a record that made a
    consumer group a classic one.
    """

    since: str = FIRST
    before: Generation | None = None
    offset: int = -1
    time_ms: int = 0
    epoch: int | None = None
    converted_by: InferredCause | None = None
    """The cause of the round that begins with the record that made it a classic group."""
    is_withheld: bool = False
    """The last record took partitions from members and assigned them to none."""
    held: dict[OwnedPartition, Commits] = field(default_factory=dict)

    def commit(self, run: CommitRun, is_whole: bool) -> None:
        """Add commits after the group's last record."""
        if instant(run.first_ms) is None or instant(run.last_ms) is None:
            return
        commits = self.held.get((run.topic, run.partition))
        if commits is not None:
            commits.add(run, self.offset, is_whole)

    def interrupted(self) -> None:
        """Note that commits may be missing after those added: no pause is measured across the gap,
        as if `add` had known of it before.
        """
        for each in self.held.values():
            each.behind = -1

    def end(self, record: GroupRecord, is_known: bool) -> list[StoryItem]:
        """End the story: the group was deleted, or its further fate is unknown."""
        self.before, self.since, self.held = None, NEW if is_known else LOST, {}
        return [Gap.at(record, self.time_ms)]

    def take(self, record: GroupRecord, now: Generation) -> None:
        """Remember a record with a value, without its subscriptions."""
        self.before, self.since, self.converted_by = now, KNOWN, None
        now.subscriptions, now.assigned = [], {}
        self.offset, self.time_ms = record.offset, record.time_ms
        self.epoch = record.leader_epoch

    def add(
        self,
        record: GroupRecord,
        now: Generation,
        kind: str,
        known: KnownOffsets,
        asked: Asked = NOT_ASKED,
    ) -> list[StoryItem]:
        """Remember a record like `take`, and return the events it shows. `asked`: meanwhile."""
        telling = Telling(record, now)
        changes = compare(self._members, now.members)
        is_cut = self._is_cut_off(record, now, kind, known)
        is_cut |= instant(record.time_ms) is None or instant(self.time_ms) is None
        fits = kind != RESET and unwritten(self.before, now) <= MOST_ABORTED
        is_round = self.before is None or now.generation > self.before.generation
        is_odd = not is_round and bool(changes.gone or changes.joined)  # never from a coordinator
        if is_cut or is_odd or not fits:
            is_round = kind in (REBALANCE, RESET) and bool(now.members) and not is_odd
            self._start_over(telling, is_round)
        else:
            self._go_on(telling, changes, is_round, asked)
        self.take(record, now)
        if kind == CONVERTED:
            self.since = CONVERTED
        return telling.items

    # -- events of a record ----------------------------------------------------------------------

    def _start_over(self, telling: "Telling", is_round: bool) -> None:
        """Take a record on its own, since the record before it is unknown."""
        record, now = telling.record, telling.now
        telling.items.append(Gap.at(record, self.time_ms))
        self.held = {}
        self._own(now, {})
        if not now.members:
            return
        telling.is_in_round = is_round
        at_ms = instant(record.time_ms) or 0
        if is_round:
            telling.started(InferredCause(UNKNOWN), None, at_ms)
        for each in now.members.values():
            telling.member("member_rejoined", each, at_ms)
        telling.completed(at_ms, None, CONFIDENCE[UNKNOWN])

    def _go_on(self, telling: "Telling", changes: Changes, is_round: bool, asked: Asked) -> None:
        """Compare a record with the one before, or with a group that did not exist."""
        record, now, before = telling.record, telling.now, self.before
        end_ms = record.time_ms
        if is_round and now.state_ms is not None:
            end_ms = min(end_ms, now.state_ms)
        aborted = unwritten(before, now)
        if before is None:
            telling.is_in_round = False
            telling.tell("group_created", end_ms)
            aborted = min(max(0, now.generation - 1), MOST_ABORTED)
        setting = CauseEvidence(
            end_ms,
            evidence_of(self.held, asked.idle),
            reloaded=self.epoch != record.leader_epoch,
            withheld=self.is_withheld,
            converted=self.since == CONVERTED,
            began_ms=self.time_ms,
            aborted=aborted,
            grown=not self.is_withheld and self._may_keep_leader(now) and self._has_grown(now),
        )
        if not setting.reloaded:
            since_ms, members = self.time_ms, self._members
            seen = seen_start(asked.sightings, members, since_ms, end_ms)
            setting = setting._replace(seen=seen)
        cause = InferredCause(UNKNOWN)
        if is_round:
            cause = explain(before, now, changes, setting)
            if self.converted_by is not None and not (aborted or setting.reloaded):
                cause.came_after(self.converted_by)
        for key, each in now.members.items():
            old = self._members.get(key)
            is_heard = is_round or old is None
            each.heard_ms = end_ms if is_heard or old is None else old.heard_ms
        telling.is_in_round = is_round and bool(now.generation > 0 or now.members)
        if telling.is_in_round:
            telling.superseded(cause, aborted, end_ms)
            was = "Stable" if self._members else "Empty"
            was = "CompletingRebalance" if aborted else was
            is_reloaded = bool(before) and setting.reloaded
            telling.started(cause, was, end_ms, setting.seen, is_reloaded=is_reloaded)
        telling.changes(changes, cause, setting, self._members)
        moved = self._own(now, {old.member: new.member for old, new in changes.replaced})
        if now.members and is_round:
            sure = setting.seen.surer(CONFIDENCE[cause.code], cause.by)
            telling.completed(end_ms, moved if self._members else None, sure)
        elif is_round:
            telling.emptied(CONFIDENCE[cause.code])

    def _own(self, now: Generation, renamed: Mapping[str, str]) -> int:
        """Take over the assigned partitions. Returns how many changed their owner. `renamed`: old
        member id of a returned static member -> its new id.
        """
        held, moved = self.held, 0
        self.held = {}
        for member, share in now.assigned.items():
            for topic, partitions in (share or {}).items():
                for number in partitions:
                    place = topic, number
                    old = held.pop(place, None)
                    if old is not None and old.member != member:
                        moved += renamed.get(old.member) != member
                        old = None
                    self.held[place] = old or Commits(member)
        self.is_withheld = bool(held)
        return moved

    def _may_keep_leader(self, now: Generation) -> bool:
        """Return whether the leader, which rejoins for new partitions, can have done so. If it is
        gone, it may have rejoined in a round without assignments.
        """
        old = self._members.get((self.before and self.before.leader) or "")
        if old is None or unwritten(self.before, now):
            return True
        return any(key == old.member or each.returns(old) for key, each in now.members.items())

    def _has_grown(self, now: Generation) -> bool:
        """Return whether a topic has partitions beyond those that were assigned before."""
        most: dict[str, int] = {}
        for topic, number in self.held:
            most[topic] = max(number, most.get(topic, number))
        return any(
            number > most.get(topic, number)
            for share in now.assigned.values()
            for topic, some in (share or {}).items()
            for number in some
        )

    @property
    def _members(self) -> dict[str, RecordedMember]:
        """Members of the last record."""
        return {} if self.before is None else self.before.members

    def _is_cut_off(
        self, record: GroupRecord, now: Generation, kind: str, known: KnownOffsets
    ) -> bool:
        """Return whether what was before a record is unknown. Records that a compaction left may
        follow one another without a gap: so a gap anywhere may have been the record before the
        first one that is read, unless that is of the first generation.
        """
        if self.since == LOST or kind == CONVERTED:
            return True
        lost = known.lost_until
        if self.since == FIRST:
            return now.generation > 1 and bool(known.from_offset or lost)
        return bisect_right(lost, self.offset) != bisect_right(lost, record.offset)


def inferred(
    record: GroupRecord,
    type_: str,
    at_ms: int,
    fields: Mapping[str, object],
    generation: int = 0,
    number: int = 0,
) -> Told:
    """An event inferred from a record. `number`: of its round."""
    about = record.offset, record.group, type_, generation, "", number, fields
    return Told(record.offset, Event(0, 0, -1, at_ms, *about), LOG, SEEN)


class Telling:
    """Collects the events of one record, in order."""

    def __init__(self, record: GroupRecord, now: Generation) -> None:
        self.record, self.now = record, now
        self.items: list[StoryItem] = []
        self.is_in_round = True

    def tell(
        self,
        type_: str,
        at_ms: int,
        fields: Mapping[str, object] = NOTHING,
        confidence: float = SEEN,
        generation: int | None = None,
    ) -> None:
        """Add an event. Rounds do not overlap, so 1 serves as the number of each."""
        generation = self.now.generation if generation is None else generation
        number = int(self.is_in_round)
        told = inferred(self.record, type_, at_ms, fields, generation, number)
        self.items.append(told if confidence == SEEN else told._replace(confidence=confidence))

    def member(self, type_: str, member: RecordedMember, at_ms: int, **more: object) -> None:
        """Add an event about a member with its present timeouts."""
        timeouts = {
            "session_timeout_ms": member.session_ms,
            "rebalance_timeout_ms": member.rebalance_ms,
        }
        self.tell(type_, at_ms, {"who": member.who, **timeouts, **more})

    def superseded(self, cause: InferredCause, aborted: int, end_ms: int) -> None:
        """Add `aborted` rounds without assignments, which ended by the end of the join phase."""
        code = cause.code if not cause.more else UNKNOWN
        for number in range(self.now.generation - aborted, self.now.generation):
            self.tell("rebalance_started", end_ms, {"cause": {"code": code}}, SEEN, number - 1)
            self.tell("rebalance_joined", end_ms, NOTHING, SEEN, number)
            why = {"why": "superseded"}
            self.tell("rebalance_abandoned", end_ms, why, CONFIDENCE[code], number)

    def started(
        self,
        cause: InferredCause,
        from_state: str | None,
        end_ms: int,
        seen: SeenStart = UNSEEN,
        *,
        is_reloaded: bool = False,
    ) -> None:
        """Add the start of a round whose join phase ended at `end_ms`; its own time is unknown, but
        for what was `seen`. `is_reloaded`: another coordinator has loaded the group since the
        record before.
        """
        owned = self.now.is_told
        evidence = {"owned": owned, RELOADED: is_reloaded, STOPPED_FIRST: cause.stopped_first}
        first = {
            "code": cause.code,
            "likely": cause.likely,
            "who": cause.by and cause.by.who,
            "evidence": {name: True for name, is_so in evidence.items() if is_so},
        }
        at = SEEN, self.now.generation - 1
        known = {} if from_state is None else {"from_state": from_state}
        self.tell("rebalance_started", end_ms, {"cause": first, **known, **seen.fields}, *at)
        for code in cause.more:
            self.tell("rebalance_cause_added", end_ms, {"cause": {"code": code}}, *at)

    def changes(
        self,
        changes: Changes,
        cause: InferredCause,
        setting: CauseEvidence,
        before: Mapping[str, RecordedMember],
    ) -> None:
        """Add the members that left, joined, or changed."""
        end_ms = setting.end_ms
        for old in changes.gone:
            departure = cause.departures[old.member]
            code, until_ms = departure.code, departure.until_ms
            last_ms = setting.of(old).last_ms
            evidence = {} if last_ms is None else {"silent_ms": until_ms - last_ms}
            about = {"code": code, "likely": departure.likely, "evidence": evidence}
            fields = {"who": old.who, "cause": about}
            self.tell("member_removed", until_ms, fields, CONFIDENCE[code])
        for old, new in changes.replaced:
            last_ms = setting.of(old).last_ms
            away_ms = None if last_ms is None else max(0, end_ms - last_ms)
            how = {"old_member": old.member, "quick": not self.is_in_round}
            how |= {} if away_ms is None else {"away_ms": away_ms}
            self.member("member_replaced", new, end_ms, **how)
        for new in changes.joined:
            kind = "dynamic" if new.instance is None else "static"
            self.member("member_joined", new, end_ms, kind=kind)
        for key, each in self.now.members.items():
            if key in before and each.client != before[key].client:
                self.member("member_rejoined", each, end_ms)

    def completed(self, end_ms: int, moved: int | None, sure: float) -> None:
        """Add the end of the join phase at `end_ms`, and the assignments stored with the record."""
        now, time_ms = self.now, self.record.time_ms
        joined = [{"member": key, "instance": each.instance} for key, each in now.members.items()]
        known = {"leader": now.leader, "protocol": now.protocol}
        fields: dict[str, object] = {name: each for name, each in known.items() if each is not None}
        self.tell("rebalance_joined", end_ms, fields | {"joined": joined, "missing": []})
        fields = {"moved": moved}
        if instant(time_ms) is not None:  # else the start of ownership is unknown
            shares = now.assigned.items()
            plan = [{"member": key, "partitions": share} for key, share in shares if share]
            fields |= {"assignment": plan, "leader_ms": max(0, time_ms - end_ms)}
            if any(share is None for share in now.assigned.values()):
                fields[SHORTENED] = {"assignment": len(shares)}
        self.tell("rebalance_completed", time_ms, fields, sure)

    def emptied(self, sure: float) -> None:
        """Add the end of a round that left the group without members."""
        if self.is_in_round:
            self.tell("rebalance_abandoned", self.record.time_ms, {"why": "emptied"}, sure)
        self.tell("group_emptied", self.record.time_ms)
