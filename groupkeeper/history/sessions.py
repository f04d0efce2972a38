"""The members of one group from their join to their end: the table `sessions`.

What is not read is unknown: a member that is named without its join has no beginning, and one that
the next rebalance does not name has ended in an unknown way. Who commits is a member, too, until
the members are known from a rebalance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.returns import Lost, Returns
from groupkeeper.history.rows import EVENTS, Row, RowSource, Told, member_columns, text
from groupkeeper.protocol.group_events import SHORTENED, Event

UNKNOWN: Final = "unknown"
LOST: Final = "lost"
LOADED: Final = "loaded"
REPLACED: Final = "replaced"
PENDING: Final = "pending_member_expired"
"""Cause of the end of an id that was never a member's."""
ENDED_MS: Final = 600_000
"""Commits are told a minute later: for so long it is remembered that their member has ended."""
ENDED_MOST: Final = 10_000
"""So many members are remembered that have ended."""
OPEN_MOST: Final = 20_000
"""So many members of a group are followed; more than that no coordinator takes."""


@dataclass(slots=True)
class Session:
    """A session that has not ended."""

    who: Part
    since_ms: int | None
    offset: int
    began_as: str
    old_member: str | None = None
    away_ms: int | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    is_stored: bool = False
    """The member is in the group's record: it survives the coordinator."""
    beats: int | None = None
    """Heartbeats as they were told last; they are counted from the join or the load."""
    beats_before: int = 0
    """Heartbeats before the last load."""
    longest_gap_ms: int | None = None
    earlier: Row | None = None
    """What records tell of it, from before the first event."""


@dataclass(slots=True, frozen=True)
class _End:
    """How a session ended."""

    by: str
    at_ms: int
    """Negative: it is not known."""
    offset: int
    confidence: float | None = None
    """None: that of the source."""
    likely: str | None = None
    reason: str | None = None
    silent_ms: int | None = None
    connection: str | None = None


class Sessions:
    """The sessions of one group, from events of one source. `rows` gets those that are over."""

    _open: dict[str, Session]
    _recorded: dict[str, Session]
    """Sessions that have ended since the group's record was stored: a load finds them in it."""
    _returns: Returns
    _ended: dict[str, int]
    _is_whole: bool
    """All members are known: the log has the group's beginning, or a list of them."""

    def __init__(self, about: RowSource, rows: list[Row]) -> None:
        self._rows = rows
        self._about = about.columns
        self._is_inferred = about.source != EVENTS
        self._open, self._recorded, self._ended = {}, {}, {}
        self._returns, self._is_whole = Returns(), False
        self._confidence = about.confidence
        """Of the event that is taken."""

    @property
    def people(self) -> dict[str, Part]:
        """The clients of all members that are known."""
        return {member: each.who for member, each in self._open.items()}

    def away_ms(self, member: str) -> int | None:
        """How long the client of a member was gone before it joined; None if it is new."""
        session = self._open.get(member)
        return None if session is None else session.away_ms

    def with_address(self, event: Event) -> Event:
        """With the address that a member's own requests had. Of one that has sent none since the
        coordinator was loaded, an event tells that in the group's record; there a static member
        that was replaced keeps the address of the first (as in Kafka).
        """
        fields = event.fields
        cause = fields.get("cause")
        if not cause:
            return event
        evidence = cause.get("evidence") or {}
        if evidence.get("connection", "") is not None:
            return event
        fields = {**fields, "cause": self._with_address(cause)}
        return event._replace(fields=self._with_address(fields))

    def _with_address(self, part: Part) -> Part:
        who = part.get("who") or {}
        member = who.get("member") or ""
        known = self._open.get(member) or self._recorded.get(member)
        host = known and known.who.get("host")
        return {**part, "who": {**who, "host": host}} if host else part

    # -- what happened ---------------------------------------------------------------------------

    def add(self, told: Told) -> None:
        """An event of the group, with checked fields."""
        take = _TAKES.get(told.event.type)
        if take is not None:
            self._confidence = told.confidence
            take(self, told.event, told.offset)

    def _created(self, event: Event, offset: int) -> None:
        self.all_ended(UNKNOWN, event.at_ms, offset)
        self._is_whole = True

    def _joined(self, event: Event, offset: int) -> None:
        fields = event.fields
        who, kind = fields.get("who") or {}, fields.get("kind")
        if not who.get("member"):
            return
        if kind not in ("dynamic", "static"):
            kind = "static" if who.get("instance") else "dynamic"
        self._begin(Session(who, event.at_ms, offset, kind), fields)

    def _replaced(self, event: Event, offset: int) -> None:
        fields = event.fields
        who, old = fields.get("who") or {}, fields.get("old_member")
        away_ms = number(fields, "away_ms")
        if not who.get("member") or not old:
            return
        known = self._open.get(old)
        if known is None:
            known = Session({**who, "member": old}, None, offset, UNKNOWN)
        self._tell(known, fields)
        connection = text((fields.get("evidence") or {}).get("old_connection"))
        about = self._confidence, fields.get("likely"), None, away_ms, connection
        self._end(old, known, _End(REPLACED, event.at_ms, offset, *about))
        new = Session(who, event.at_ms, offset, REPLACED, old, away_ms)
        new.session_timeout_ms = known.session_timeout_ms
        new.rebalance_timeout_ms = known.rebalance_timeout_ms
        self._begin(new, fields)
        if fields.get("quick"):
            self._stored()

    def _rejoined(self, event: Event, offset: int) -> None:
        known = self._heard(event.fields.get("who") or {}, event.at_ms, offset)
        if known is not None:
            _set_timeouts(known, event.fields)

    def _committed(self, event: Event, offset: int) -> None:
        known = self._heard(event.fields.get("who") or {}, event.at_ms, offset)
        if known is not None:
            self._tell(known, event.fields)

    def _removed(self, event: Event, offset: int) -> None:
        fields = event.fields
        who, cause = fields.get("who") or {}, fields.get("cause") or {}
        member, code = who.get("member"), cause.get("code") or UNKNOWN
        if not member or (code == PENDING and member not in self._open):
            return
        known = self._open.get(member) or Session(who, None, offset, UNKNOWN)
        known.who = who
        evidence = cause.get("evidence") or {}
        _set_timeouts(known, evidence)
        self._tell(known, fields)
        silent_ms = number(evidence, "silent_ms")
        connection = text(evidence.get("connection"))
        about = self._confidence, cause.get("likely"), cause.get("reason")
        self._end(member, known, _End(code, event.at_ms, offset, *about, silent_ms, connection))
        is_exact = silent_ms is not None or not self._is_inferred
        heard_ms = event.at_ms - (silent_ms or 0)
        self._returns.lose(who, Lost(heard_ms, connection, known.session_timeout_ms, is_exact))

    def _listed(self, event: Event, offset: int) -> None:
        """The join phase ended: these are the members."""
        fields = event.fields
        joined, missing = fields.get("joined"), fields.get("missing")
        if joined is None or missing is None:
            return
        began = event.at_ms - (number(fields, "duration_ms") or 0)
        instances = {each.who.get("instance"): name for name, each in self._open.items()}
        for each in joined:
            if each["member"] not in self._open:
                since = began + max(0, number(each, "after_ms") or 0)
                self._untold(each, since if self._is_whole else None, instances, offset)
        stay = [each for each in missing if each.get("removed") is False]
        for each in stay:
            if each["member"] not in self._open:
                self._untold(each, None, instances, offset)
        cut = fields.get(SHORTENED) or {}
        if "joined" not in cut and "missing" not in cut:
            names = {each["member"] for each in (*joined, *stay)}
            gone = [(name, each) for name, each in self._open.items() if name not in names]
            for name, session in gone:
                self._end(name, session, _End(UNKNOWN, event.at_ms, offset))
            self._is_whole = True

    def _untold(
        self, item: Part, since: int | None, instances: Mapping[str | None, str], offset: int
    ) -> None:
        """A member whose join was not stored, or not read."""
        who = {"member": item["member"], "instance": item.get("instance")}
        kind = UNKNOWN
        old = instances.get(who["instance"]) if who["instance"] else None
        if old in self._open and since is not None:
            self._end(old, self._open[old], _End(REPLACED, since, offset))
            kind = REPLACED
        elif self._is_whole:
            old, kind = None, "static" if who["instance"] else "dynamic"
        self._open_one(Session(who, since, offset, kind, old if kind == REPLACED else None))

    def _completed(self, event: Event, offset: int) -> None:
        self._stored()

    def _stored(self) -> None:
        """The group's record was stored, with all members."""
        self._recorded.clear()
        for each in self._open.values():
            each.is_stored = True

    def _emptied(self, event: Event, offset: int) -> None:
        self.all_ended(UNKNOWN, event.at_ms, offset)
        self._stored()
        self._is_whole = True

    def loaded(self, at_ms: int, offset: int) -> None:
        """Another coordinator took over: it knows the members that were stored."""
        for name, each in [*self._open.items()]:
            if not each.is_stored:
                self._end(name, each, _End(LOST, at_ms, offset))
            elif each.beats is not None:
                each.beats_before, each.beats = each.beats_before + each.beats, 0
        for each in self._recorded.values():
            again = Session(each.who, at_ms, offset, LOADED, is_stored=True)
            again.session_timeout_ms = each.session_timeout_ms
            again.rebalance_timeout_ms = each.rebalance_timeout_ms
            self._open_one(again)
        self._recorded.clear()

    def all_ended(self, by: str, at_ms: int, offset: int) -> None:
        """No member is left, and how those went that are known was not stored."""
        for name, each in [*self._open.items()]:
            self._end(name, each, _End(by, at_ms, offset))

    # -- parts -----------------------------------------------------------------------------------

    def is_open(self, member: str, at_ms: int) -> bool:
        """Whether the member is known at that time, and has not ended since."""
        return member in self._open and at_ms > self._ended.get(member, -1)

    def _heard(self, who: Part, at_ms: int, offset: int) -> Session | None:
        """The member, which is new if no event told of it: who commits or rejoins was in the
        group's record before.
        """
        member = who.get("member")
        if not member or at_ms <= self._ended.get(member, -1):
            return None
        known = self._open.get(member)
        if known is None:
            if self._is_whole:
                return None
            known = self._open_one(Session(who, None, offset, UNKNOWN, is_stored=True))
        known.who = who
        return known

    def _begin(self, session: Session, fields: Part) -> None:
        """A member is new."""
        _set_timeouts(session, fields)
        member, at_ms = session.who["member"], session.since_ms or 0
        if member in self._open:
            self._end(member, self._open[member], _End(UNKNOWN, at_ms, session.offset))
        if session.away_ms is None:
            lost = self._returns.take_back(session.who, at_ms)
            if lost is not None and lost.is_exact:
                session.away_ms = max(0, at_ms - lost.heard_ms)
        self._open_one(session)

    def _open_one(self, session: Session) -> Session:
        if len(self._open) >= OPEN_MOST:
            name, oldest = next(iter(self._open.items()))
            self._end(
                name,
                oldest,
                _End(UNKNOWN, session.since_ms or oldest.since_ms or 0, session.offset),
            )
        self._open[session.who["member"]] = session
        return session

    def _tell(self, session: Session, fields: Part) -> None:
        """Take over what an event says of heartbeats."""
        beats, gap_ms = number(fields, "heartbeats"), number(fields, "longest_gap_ms")
        if beats is not None:
            session.beats = max(session.beats or 0, beats)
        if gap_ms is not None:
            session.longest_gap_ms = max(session.longest_gap_ms or 0, gap_ms)

    def _end(self, member: str, session: Session, end: _End) -> None:
        self._rows.append(self._row(session, end))
        if session.is_stored:
            self._recorded[member] = session
        self._open.pop(member, None)
        self._ended.pop(member, None)
        at_ms = self._ended[member] = end.at_ms
        first = next(iter(self._ended))
        while at_ms - self._ended[first] > ENDED_MS or len(self._ended) > ENDED_MOST:
            del self._ended[first]
            first = next(iter(self._ended))

    # -- rows ------------------------------------------------------------------------------------

    def follow(self, earlier: Row) -> bool:
        """Let a session whose beginning no event told go on from this row; False if there is none
        of its member.
        """
        known = self._open.get(earlier["member"])
        if known is None or known.since_ms is not None:
            return False
        known.earlier = earlier
        return True

    def open(self) -> Iterable[Row]:
        """Sessions that have not ended."""
        return (self._row(each, None) for each in self._open.values())

    def _row(self, session: Session, end: _End | None) -> Row:
        since, until = session.since_ms, None
        if end is not None and end.at_ms >= 0:
            until = end.at_ms if since is None else max(since, end.at_ms)
        told = since is not None and session.beats is not None
        row = {
            **self._about,
            **member_columns(session.who),
            "from": since,
            "until": until,
            "began_as": session.began_as,
            "ended_by": end and end.by,
            "likely": end and end.likely,
            "reason": end and end.reason,
            "old_member": session.old_member,
            "away_ms": session.away_ms,
            "silent_ms": None if self._is_inferred else end and end.silent_ms,
            "connection": end and end.connection,
            "session_timeout_ms": session.session_timeout_ms,
            "rebalance_timeout_ms": session.rebalance_timeout_ms,
            "heartbeats": session.beats_before + (session.beats or 0) if told else None,
            "longest_gap_ms": session.longest_gap_ms if told else None,
            "offset": session.offset if end is None else end.offset,
        }
        if end is not None and end.confidence is not None:
            row["confidence"] = end.confidence
        return row if session.earlier is None else begun(row, session.earlier)


def begun(row: Row, earlier: Row) -> Row:
    """A session whose beginning no event told, with what records tell of it."""
    made = {name: earlier[name] for name in ("from", "began_as", "old_member", "away_ms", "source")}
    for name in ("session_timeout_ms", "rebalance_timeout_ms"):
        made[name] = earlier[name] if row[name] is None else row[name]
    return {**row, **made, "confidence": min(row["confidence"], earlier["confidence"])}


def _set_timeouts(session: Session, part: Part) -> None:
    for name in ("session_timeout_ms", "rebalance_timeout_ms"):
        value = number(part, name)
        if value is not None and 0 <= value < 1 << 31:  # as in a JoinGroup
            setattr(session, name, value)


_TAKES: Final = {
    "group_created": Sessions._created,
    "member_joined": Sessions._joined,
    "member_replaced": Sessions._replaced,
    "member_rejoined": Sessions._rejoined,
    "commits": Sessions._committed,
    "member_removed": Sessions._removed,
    "rebalance_joined": Sessions._listed,
    "rebalance_completed": Sessions._completed,
    "group_emptied": Sessions._emptied,
}
"""Type of event -> what it changes."""
