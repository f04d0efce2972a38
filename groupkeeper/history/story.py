"""Turns the records of one classic group, and the commits between them, into events: what its
coordinator did, as far as two neighbouring records say so.

A record tells the end of a join phase and the plan behind it. When members came or went follows
from their commits (`history.inference`); when the join phase began is not told.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from groupkeeper.history import inference
from groupkeeper.history.inference import (
    CONFIDENCE,
    UNKNOWN,
    CauseEvidence,
    Changes,
    Evidence,
    InferredCause,
)
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
"""A generation that rises by more than this is not taken for so many rounds."""
REGULAR: Final = 3
"""From so many commits on, the longest time between two of them says how regular they are."""
NEW, KNOWN, LOST = "new", "known", "lost"
NOTHING: Final[Mapping[str, object]] = {}


class Gap(NamedTuple):
    """The end of all that was known of a group, at the record with this offset: the group is gone,
    or what was before is not related. `at_ms` is -1 if the time is not known. Owners are known
    until `owned_ms`.
    """

    offset: int
    at_ms: int
    owned_ms: int

    @classmethod
    def at(cls, record: GroupRecord, known_ms: int = 0) -> Self:
        """With this record; `known_ms` is the time of the last one before it."""
        if instant(record.time_ms) is None:
            return cls(record.offset, -1, known_ms)
        return cls(record.offset, record.time_ms, record.time_ms)


StoryItem = Told | Gap


# -- commits ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Commits:
    """Commits for one partition since its member owns it."""

    member: str
    commits: int = 0
    last_ms: int | None = None
    longest_ms: int = 0
    behind: int = -1
    """The group's record before the last commit: a pause around a rebalance is no gap."""

    def add(self, run: CommitRun, behind: int, is_whole: bool) -> None:
        """More of them, behind this record of the group. How regular they are counts only where no
        commit is missing.
        """
        if is_whole:
            gap = 0
            if self.last_ms is not None and self.behind == behind:
                gap = run.first_ms - self.last_ms
            self.longest_ms = max(self.longest_ms, run.longest_ms, gap)
            self.commits += run.commits
            self.behind = behind
        self.last_ms = max(self.last_ms or 0, run.last_ms)


def _evidence(held: Mapping[OwnedPartition, Commits]) -> dict[str, Evidence]:
    """Of each member that owns something."""
    found: dict[str, Evidence] = {}
    for each in held.values():
        last, longest = found.get(each.member, (None, None))
        if each.last_ms is not None and (last is None or each.last_ms > last):
            last = each.last_ms
        if each.commits >= REGULAR and (longest is None or each.longest_ms < longest):
            longest = each.longest_ms
        found[each.member] = Evidence(last, longest)
    return found


@dataclass(slots=True)
class Story:
    """`before` is the last record with a value: members, without what they subscribe to. None with
    `since` NEW for a group that did not exist, with LOST for one of which that is not known.
    `since` CONVERTED: the last record made a classic group of a newer one.
    """

    since: str
    before: Generation | None = None
    offset: int = -1
    time_ms: int = 0
    epoch: int | None = None
    is_withheld: bool = False
    """The last record took partitions from members, and gave them to none."""
    held: dict[OwnedPartition, Commits] = field(default_factory=dict)

    @classmethod
    def begin(cls, record: GroupRecord, known: KnownOffsets) -> Self:
        """A group that has no record before this one."""
        is_new = record.offset >= known.from_offset and not known.lost_until
        return cls(NEW if is_new else LOST)

    def commit(self, run: CommitRun, is_whole: bool) -> None:
        """Commits since the group's last record."""
        if instant(run.first_ms) is None or instant(run.last_ms) is None:
            return
        commits = self.held.get((run.topic, run.partition))
        if commits is not None:
            commits.add(run, self.offset, is_whole)

    def end(self, record: GroupRecord, is_known: bool) -> list[StoryItem]:
        """The group is gone, or what becomes of it is not known."""
        self.before, self.since, self.held = None, NEW if is_known else LOST, {}
        return [Gap.at(record, self.time_ms)]

    def take(self, record: GroupRecord, now: Generation) -> None:
        """A record with a value, which is remembered without its subscriptions."""
        self.before, self.since = now, KNOWN
        now.subscriptions, now.assigned = [], {}
        self.offset, self.time_ms = record.offset, record.time_ms
        self.epoch = record.leader_epoch

    def add(
        self, record: GroupRecord, now: Generation, kind: str, known: KnownOffsets
    ) -> list[StoryItem]:
        """A record with a value: what it says, and as `take`."""
        telling = Telling(record, now)
        changes = inference.compare(self._members, now.members)
        is_cut = self.since == LOST or self._is_cut_off(record, known) or kind == CONVERTED
        is_cut |= instant(record.time_ms) is None or instant(self.time_ms) is None
        fits = kind != RESET and unwritten(self.before, now) <= MOST_ABORTED
        is_round = self.before is None or now.generation > self.before.generation
        is_odd = not is_round and bool(changes.gone or changes.joined)  # no coordinator writes that
        if is_cut or is_odd or not fits:
            is_round = kind in (REBALANCE, RESET) and bool(now.members) and not is_odd
            self._start_over(telling, is_round)
        else:
            self._go_on(telling, changes, is_round)
        self.take(record, now)
        if kind == CONVERTED:
            self.since = CONVERTED
        return telling.items

    # -- what a record says ----------------------------------------------------------------------

    def _start_over(self, telling: "Telling", is_round: bool) -> None:
        """Take a record as it is, since what was before it is not known."""
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

    def _go_on(self, telling: "Telling", changes: Changes, is_round: bool) -> None:
        """Compare with the record before, or with no group."""
        record, now, before = telling.record, telling.now, self.before
        end_ms = record.time_ms
        if is_round and now.state_ms is not None:
            end_ms = min(end_ms, now.state_ms)
        setting = inference.CauseEvidence(
            end_ms,
            _evidence(self.held),
            reloaded=self.epoch != record.leader_epoch,
            withheld=self.is_withheld,
            converted=self.since == CONVERTED,
            began_ms=self.time_ms,
        )
        aborted = unwritten(before, now)
        if before is None:
            telling.is_in_round = False
            telling.tell("group_created", end_ms)
            aborted = min(max(0, now.generation - 1), MOST_ABORTED)
        cause = InferredCause(UNKNOWN)
        if is_round:
            cause = inference.explain(before, now, changes, setting, aborted)
        for key, each in now.members.items():
            old = self._members.get(key)
            is_heard = is_round or old is None
            each.heard_ms = end_ms if is_heard or old is None else old.heard_ms
        telling.is_in_round = is_round and bool(now.generation > 0 or now.members)
        if telling.is_in_round:
            telling.superseded(cause, aborted, end_ms)
            was = "Stable" if self._members else "Empty"
            telling.started(cause, "CompletingRebalance" if aborted else was, end_ms)
        telling.changes(changes, cause, setting, self._members)
        moved = self._own(now, {old.member: new.member for old, new in changes.replaced})
        if now.members and is_round:
            sure = CONFIDENCE[cause.code]
            telling.completed(end_ms, moved if self._members else None, sure)
        elif is_round:
            telling.emptied(CONFIDENCE[cause.code])

    def _own(self, now: Generation, renamed: Mapping[str, str]) -> int:
        """Take over who owns what. Returns how many partitions have another owner than before.
        `renamed`: old member id of a static member that came back -> its new one.
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

    @property
    def _members(self) -> dict[str, RecordedMember]:
        """Of the last record."""
        return {} if self.before is None else self.before.members

    def _is_cut_off(self, record: GroupRecord, known: KnownOffsets) -> bool:
        """Whether records were lost since the last one."""
        lost = known.lost_until
        return bisect_right(lost, self.offset) != bisect_right(lost, record.offset)


def inferred(
    record: GroupRecord, type_: str, at_ms: int, fields: Mapping[str, object], generation: int = 0
) -> Told:
    """An event that a record tells."""
    about = record.offset, record.group, type_, generation, "", 0, fields
    return Told(record.offset, Event(0, 0, -1, at_ms, *about), LOG, SEEN)


class Telling:
    """The events of one record, in order."""

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
        """Add one; rounds of one group follow each other, and need no number."""
        generation = self.now.generation if generation is None else generation
        told = inferred(self.record, type_, at_ms, fields, generation)
        event = told.event._replace(round=int(self.is_in_round))
        self.items.append(told._replace(event=event, confidence=confidence))

    def member(self, type_: str, member: RecordedMember, at_ms: int, **more: object) -> None:
        """A member came, or is told as it is now."""
        timeouts = {
            "session_timeout_ms": member.session_ms,
            "rebalance_timeout_ms": member.rebalance_ms,
        }
        self.tell(type_, at_ms, {"who": member.who, **timeouts, **more})

    def superseded(self, cause: InferredCause, aborted: int, end_ms: int) -> None:
        """So many rounds ended without assignments, at the latest with the last join phase."""
        code = cause.code if not cause.more else UNKNOWN
        for number in range(self.now.generation - aborted, self.now.generation):
            self.tell("rebalance_started", end_ms, {"cause": {"code": code}}, SEEN, number - 1)
            self.tell("rebalance_joined", end_ms, NOTHING, SEEN, number)
            why = {"why": "superseded"}
            self.tell("rebalance_abandoned", end_ms, why, CONFIDENCE[code], number)

    def started(self, cause: InferredCause, from_state: str | None, end_ms: int) -> None:
        """A round with this cause, whose join phase ended then."""
        first = {
            "code": cause.code,
            "likely": cause.likely,
            "who": cause.by and cause.by.who,
            "evidence": {"owned": True} if self.now.is_told else {},
        }
        at = SEEN, self.now.generation - 1
        self.tell("rebalance_started", end_ms, {"cause": first, "from_state": from_state}, *at)
        for code in cause.more:
            self.tell("rebalance_cause_added", end_ms, {"cause": {"code": code}}, *at)

    def changes(
        self,
        changes: Changes,
        cause: InferredCause,
        setting: CauseEvidence,
        before: Mapping[str, RecordedMember],
    ) -> None:
        """Members that went, came, or changed."""
        end_ms = setting.end_ms
        for old in changes.gone:
            code, until_ms, likely = cause.departures[old.member]
            last_ms = setting.of(old).last_ms
            evidence = {} if last_ms is None else {"silent_ms": until_ms - last_ms}
            about = {"code": code, "likely": likely, "evidence": evidence}
            fields = {"who": old.who, "cause": about}
            self.tell("member_removed", until_ms, fields, CONFIDENCE[code])
        for old, new in changes.replaced:
            last_ms = setting.of(old).last_ms
            away_ms = None if last_ms is None else max(0, end_ms - last_ms)
            how = {"old_member": old.member, "away_ms": away_ms, "quick": not self.is_in_round}
            self.member("member_replaced", new, end_ms, **how)
        for new in changes.joined:
            kind = "dynamic" if new.instance is None else "static"
            self.member("member_joined", new, end_ms, kind=kind)
        for key, each in self.now.members.items():
            if key in before and each.client != before[key].client:
                self.member("member_rejoined", each, end_ms)

    def completed(self, end_ms: int, moved: int | None, sure: float) -> None:
        """The join phase ended then, and the plan was stored with the record."""
        now, time_ms = self.now, self.record.time_ms
        joined = [{"member": key, "instance": each.instance} for key, each in now.members.items()]
        fields: dict[str, object] = {"leader": now.leader, "protocol": now.protocol}
        self.tell("rebalance_joined", end_ms, fields | {"joined": joined, "missing": []})
        fields = {"moved": moved}
        if instant(time_ms) is not None:  # else nobody knows since when
            shares = now.assigned.items()
            plan = [{"member": key, "partitions": share} for key, share in shares if share]
            fields |= {"assignment": plan, "leader_ms": max(0, time_ms - end_ms)}
            if any(share is None for share in now.assigned.values()):
                fields[SHORTENED] = {"assignment": len(shares)}
        self.tell("rebalance_completed", time_ms, fields, sure)

    def emptied(self, sure: float) -> None:
        """No member is left, or none was there."""
        if self.is_in_round:
            self.tell("rebalance_abandoned", self.record.time_ms, {"why": "emptied"}, sure)
        self.tell("group_emptied", self.record.time_ms)
