"""Infers the cause of a rebalance from the records of two generations and the commits between them.

A member only in the second record has joined; one only in the first has left or its session
expired. If the records cannot decide, the cause is `unknown`. Every code has a stated confidence
(docs/analytics.md describes how it was measured).

Departures: a commit shows that its member was alive. An expired member was silent for the whole
session timeout before the join phase began; a member that committed later has left. The join phase
began no earlier than one heartbeat interval before the last commit of a remaining member, which
learns of the rebalance with its next heartbeat and then rejoins.
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
"""Codes of causes, and of likely reasons behind them."""

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
"""Confidence of rows by cause, see docs/analytics.md. With an unknown cause a row only claims that
the rebalance happened."""
HEARTBEAT_MS: Final = 3_000
"""`heartbeat.interval.ms` of most clients; at most a third of the session timeout."""
FOLLOW_UP_MS: Final = 15_000
"""Longest time until the second round of a cooperative rebalance: members that gave up partitions
rejoin at once, the others after a heartbeat."""
SLACK_MS: Final = 1_000
"""Allowance for delays of timers and requests."""
ROUNDED_MS: Final = 10
"""Allowance for times that are rounded to milliseconds, of two clocks."""


class Evidence(NamedTuple):
    """Commits for a member's partitions: time of the last one (None if there is none) and the
    longest pause between two in ms (None if unknown).
    """

    last_ms: int | None = None
    longest_ms: int | None = None


class Departure(NamedTuple):
    """Why a member is gone, and the latest time at which it can have been in the group."""

    code: str
    until_ms: int
    likely: str | None = None


@dataclass(slots=True)
class Changes:
    """Members of a generation compared with those of the one before."""

    joined: list[RecordedMember] = field(default_factory=list)
    gone: list[RecordedMember] = field(default_factory=list)
    replaced: list[tuple[RecordedMember, RecordedMember]] = field(default_factory=list)
    """Old and new member with the same instance id."""
    resubscribed: list[RecordedMember] = field(default_factory=list)
    rejoined: list[RecordedMember] = field(default_factory=list)
    """Members with the same topics, but other subscription bytes."""


@dataclass(slots=True)
class InferredCause:
    """The first cause of a rebalance, the member behind it if only one is possible, and the codes
    of all other causes found.
    """

    code: str
    by: RecordedMember | None = None
    more: list[str] = field(default_factory=list)
    likely: str | None = None
    departures: dict[str, Departure] = field(default_factory=dict)
    """Member id -> why the member is gone."""


class CauseEvidence(NamedTuple):
    """Evidence for a cause. `end_ms`: end of the join phase; `evidence`: commits by member id;
    `reloaded`: another coordinator has loaded the group since, which restarts sessions; `withheld`:
    the earlier record, of `began_ms`, revoked partitions and assigned them to none; `converted`: it
    converted the group, after which Kafka triggers a rebalance; `grown`: a topic has new
    partitions, for which leaders rejoin.
    """

    end_ms: int
    evidence: Mapping[str, Evidence]
    reloaded: bool
    withheld: bool
    converted: bool
    began_ms: int
    grown: bool = False

    @property
    def soon(self) -> bool:
        """Whether this round can be the second one of a cooperative rebalance."""
        return self.end_ms - self.began_ms <= FOLLOW_UP_MS

    def of(self, member: RecordedMember) -> Evidence:
        """Return the commits for the partitions of a member."""
        return self.evidence.get(member.member, _NOTHING)

    def seen_ms(self, member: RecordedMember) -> int:
        """Return when the member was last seen, as far as the log shows."""
        return min(max(self.of(member).last_ms or 0, member.heard_ms), self.end_ms)

    def is_silent(self, member: RecordedMember) -> bool:
        """Whether the log shows nothing of the member for the time of its session."""
        return self.end_ms - self.seen_ms(member) >= member.session_ms - ROUNDED_MS

    def has_stopped(self, member: RecordedMember) -> bool:
        """Whether a silent member committed regularly before, and more often than since. Other
        members may send heartbeats and have nothing to commit.
        """
        longest_ms = self.of(member).longest_ms
        is_late = longest_ms is not None and self.end_ms > self.next_ms(member, longest_ms)
        return is_late and self.is_silent(member)

    def next_ms(self, member: RecordedMember, longest_ms: int) -> int:
        """Return until when a live member would have committed again."""
        return self.seen_ms(member) + longest_ms + SLACK_MS


class Start(NamedTuple):
    """The earliest and latest possible start of the join phase; a wide range if little is known."""

    earliest_ms: int
    latest_ms: int


def compare(before: Mapping[str, RecordedMember], now: Mapping[str, RecordedMember]) -> Changes:
    """Compare the members of two records, both by member id."""
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
    """Infer the cause of a round. `before` is None for a new group; `aborted` is the number of
    rounds without assignments between the records. Updates `changes`: a static member that came
    back after its session had expired is moved from `replaced` to `gone` and `joined`.
    """
    members = {} if before is None else before.members
    gone = {each.member for each in changes.gone}
    stayed = [each for key, each in members.items() if key not in gone]
    start = _start(stayed, now, setting, aborted)
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
    if found.more == [RETURNED_UNREADY] and code == UNKNOWN:
        found.more = []  # no other cause shows: an administrator may have removed the member
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
    """Return the codes of all causes that the records show, and the members behind each."""
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
    keeps = keeps_partitions(now.protocol, now.is_told)
    # A follower that rejoins unprompted triggers a rebalance if its bytes have changed, and where
    # bytes list owned partitions, those of all have. Leaders rejoin for new partitions.
    alone = setting.grown or all(each.member == now.leader for each in changes.rejoined)
    if setting.withheld and keeps is not False and changes.rejoined and (not who or setting.soon):
        who[REJOINED] = changes.rejoined
    elif not who and leader and not setting.converted and not changes.replaced and alone:
        who[LEADER] = leader
    return who


def _returned(old: RecordedMember, setting: CauseEvidence, changed: bool) -> Sequence[str]:
    """Return the codes for a static member with a new id. If the old session had not expired yet,
    the new member replaced it while the group was rebalancing for another cause. None if that is
    not known: a member that commits nothing may send heartbeats.
    """
    if changed:
        return (RETURNED_CHANGED,)
    if not setting.is_silent(old):
        return (RETURNED_UNREADY,)
    return (EXPIRED, STATIC_JOINED) if setting.has_stopped(old) else ()


def _first(
    who: Mapping[str, Sequence[RecordedMember]],
    changes: Changes,
    setting: CauseEvidence,
    start: Start,
    aborted: int,
) -> str:
    """Return the code of the first cause; unknown if the order cannot be decided."""
    firsts = {code for code in who if code != RETURNED_UNREADY}
    # For new partitions the leader may have rejoined before a session ended.
    if setting.converted or (setting.grown and EXPIRED in firsts):
        return UNKNOWN
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
        # A load gave old members a whole session; before its end their clients joined anew.
        came, gone = ({each.identity for each in some} for some in (changes.joined, changes.gone))
        is_anew = setting.reloaded and others == {JOINED} and came == gone
        return others.pop() if is_anew or start.latest_ms < due_ms else UNKNOWN
    return UNKNOWN


def _restarts(changes: Changes) -> bool:
    """Return whether all joined members are clients of gone members, and thus left first."""
    gone = {each.identity for each in changes.gone}
    return all(each.identity in gone for each in changes.joined)


# -- departures ----------------------------------------------------------------------------------


def _start(
    stayed: Sequence[RecordedMember], now: Generation, setting: CauseEvidence, aborted: int
) -> Start:
    """Return when the join phase can have begun. Members with an eager assignor stop committing
    when they rejoin, others at its end; among the eager, the first to stop bounds the start from
    below. If nobody stayed, it is at its end, unless rounds without assignments were before it:
    who is gone may have gone in one of these.
    """
    if not stayed:
        return Start(setting.began_ms if aborted else setting.end_ms, setting.end_ms)
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
    """Return why a member is gone. `came_back`: the same client joined in this round. `begun`:
    something else may have begun the round.
    """
    (last_ms, longest_ms), end_ms = setting.of(member), setting.end_ms
    if setting.is_silent(member):
        return _silent(member, setting, start, came_back, begun)
    if member.instance is not None:  # static members do not leave when closed
        return Departure(REMOVED, end_ms)
    # In a join phase a member may commit until it learns of it and calls poll.
    known_ms = setting.seen_ms(member) - _heartbeat_ms(member) - (longest_ms or 0)
    may_be_late = begun and max(known_ms, start.earliest_ms) <= end_ms - member.rebalance_ms
    if may_be_late or setting.reloaded:  # after a load group.max.size may be smaller
        return Departure(UNKNOWN, end_ms)
    return Departure(LEFT, end_ms if last_ms is None else last_ms)


def _silent(
    member: RecordedMember, setting: CauseEvidence, start: Start, came_back: bool, begun: bool
) -> Departure:
    """Return why a member is gone that was silent for its session timeout. A member that polled
    too late left no earlier than `max.poll.interval.ms` after its last commit.
    """
    last_ms, longest_ms = setting.of(member)
    seen_ms, end_ms = setting.seen_ms(member), setting.end_ms
    session_ms, poll_ms = member.session_ms, member.rebalance_ms
    if longest_ms is None or last_ms is None:
        return Departure(UNKNOWN, end_ms)
    # After a load each session began anew, at a time that the log does not show.
    expired = Departure(EXPIRED, end_ms if setting.reloaded else min(seen_ms + session_ms, end_ms))
    if member.instance is not None:  # else an administrator may have removed it
        return expired if setting.has_stopped(member) else Departure(UNKNOWN, end_ms)
    next_ms = setting.next_ms(member, longest_ms)
    can_have_left = max(start.earliest_ms, seen_ms) <= next_ms
    can_have_expired = setting.reloaded or start.earliest_ms <= next_ms + session_ms
    latest_ms = end_ms if begun else start.latest_ms
    can_be_late = seen_ms + poll_ms <= latest_ms and start.earliest_ms <= next_ms + poll_ms
    # A client that commits less often than it has to poll shows nothing of its polls.
    is_doubtful = can_be_late and longest_ms < poll_ms
    if can_have_expired and not is_doubtful and (not can_have_left or came_back):
        return expired
    if can_have_left and not can_have_expired:
        return Departure(LEFT, last_ms)
    if can_be_late and not can_have_left and not can_have_expired:
        return Departure(LEFT, end_ms, MAX_POLL)
    return Departure(UNKNOWN, end_ms)


def _together(
    gone: Sequence[RecordedMember], setting: CauseEvidence, found: dict[str, Departure]
) -> None:
    """If all members are gone, those that fell silent together with the last one share its fate."""
    last = max(gone, key=setting.seen_ms)
    fate = found[last.member]
    for each in gone:
        near_ms = setting.of(each).longest_ms
        apart_ms = setting.seen_ms(last) - setting.seen_ms(each)
        together = near_ms is not None and apart_ms <= near_ms + SLACK_MS
        if found[each.member].code == UNKNOWN and fate.code == EXPIRED and together:
            found[each.member] = fate


_NOTHING: Final = Evidence()
