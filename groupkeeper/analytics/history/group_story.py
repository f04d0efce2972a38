"""One classic group from record to record: its generation, members, and what they own."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from groupkeeper.analytics.history import inference
from groupkeeper.analytics.history.feed import Record
from groupkeeper.analytics.history.generations import Generation, Member, instant
from groupkeeper.analytics.history.holdings import (
    Holding,
    Holdings,
    Interval,
    Moved,
    Place,
)
from groupkeeper.analytics.history.inference import CONFIDENCE, UNKNOWN, Cause, Changes
from groupkeeper.analytics.history.returns import Returns, away_ms
from groupkeeper.analytics.history.story_rows import (
    SEEN,
    Round,
    kind_of,
    write_interval,
    write_members,
    write_session,
)
from groupkeeper.analytics.history.writer import Known, Writer

MOST_ABORTED: Final = 1000
"""A generation that rises by more than this is not taken for so many rounds."""
NEW, KNOWN, LOST = "new", "known", "lost"


@dataclass(slots=True)
class GroupStory:
    """`before` is the last record with a value: members, without what they subscribe to. None with
    `since` NEW for a group that did not exist, with LOST for one of which that is not known.
    """

    since: str
    before: Generation | None = None
    offset: int = -1
    time_ms: int = 0
    epoch: int | None = None
    holdings: Holdings = field(default_factory=Holdings)
    returns: Returns = field(default_factory=Returns)

    @classmethod
    def begin(cls, record: Record, known: Known) -> Self:
        """A group that has no record before this one."""
        is_new = record.offset >= known.from_offset and not known.lost_until
        return cls(NEW if is_new else LOST)

    # -- records ---------------------------------------------------------------------------------

    def add(self, record: Record, now: Generation, converted: bool, out: Writer) -> None:
        """A record with a value."""
        before = self.before
        kind = "converted" if converted else kind_of(before, now)
        aborted = 0 if before is None else max(0, now.generation - before.generation - 1)
        out.add(
            "snapshots",
            group=record.group,
            offset=record.offset,
            time=instant(record.time_ms),
            kind=kind,
            generation=now.generation,
            unwritten=aborted,
            protocol_type=now.protocol_type,
            protocol=now.protocol,
            leader=now.leader,
            state_time=now.state_ms,
            members=len(now.members),
        )
        write_members(record, now, out)
        unrelated = self.since == LOST or self._is_cut_off(record, out.known)
        unrelated |= instant(record.time_ms) is None or instant(self.time_ms) is None
        fits = aborted <= MOST_ABORTED and kind != "reset"
        if converted or unrelated or not fits:
            self._start_over(record, now, kind, out)
        else:
            self._compare(record, now, aborted, out)
        self.before, self.since = now, KNOWN
        now.subscriptions, now.assigned = [], {}
        self.offset, self.time_ms = record.offset, record.time_ms
        self.epoch = record.leader_epoch

    def end(self, record: Record, converted: bool, out: Writer) -> None:
        """A tombstone: the group was deleted, or goes on in another protocol."""
        kind = "converted" if converted else "deleted"
        self._note(record, kind, out, unwritten=0)
        self._close_all(record, out)
        self.before, self.since = None, LOST if converted else NEW

    def unreadable(self, record: Record, out: Writer) -> None:
        """A record whose value cannot be read: nothing is known until the next one."""
        self._note(record, "unreadable", out, unwritten=0)
        self._close_all(record, out)
        self.before, self.since = None, LOST

    def open(self, name: str, out: Writer) -> None:
        """What is not over yet."""
        members = self._members
        for place, holding in self.holdings.held.items():
            write_interval(name, Interval(place, holding, None), members, SEEN, out)
        for each in members.values():
            write_session(name, self.offset, each, None, out)

    # -- what a record says ----------------------------------------------------------------------

    def _compare(self, record: Record, now: Generation, aborted: int, out: Writer) -> None:
        """With the record before, or with no group."""
        before = self.before
        changes = inference.compare(self._members, now.members)
        time_ms = record.time_ms
        is_round = before is None or now.generation > before.generation
        if not is_round and (changes.gone or changes.joined):  # no coordinator writes that
            self._start_over(record, now, "", out)
            return
        end_ms = time_ms
        if is_round and now.state_ms is not None and now.state_ms <= time_ms:
            end_ms = now.state_ms
        setting = inference.Setting(
            end_ms,
            self.holdings.evidence(),
            reloaded=self.epoch != record.leader_epoch,
            withheld=self.holdings.withheld(self.offset),
            began_ms=self.time_ms,
        )
        if before is None:
            aborted = min(max(0, now.generation - 1), MOST_ABORTED)
        cause = Cause(UNKNOWN)
        if is_round:
            cause = inference.explain(before, now, changes, setting, aborted)
        self._sessions(record, now, changes, cause, setting, out)
        moved = self._own(record, now, changes, cause, end_ms, out)
        if is_round and (now.generation > 0 or now.members):
            Round(record, now, changes, cause, end_ms, moved).write(before, aborted, out)

    def _start_over(self, record: Record, now: Generation, kind: str, out: Writer) -> None:
        """Take a record as it is, since what was before it is not known."""
        self._close_all(record, out)
        moved = self._own(record, now, Changes(), Cause(UNKNOWN), record.time_ms, out)
        if kind in ("rebalance", "reset") and now.members:
            round_ = Round(record, now, None, Cause(UNKNOWN), record.time_ms, moved)
            round_.write(None, 0, out)

    def _own(
        self,
        record: Record,
        now: Generation,
        changes: Changes,
        cause: Cause,
        end_ms: int,
        out: Writer,
    ) -> Moved:
        owners: dict[Place, str] = {
            (topic, partition): member
            for member, share in now.assigned.items()
            for topic, partitions in (share or {}).items()
            for partition in partitions
        }
        members = self._members
        at = Holding(None, record.time_ms, now.generation, record.offset)
        ends = {key: each.until_ms for key, each in cause.departures.items()}
        renamed = {
            old.member: new.member
            for old, new in changes.replaced
            if old.member not in cause.departures
        }
        moved = self.holdings.assign(owners, at, ends, end_ms, renamed)
        for interval in moved.ended:
            departure = cause.departures.get(interval.holding.member or "")
            sure = SEEN if departure is None else CONFIDENCE[departure.code]
            write_interval(record.group, interval, members, sure, out)
        return moved

    def _sessions(
        self,
        record: Record,
        now: Generation,
        changes: Changes,
        cause: Cause,
        setting: inference.Setting,
        out: Writer,
    ) -> None:
        members = self._members
        for key, each in now.members.items():
            old = members.get(key)
            each.heard_ms = setting.end_ms
            if old is not None:
                each.from_ms, each.began_as = old.from_ms, old.began_as
                each.old_member, each.away_ms = old.old_member, old.away_ms
                if now.generation == (self.before and self.before.generation):
                    each.heard_ms = old.heard_ms
        joined, gone = [*changes.joined], [*changes.gone]
        for old, each in changes.replaced:
            if old.member in cause.departures:
                joined.append(each)
                gone.append(old)
                continue
            each.began_as, each.old_member = "replaced", old.member
            each.from_ms = setting.end_ms
            each.away_ms = away_ms(setting.of(old).last_ms, setting.end_ms)
            end = inference.Departure("replaced", setting.end_ms)
            write_session(record.group, record.offset, old, end, out)
        for each in gone:
            departure = cause.departures[each.member]
            self.returns.lose(each, setting.end_ms, setting.of(each).last_ms)
            write_session(record.group, record.offset, each, departure, out)
        for each in joined:
            each.from_ms = setting.end_ms
            each.began_as = "dynamic" if each.instance is None else "static"
        self.returns.find(joined, setting.end_ms)

    @property
    def _members(self) -> dict[str, Member]:
        """Of the last record."""
        return {} if self.before is None else self.before.members

    # -- what ends without a comparison ----------------------------------------------------------

    def _is_cut_off(self, record: Record, known: Known) -> bool:
        """Whether records were lost since the last one."""
        lost = known.lost_until
        return bisect_right(lost, self.offset) != bisect_right(lost, record.offset)

    def _close_all(self, record: Record, out: Writer) -> None:
        """All that is open ends with this record, and why is not known. If its time is not known
        either, owners are known until the record before.
        """
        members = self._members
        time_ms = record.time_ms if instant(record.time_ms) is not None else self.time_ms
        for place, holding in self.holdings.held.items():
            sure = SEEN if holding.member is None else CONFIDENCE[UNKNOWN]
            write_interval(record.group, Interval(place, holding, time_ms), members, sure, out)
        for each in members.values():
            end = inference.Departure(UNKNOWN, record.time_ms)
            write_session(record.group, record.offset, each, end, out)
        self.holdings, self.returns = Holdings(), Returns()

    def _note(self, record: Record, kind: str, out: Writer, **more: object) -> None:
        out.add(
            "snapshots",
            group=record.group,
            offset=record.offset,
            time=instant(record.time_ms),
            kind=kind,
            **more,
        )

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "since": self.since,
            "before": self.before and asdict(self.before),
            "offset": self.offset,
            "time_ms": self.time_ms,
            "epoch": self.epoch,
            "held": [[*place, *_values(each)] for place, each in self.holdings.held.items()],
            "returns": self.returns.lost,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """As it was."""
        before = state["before"]
        if before is not None:
            members = {
                key: Member(**{**each, "topics": each["topics"] and tuple(each["topics"])})
                for key, each in before["members"].items()
            }
            before = Generation(**{**before, "members": members})
        held = {(topic, partition): Holding(*rest) for topic, partition, *rest in state["held"]}
        returns = {key: [tuple(gone) for gone in each] for key, each in state["returns"].items()}
        return cls(
            state["since"],
            before,
            state["offset"],
            state["time_ms"],
            state["epoch"],
            Holdings(held),
            Returns(returns),
        )


def _values(holding: Holding) -> tuple[Any, ...]:
    return (
        *(holding.member, holding.from_ms, holding.generation, holding.offset),
        *(holding.commits, holding.last_ms, holding.longest_ms, holding.behind),
    )
