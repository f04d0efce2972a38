"""The history of one group: from its events and, before the first event, from its records.

    history = GroupHistory("billing", RowWriter(partition, known), names)
    for each in ...:                # in the order of each log, events before later records
        history.add(each)           # Told from `sound`, GroupRecord, CommitRun
    finished = history.take()       # rows that never change again
    under_way = history.open()      # rows that later calls replace
    history = GroupHistory.restore(history.state(), RowWriter(partition, known), names)

Both sources use the same fold, `GroupFold`: records are first turned into events. Events of the
partition, which name no group, apply to all of its groups.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from groupkeeper.history.fields import checked, with_fields
from groupkeeper.history.fold import GroupFold
from groupkeeper.history.newer import NewerItem, NewerStory, OwnedNow
from groupkeeper.history.newer_topics import NO_NAMES, Names
from groupkeeper.history.records import (
    CONVERTED,
    DELETED,
    GROUP_KEY_TYPE,
    OF_GROUPS,
    UNREADABLE,
    CommitRun,
    GroupRecord,
    read_record,
    unwritten,
    with_conversions,
    write_configs,
    write_members,
)
from groupkeeper.history.rounds import LOADS
from groupkeeper.history.rows import (
    BY_BOTH,
    EVENTS,
    LOG,
    REFUSALS,
    Row,
    Rows,
    RowSource,
    RowWriter,
    Told,
    instant,
    out_of_range,
    refusal_row,
)
from groupkeeper.history.sessions import OPEN_MOST, begun
from groupkeeper.history.state import restore, saved
from groupkeeper.history.story import Gap, Story, StoryItem
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.records.consumer_offsets import GROUP_CONFIGS_TYPE
from groupkeeper.protocol.records.modern_groups import decode_modern_key

_EPOCH_BYTES: Final = slice(2, 6)
_BEGINS: Final = frozenset(
    {
        *("group_created", "group_emptied", "member_joined", "member_rejoined", "member_replaced"),
        *("member_removed", "rebalance_started", "rebalance_cause_added", "rebalance_joined"),
        *("rebalance_completed", "rebalance_abandoned", "commits"),
    }
)
"""Types of events about members. A history of events begins with one of these."""


class GroupHistory:
    """Turns the events, records and commits of one group into rows in `out`, which groups may
    share.

    Rows before the first event are inferred from records; later ones come from events. Old events
    are deleted, so the first event may concern members that joined long before. Their sessions
    begin as inferred from records, and owners are inferred up to the first assignments in an event.
    """

    __slots__ = (
        *("_batch", "_ended", "_epoch", "_events", "_infers", "_log", "_names", "_newer"),
        *("_newer_log", "_out", "_planned_ms", "_source", "_story", "_unbegun", "first_ms"),
        "group",
    )

    first_ms: int | None
    """Time of the first event; None if there is none."""
    _planned_ms: int | None
    """Time of the first assignments in an event."""
    _unbegun: dict[str, Row]
    """Member -> its ended session without a known beginning, which records may supply."""
    _epoch: int | None
    """Leader epoch of the last event."""
    _source: str
    """Source of the events: `log` for those that an observer stored."""
    _events: GroupFold | None
    _log: GroupFold | None
    _infers: bool
    """False if the first record comes after the first event."""
    _story: Story | None
    _newer: NewerStory | None
    _newer_log: GroupFold | None

    def __init__(self, group: str, out: RowWriter, names: Names = NO_NAMES) -> None:
        """`names`: topic id -> name, for consumer and share groups."""
        self.group, self._out, self._names = group, out, names
        self.first_ms = self._planned_ms = self._epoch = None
        self._unbegun, self._source = {}, EVENTS
        self._ended: list[Row] = []
        """Sessions that the current event has ended."""
        self._events = self._log = self._story = self._newer = self._newer_log = None
        self._infers = True
        self._batch: list[GroupRecord] = []
        """Group records of the current batch: a converted group writes several in one batch."""

    def add(self, fed: Told | GroupRecord | CommitRun) -> None:
        """Add the next input. Events come from `sound`, and are of the group or of no group."""
        if isinstance(fed, GroupRecord):
            if self._batch and self._batch[0].batch != fed.batch:
                self.flush()
            self._batch.append(fed)
            return
        if self._batch:
            self.flush()
        if isinstance(fed, Told):
            self._event(fed)
        elif self._story is not None and self._infers:
            self._story.commit(fed, fed.first_offset >= self._out.known.from_offset)

    def goes_on(self, event: Event, member: str) -> bool:
        """Return whether a `commits` only confirms a known member, from the same coordinator."""
        fold = self._events
        return (
            fold is not None
            and self._epoch == event.epoch
            and fold.sessions.is_open(member, event.at_ms)
        )

    @property
    def is_told(self) -> bool:
        """Whether the history currently follows events."""
        return self._events is not None

    def take(self) -> Rows:
        """Return the rows finished since the last call."""
        self.flush()
        return self._out.take()

    def open(self, more: RowWriter | None = None) -> Rows:
        """Return the unfinished rows, with those of `more`. Later calls return updated versions."""
        self.flush()
        more = more or RowWriter(self._out.partition, self._out.known)
        if self._log is not None:
            self._log.open(more.inferred)
        if self._newer_log is not None:
            self._newer_log.open(more.inferred)
        earlier = {row["member"]: row for row in self._take_up(more)}
        told: Rows = {name: [] for name in BY_BOTH}
        if self._events is not None:
            self._events.open(told)
        told["sessions"] += self._unbegun.values()
        for row in told["sessions"]:
            known = None if row["from"] is not None else earlier.pop(row["member"], None)
            more.rows["sessions"].append(row if known is None else begun(row, known))
        more.rows["sessions"] += earlier.values()
        for name in "rounds", "ownership":
            more.rows[name] += told[name]
        return more.rows

    # -- events ----------------------------------------------------------------------------------

    def _event(self, told: Told) -> None:
        event, offset = told.event, told.offset
        if event.group is not None and self.first_ms is None:
            self.first_ms = event.at_ms
        if event.type in REFUSALS:
            self._out.rows["refusals"].append(refusal_row(self._out.partition, offset, event))
        before, self._epoch = self._epoch, event.epoch
        fold = self._events
        if fold is None:
            if event.group is None or not _tells_of_members(event):
                return
            self._source = told.source
            fold = self._events = self._new_fold()
        elif event.type == "coordinator_loaded" or before not in (None, event.epoch):
            fold.taken_over(event.at_ms, offset)
        if event.group is None:
            fold.coordinated(told)
        elif event.type == "group_deleted":
            fold.end(Gap(offset, event.at_ms, event.at_ms))
            self._events = None
        else:
            fold.add(told)
            if self._planned_ms is None and event.type in ("rebalance_completed", "group_emptied"):
                self._planned_ms = event.at_ms
        if self._ended:
            self._keep_ended()

    def _new_fold(self) -> GroupFold:
        return GroupFold(self._about(self._source), {**self._out.rows, "sessions": self._ended})

    def _keep_ended(self) -> None:
        for row in self._ended:
            if row["from"] is None and len(self._unbegun) < OPEN_MOST:
                self._unbegun[row["member"]] = row
            else:
                self._out.rows["sessions"].append(row)
        self._ended.clear()

    def let_go(self) -> None:
        """Finish all rows from events in their present state."""
        if self._events is not None:
            self._events.open(self._out.rows)
        self._events = None

    # -- records ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Process the records of the last batch, which is complete."""
        batch = self._batch
        if not batch:
            return
        self._batch = []
        for record, converted in with_conversions(batch):
            if record.key_type == GROUP_CONFIGS_TYPE:
                write_configs(record, self._out)
            elif record.key_type == GROUP_KEY_TYPE:
                self._group_record(record, converted)
            elif record.key_type in OF_GROUPS:
                self._epoch_record(record, converted)
            else:
                self._member(record)
        if self._newer is not None:
            self._follow(self._newer.settle())
        for row in self._take_up(self._out):
            ended = self._unbegun.pop(row["member"], None)
            if ended is not None:
                self._out.rows["sessions"].append(begun(ended, row))
            elif self._events is None or not self._events.sessions.follow(row):
                self._out.rows["sessions"].append(row)

    def _take_up(self, out: RowWriter) -> list[Row]:
        """Keep the inferred rows of the time before the first event. Returns the sessions that were
        open at that event.
        """
        inferred, rows, first_ms = out.inferred, out.rows, self.first_ms
        under_way: list[Row] = []
        if first_ms is None:
            for name in BY_BOTH:
                rows[name] += inferred[name]
        else:
            rows["rounds"] += [each for each in inferred["rounds"] if _is(each["ended"], first_ms)]
            for each in inferred["sessions"]:
                if _is(each["from"], first_ms):
                    is_over = _is(each["until"], first_ms)
                    (rows["sessions"] if is_over else under_way).append(each)
            rows["ownership"] += _up_to(inferred["ownership"], self._planned_ms)
        for name in BY_BOTH:
            inferred[name].clear()
        return under_way

    def _member(self, record: GroupRecord) -> None:
        """Add a member record of a consumer, share or streams group."""
        if self._newer is None:
            self._newer = NewerStory(self._names, None)
        try:
            key = decode_modern_key(record.key or b"")
            if key is not None:
                self._follow(self._newer.add(record, key, self._out))
        except DecodeError:
            self._snapshot(record, UNREADABLE)

    def _follow(self, items: list[NewerItem]) -> None:
        """Fold what records show of members and partitions; rounds of consumer groups are left out,
        as the tables have those of classic groups.
        """
        if self._newer_log is None:
            self._newer_log = GroupFold(self._about(LOG), self._out.inferred)
        for each in items:
            if isinstance(each, OwnedNow):
                self._newer_log.assigned(*each)
            elif each.event.type.startswith("member_"):
                self._newer_log.add(each._replace(event=each.event._replace(round=0)))

    def _epoch_record(self, record: GroupRecord, converted: bool) -> None:
        """Add the group record of a consumer, share or streams group."""
        kind = CONVERTED if converted else DELETED if record.value is None else "epoch"
        epoch = None
        if record.value is not None:
            epoch = int.from_bytes(record.value[_EPOCH_BYTES], "big", signed=True)
        elif self._newer is not None:
            if self._newer_log is not None:
                self._newer_log.end(Gap.at(record))
            self._newer = self._newer_log = None
        self._snapshot(record, kind, generation=epoch)

    def _group_record(self, record: GroupRecord, converted: bool) -> None:
        """Add the group record of a classic group."""
        story = self._story
        if story is None:
            story = self._story = Story()
            self._infers = self.first_ms is None or record.time_ms < self.first_ms
        kind, now = read_record(record, story.before, converted=converted)
        if now is None:
            self._snapshot(record, kind, unwritten=0)
            self._infer(story.end(record, is_known=kind == DELETED))
            return
        self._snapshot(
            record,
            kind,
            generation=now.generation,
            unwritten=unwritten(story.before, now),
            protocol_type=now.protocol_type,
            protocol=now.protocol,
            leader=now.leader,
            state_time=now.state_ms,
            members=len(now.members),
        )
        write_members(record, now, self._out)
        if self._infers:
            self._infer(story.add(record, now, kind, self._out.known))
        else:
            story.take(record, now)

    def _infer(self, items: list[StoryItem]) -> None:
        """Fold the events inferred from a record, unless stored events cover its time."""
        for each in items if self._infers else ():
            if isinstance(each, Gap):
                if self._log is not None:
                    self._log.end(each)
                self._log = None
                continue
            if self._log is None:
                self._log = GroupFold(self._about(LOG), self._out.inferred)
            self._log.add(each)

    def _snapshot(self, record: GroupRecord, kind: str, **more: object) -> None:
        time = instant(record.time_ms)
        about = {"group": self.group, "offset": record.offset, "time": time, "kind": kind}
        self._out.add("snapshots", **about, **more)

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object, without the rows that `take` would return."""
        self.flush()
        return {"group": self.group, **saved(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Any], out: RowWriter, names: Names = NO_NAMES) -> Self:
        """Restore a history from `state()`."""
        found = cls(state["group"], out, names)
        found._source = state["source"]
        if state["events"] is not None:
            found._events = found._new_fold()
        if state["log"] is not None:
            found._log = GroupFold(found._about(LOG), out.inferred)
        if state["newer"] is not None:
            found._newer = NewerStory(names, None)
        if state["newer_log"] is not None:
            found._newer_log = GroupFold(found._about(LOG), out.inferred)
        return restore(found, state)

    def _about(self, source: str) -> RowSource:
        return RowSource(self.group, self._out.partition, source)


def sound(told: Told) -> Told | None:
    """Return an event with checked fields; None if its type is unknown, a number is out of range,
    or it is of the partition and does not concern groups.
    """
    event = told.event
    if event.type not in TYPES or out_of_range(event) is not None:
        return None
    if event.group is None and event.type not in LOADS:
        return None
    return told._replace(event=with_fields(event, checked(event)[0]))


def _is(time: int | None, before_ms: int) -> bool:
    """Return whether a time is known and before another."""
    return time is not None and time < before_ms


def _up_to(owned: list[Row], end_ms: int | None) -> Iterator[Row]:
    """The rows of `ownership`, cut at `end_ms` if it is given."""
    for row in owned:
        since, until = row["from"], row["until"]
        if end_ms is None or _is(until, end_ms):
            yield row
        elif _is(since, end_ms):
            yield {**row, "until": end_ms, "duration_ms": end_ms - since}


def _tells_of_members(event: Event) -> bool:
    if event.type != "commits":
        return event.type in _BEGINS
    return bool((event.fields.get("who") or {}).get("member"))
