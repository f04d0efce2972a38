"""Infers the cause of a rebalance from the records of two generations and the commits between them.

Without events nobody says it: a member that is in the second record only has joined, one that is
only in the first has left or its session expired. What these records cannot tell is `unknown`, and
every code has a stated confidence (docs/analytics.md says how it was measured).

Departures: a commit shows that its member was there. A session that expired was silent for the
whole session timeout before the join phase began; who committed later than that has left. The join
phase began, at the earliest, a heartbeat before a member that stayed last committed, because it
then learned of it and rejoined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groupkeeper.history.records import Generation, RecordedMember
from groupkeeper.history.rows import keeps_partitions
from groupkeeper.protocol.group_events import CauseCode

UNKNOWN: Final = "unknown"
LEFT: Final = CauseCode.MEMBER_LEFT.value
REMOVED: Final = CauseCode.MEMBER_REMOVED_BY_ADMIN.value
EXPIRED: Final = CauseCode.SESSION_EXPIRED.value
JOINED: Final = CauseCode.MEMBER_JOINED.value
STATIC_JOINED: Final = CauseCode.STATIC_MEMBER_JOINED.value
RETURNED_CHANGED: Final = CauseCode.STATIC_MEMBER_RETURNED_CHANGED.value
RETURNED_UNREADY: Final = CauseCode.STATIC_MEMBER_RETURNED_UNREADY.value
SUBSCRIPTION: Final = CauseCode.SUBSCRIPTION_CHANGED.value
LEADER: Final = CauseCode.LEADER_REJOINED.value
REJOINED: Final = CauseCode.MEMBER_REJOINED.value
MAX_POLL: Final = "max_poll_exceeded"
"""Codes of causes, and of what is likely behind one."""

CONFIDENCE: Final[Mapping[str, float]] = {
    UNKNOWN: 0.99,
    JOINED: 0.99,
    STATIC_JOINED: 0.99,
    LEFT: 0.97,
    EXPIRED: 0.95,
    REMOVED: 0.8,
    RETURNED_CHANGED: 0.9,
    RETURNED_UNREADY: 0.9,
    SUBSCRIPTION: 0.97,
    LEADER: 0.9,
    REJOINED: 0.9,
}
"""How sure a row with this cause is: see docs/analytics.md. One with an unknown cause claims only
that it happened."""
HEARTBEAT_MS: Final = 3_000
"""`heartbeat.interval.ms` of most clients; at most a third of the session timeout."""
FOLLOW_UP_MS: Final = 15_000
"""Members that gave partitions up join again at once, and the others after a heartbeat."""
SLACK_MS: Final = 1_000
"""Time that timers and requests take."""


class Evidence(NamedTuple):
    """Commits for the partitions of a member: when the last one was, None without any, and how
    long they were apart at most, None if that cannot be said.
    """

    last_ms: int | None = None
    longest_ms: int | None = None


class Departure(NamedTuple):
    """Why a member is gone, and until when it can last have been there."""

    code: str
    until_ms: int
    likely: str | None = None


@dataclass(slots=True)
class Changes:
    """Members of a generation compared with those of the one before."""

    joined: list[RecordedMember] = field(default_factory=list)
    gone: list[RecordedMember] = field(default_factory=list)
    replaced: list[tuple[RecordedMember, RecordedMember]] = field(default_factory=list)
    """Old and new one with the same instance id."""
    resubscribed: list[RecordedMember] = field(default_factory=list)
    rejoined: list[RecordedMember] = field(default_factory=list)
    """Members with the same topics, but other bytes."""


@dataclass(slots=True)
class InferredCause:
    """The first cause of a rebalance, who it was if only one can have been it, and codes of all
    others that were found.
    """

    code: str
    by: RecordedMember | None = None
    more: list[str] = field(default_factory=list)
    likely: str | None = None
    departures: dict[str, Departure] = field(default_factory=dict)
    """Member id -> why it is gone."""


class CauseEvidence(NamedTuple):
    """Evidence for a cause: when the join phase ended; commits by member id; whether another
    coordinator has loaded the group meanwhile, so that sessions began anew; whether the record
    before took partitions from members and gave them to none; whether it converted the group,
    which Kafka lets rebalance then; when that was written.
    """

    end_ms: int
    evidence: Mapping[str, Evidence]
    reloaded: bool
    withheld: bool
    converted: bool
    began_ms: int

    @property
    def soon(self) -> bool:
        """Whether this round can be the second one of a cooperative rebalance."""
        return self.end_ms - self.began_ms <= FOLLOW_UP_MS

    def of(self, member: RecordedMember) -> Evidence:
        """Commits for its partitions."""
        return self.evidence.get(member.member, _NOTHING)

    def seen_ms(self, member: RecordedMember) -> int:
        """When it was there for the last time, as far as the log says."""
        return min(max(self.of(member).last_ms or 0, member.heard_ms), self.end_ms)


class Start(NamedTuple):
    """When the join phase can have begun: not before, and not after. Wide if that is not known."""

    earliest_ms: int
    latest_ms: int


def compare(before: Mapping[str, RecordedMember], now: Mapping[str, RecordedMember]) -> Changes:
    """Find the changes of a record."""
    found = Changes()
    instances = {
        each.instance: each
        for key, each in before.items()
        if each.instance is not None and key not in now
    }
    taken = set()
    for key, each in now.items():
        old = before.get(key)
        if old is None and each.instance in instances:
            old = instances[each.instance]
            found.replaced.append((old, each))
            taken.add(old.member)
        elif old is None:
            found.joined.append(each)
            continue
        if old.topics != each.topics:
            found.resubscribed.append(each)
        elif old.digest != each.digest:
            found.rejoined.append(each)
    found.gone = [each for key, each in before.items() if key not in now and key not in taken]
    return found


def explain(
    before: Generation | None,
    now: Generation,
    changes: Changes,
    setting: CauseEvidence,
    aborted: int,
) -> InferredCause:
    """The cause of a round. `before` is None for a new group; `aborted` is how many rounds ended
    without assignments between the two records. Of `changes`, members of an instance whose session
    had expired before it came back are not `replaced`, but `gone` and `joined`.
    """
    members = {} if before is None else before.members
    gone = {each.member for each in changes.gone}
    stayed = [each for key, each in members.items() if key not in gone]
    start = _start(stayed, now, setting)
    came = {each.identity for each in changes.joined}
    begun = bool(came or changes.replaced or changes.resubscribed or aborted or len(gone) > 1)
    found = InferredCause(UNKNOWN)
    for each in changes.gone:
        back = each.identity in came
        found.departures[each.member] = _departure(each, setting, start, back, begun)
    if not stayed and len(gone) > 1:
        _together(changes.gone, setting, found.departures)
    protocol_changed = bool(members) and before is not None and before.protocol != now.protocol
    who = _who(now, changes, setting, found, protocol_changed)
    code = _first(who, changes, setting, start, aborted)
    found.code = code
    found.more = [each for each in who if each not in (code, UNKNOWN)]
    if len(who.get(code, ())) == 1 and code != UNKNOWN:
        found.by = who[code][0]
        departure = found.departures.get(found.by.member)
        found.likely = departure.likely if departure else None
    for old, each in [*changes.replaced]:
        if old.member in found.departures:
            changes.replaced.remove((old, each))
            changes.gone.append(old)
            changes.joined.append(each)
    return found


def _who(
    now: Generation,
    changes: Changes,
    setting: CauseEvidence,
    found: InferredCause,
    protocol_changed: bool,
) -> dict[str, list[RecordedMember]]:
    """Codes of all causes that the records show, and the members behind each."""
    who: dict[str, list[RecordedMember]] = {}
    for each in changes.gone:
        who.setdefault(found.departures[each.member].code, []).append(each)
    for each in changes.joined:
        who.setdefault(JOINED if each.instance is None else STATIC_JOINED, []).append(each)
    for old, each in changes.replaced:
        codes = _returned(old, setting, protocol_changed)
        for code in codes:
            who.setdefault(code, []).append(each)
        if EXPIRED in codes:
            found.departures[old.member] = Departure(EXPIRED, setting.end_ms)
    if changes.resubscribed and not protocol_changed:
        who.setdefault(SUBSCRIPTION, []).extend(changes.resubscribed)
    leader = [now.members[now.leader]] if now.leader in now.members else []
    if setting.withheld and changes.rejoined and (not who or setting.soon):
        who[REJOINED] = changes.rejoined
    elif not who and leader and not setting.converted:
        # Nobody else rejoins by itself: other bytes only name what was assigned since.
        who[LEADER] = leader
    return who


def _returned(old: RecordedMember, setting: CauseEvidence, changed: bool) -> Sequence[str]:
    """A static member has a new id in a new generation. One whose session had not expired yet
    replaced the old one, in a group that had another cause to rebalance.
    """
    if changed:
        return (RETURNED_CHANGED,)
    silent_ms = setting.end_ms - setting.seen_ms(old)
    return (EXPIRED, STATIC_JOINED) if silent_ms >= old.session_ms else (RETURNED_UNREADY,)


def _first(
    who: Mapping[str, Sequence[RecordedMember]],
    changes: Changes,
    setting: CauseEvidence,
    start: Start,
    aborted: int,
) -> str:
    """Which of the causes came first; unknown if that cannot be said."""
    if setting.converted:
        return UNKNOWN
    firsts = {code for code in who if code != RETURNED_UNREADY}
    if len(firsts) == 1:
        [code] = firsts
        return code if len(who[code]) > aborted else UNKNOWN
    if aborted:
        return UNKNOWN
    if firsts == {EXPIRED, STATIC_JOINED} and changes.replaced:
        return EXPIRED
    if firsts == {LEFT, JOINED} and _restarts(changes):
        return LEFT
    others = firsts - {EXPIRED}
    if EXPIRED in firsts and len(others) == 1 and UNKNOWN not in others:
        due_ms = min(setting.seen_ms(each) + each.session_ms for each in changes.gone)
        return others.pop() if start.latest_ms < due_ms else UNKNOWN
    return UNKNOWN


def _restarts(changes: Changes) -> bool:
    """Whether all that joined are clients of members that are gone, so that these left first."""
    gone = {each.identity for each in changes.gone}
    return all(each.identity in gone for each in changes.joined)


# -- departures ----------------------------------------------------------------------------------


def _start(stayed: Sequence[RecordedMember], now: Generation, setting: CauseEvidence) -> Start:
    """When the join phase began.

    Members with an eager assignor commit nothing from their rejoin on, others until the end of the
    join phase: of those, the one that was the first to stop says when it had not begun yet.
    """
    if not stayed:
        return Start(setting.end_ms, setting.end_ms)
    seen = [(each, *setting.of(each)) for each in stayed]
    learned = [last_ms - _heartbeat_ms(each) for each, last_ms, _ in seen if last_ms is not None]
    latest_ms = setting.end_ms
    if keeps_partitions(now.protocol, now.is_told) or not learned:
        return Start(min(learned) if len(learned) == len(stayed) else 0, latest_ms)
    if all(longest_ms is not None for _, _, longest_ms in seen):
        quiet = max((last_ms or 0) + (longest_ms or 0) for _, last_ms, longest_ms in seen)
        latest_ms = min(quiet + SLACK_MS, setting.end_ms)
    return Start(max(learned), latest_ms)


def _heartbeat_ms(member: RecordedMember) -> int:
    return max(HEARTBEAT_MS, member.session_ms // 3)


def _departure(
    member: RecordedMember, setting: CauseEvidence, start: Start, came_back: bool, begun: bool
) -> Departure:
    """`came_back`: the same client joined in this round. `begun`: something else, too, can have
    begun the round.
    """
    last_ms, end_ms = setting.of(member).last_ms, setting.end_ms
    seen_ms = setting.seen_ms(member)
    if end_ms - seen_ms >= member.session_ms:
        return _silent(member, setting, start, came_back)
    if member.instance is not None:  # it stays when it is closed
        return Departure(REMOVED, end_ms)
    late_ms = end_ms - member.rebalance_ms
    if begun and max(seen_ms, start.earliest_ms) <= late_ms:  # it may not have rejoined in time
        return Departure(UNKNOWN, end_ms)
    return Departure(LEFT, end_ms if last_ms is None else last_ms)


def _silent(
    member: RecordedMember, setting: CauseEvidence, start: Start, came_back: bool
) -> Departure:
    """Nothing was seen of it for its session timeout."""
    last_ms, longest_ms = setting.of(member)
    seen_ms, end_ms = setting.seen_ms(member), setting.end_ms
    session_ms, poll_ms = member.session_ms, member.rebalance_ms
    # Without a commit nothing says how long it lived, but that its end began a round.
    expired = Departure(EXPIRED, end_ms if last_ms is None else min(seen_ms + session_ms, end_ms))
    if member.instance is not None:
        return expired
    if longest_ms is None or last_ms is None:
        return Departure(UNKNOWN, end_ms)
    next_ms = seen_ms + longest_ms + SLACK_MS
    can_have_left = max(start.earliest_ms, seen_ms) <= next_ms
    can_have_expired = setting.reloaded or start.earliest_ms <= next_ms + session_ms
    if can_have_expired and (not can_have_left or came_back):
        return expired
    if can_have_left and not can_have_expired:
        return Departure(LEFT, last_ms)
    if not can_have_left and seen_ms + poll_ms <= end_ms and start.earliest_ms <= next_ms + poll_ms:
        return Departure(LEFT, end_ms, MAX_POLL)
    return Departure(UNKNOWN, end_ms)


def _together(
    gone: Sequence[RecordedMember], setting: CauseEvidence, found: dict[str, Departure]
) -> None:
    """If all members are gone, the last one decides of those that went silent with it."""
    last = max(gone, key=setting.seen_ms)
    fate = found[last.member]
    for each in gone:
        near_ms = setting.of(each).longest_ms
        apart_ms = setting.seen_ms(last) - setting.seen_ms(each)
        together = near_ms is not None and apart_ms <= near_ms + SLACK_MS
        if found[each.member].code == UNKNOWN and fate.code == EXPIRED and together:
            found[each.member] = fate


_NOTHING: Final = Evidence()
