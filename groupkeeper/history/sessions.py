"""Follows the members of one group from their join to their end: the table `sessions`.

A member first named without a join has no beginning; one that the next rebalance does not list
ended in an unknown way. Committing clients count as members until a rebalance lists all of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.returns import Lost, Returns, newest_since
from groupkeeper.history.rows import EVENTS, Row, RowSource, Told, member_columns, text
from groupkeeper.history.unread import gone_ms
from groupkeeper.protocol.group_events import SHORTENED, Event

UNKNOWN: Final = "unknown"
LOST: Final = "lost"
LOADED: Final = "loaded"
REPLACED: Final = "replaced"
PENDING: Final = "pending_member_expired"
"""Removal of a member id that was assigned (KIP-394) but never joined with."""
ENDED_MS: Final = 600_000
"""How long an ended member is remembered: `commits` events come up to a minute late."""
ENDED_MOST: Final = 10_000
"""Maximum number of ended members that are remembered."""
OPEN_MOST: Final = 20_000
"""Maximum number of open sessions of a group; no coordinator accepts more members."""


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
    """The member is in the group's record, so it survives a change of coordinator."""
    beats: int | None = None
    """Latest count of heartbeats, which starts at the join or the load."""
    beats_before: int = 0
    """Heartbeats before the last load."""
    longest_gap_ms: int | None = None
    earlier: Row | None = None
    """The inferred row of this session, from the time before the first event."""


@dataclass(slots=True, frozen=True)
class _End:
    """How a session ended."""

    by: str
    at_ms: int
    """Unix ms; negative if unknown."""
    offset: int
    confidence: float | None = None
    """None for the default of the source."""
    likely: str | None = None
    reason: str | None = None
    silent_ms: int | None = None
    connection: str | None = None
    lost_by: str | None = None


class Sessions:
    """The sessions of one group, from events of one source. Rows of ended ones go to `rows`."""

    _open: dict[str, Session]
    _recorded: dict[str, Session]
    """Ended sessions that the stored group record still contains; a load restores their members."""
    _returns: Returns
    _ended: dict[str, int]
    _is_whole: bool
    """Whether all members are known: from the group's creation, or from a list of its members."""

    def __init__(self, about: RowSource, rows: list[Row]) -> None:
        self._rows = rows
        self._about = about.columns
        self._is_inferred = about.source != EVENTS
        self._open, self._recorded, self._ended = {}, {}, {}
        self._returns, self._is_whole = Returns(), False
        self._confidence = about.confidence
        """Confidence of the current event."""

    @property
    def people(self) -> dict[str, Part]:
        """The clients of all known members."""
        return {member: each.who for member, each in self._open.items()}

    def away_ms(self, member: str) -> int | None:
        """Return how long a member's client was gone before it joined; None if it is new."""
        session = self._open.get(member)
        return None if session is None else session.away_ms

    def with_address(self, event: Event) -> Event:
        """Return the event with the host of the member's own requests. For a member without
        requests since the load, the event has the host of the group record; there a replaced static
        member keeps the host of the first instance (as in Kafka).
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

    # -- events ----------------------------------------------------------------------------------

    def add(self, told: Told) -> None:
        """Add an event of the group, with checked fields."""
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
        evidence = fields.get("evidence") or {}
        connection, lost_by = text(evidence.get("old_connection")), text(evidence.get("lost_by"))
        about = self._confidence, fields.get("likely"), None, away_ms, connection, lost_by
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
        silent_ms, connection = number(evidence, "silent_ms"), text(evidence.get("connection"))
        about = self._confidence, cause.get("likely"), cause.get("reason")
        self._end(member, known, _End(code, event.at_ms, offset, *about, silent_ms, connection))
        is_exact = silent_ms is not None or not self._is_inferred
        heard_ms = event.at_ms - (silent_ms or 0)
        gone_at = gone_ms({"at_ms": event.at_ms, "cause": cause})
        back = newest_since(gone_at, who, self._open.values())
        if back is None:
            self._returns.lose(who, Lost(heard_ms, connection, known.session_timeout_ms, is_exact))
        else:  # a killed process may be back before its session ends
            back.away_ms = (back.since_ms or gone_at) - gone_at

    def _listed(self, event: Event, offset: int) -> None:
        """Take over the list of members at the end of the join phase."""
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
        """Add a member whose join was not stored or not read."""
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
        """Mark all members as stored: the group's record was written."""
        self._recorded.clear()
        for each in self._open.values():
            each.is_stored = True

    def _emptied(self, event: Event, offset: int) -> None:
        self.all_ended(UNKNOWN, event.at_ms, offset)
        self._stored()
        self._is_whole = True

    def loaded(self, at_ms: int, offset: int) -> None:
        """Another coordinator took over, with only the stored members."""
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
        """End all sessions: the group has no members left, and how they left was not stored."""
        for name, each in [*self._open.items()]:
            self._end(name, each, _End(by, at_ms, offset))

    # -- parts -----------------------------------------------------------------------------------

    def is_open(self, member: str, at_ms: int) -> bool:
        """Return whether the member is known at that time and has not ended since."""
        return member in self._open and at_ms > self._ended.get(member, -1)

    def _heard(self, who: Part, at_ms: int, offset: int) -> Session | None:
        """Return the open session of a committing or rejoining member. If no event has named the
        member, it was stored before: a session without beginning is added.
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
        """Add a new member."""
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
            at_ms = session.since_ms or oldest.since_ms or 0
            self._end(name, oldest, _End(UNKNOWN, at_ms, session.offset))
        self._open[session.who["member"]] = session
        return session

    def _tell(self, session: Session, fields: Part) -> None:
        """Take over the counts of heartbeats from an event."""
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
        """Let an open session without a known beginning continue an inferred row. Returns False if
        the member has no such session.
        """
        known = self._open.get(earlier["member"])
        if known is None or known.since_ms is not None:
            return False
        known.earlier = earlier
        return True

    def open(self) -> Iterable[Row]:
        """Return the rows of sessions that have not ended."""
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
            "old_member": session.old_member,
            "away_ms": session.away_ms,
            "silent_ms": None if self._is_inferred else end and end.silent_ms,
            **{n: getattr(end, n, None) for n in ("likely", "reason", "connection", "lost_by")},
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
    """Complete a session without a known beginning by the inferred row of its beginning."""
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
"""Type of event -> method that handles it."""
