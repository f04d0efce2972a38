"""Infers why members of the record before are gone, from commits.

An expired member was silent for the whole session timeout before the join phase began; a member
that committed later has left. The join phase began no earlier than one heartbeat interval before
the last commit of a remaining member, which learns of the rebalance with its next heartbeat and
then rejoins.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from groupkeeper.history.causes import EXPIRED, LEFT, MAX_POLL, REMOVED, UNKNOWN
from groupkeeper.history.evidence import HEARTBEAT_MS, SLACK_MS, WAITED_MS, CauseEvidence
from groupkeeper.history.records import Generation, RecordedMember
from groupkeeper.history.rows import keeps_partitions


class TimeRange(NamedTuple):
    """The earliest and latest time at which something can have happened, in Unix ms; wide if little
    is known.
    """

    earliest_ms: int
    latest_ms: int


class Departure(NamedTuple):
    """Why a member is gone, until when its partitions count as its own (its last commit, or the
    earliest end of its session), and when it can have gone.
    """

    code: str
    until_ms: int
    window: TimeRange
    likely: str | None = None
    over_ms: int | None = None
    """Of an unknown reason: when its session can have ended, if it did not leave before."""

    @property
    def options(self) -> Mapping[str, TimeRange]:
        """When it can have gone, by each possible reason."""
        if self.over_ms is None:
            return {self.code: self.window}
        return {LEFT: self.window, EXPIRED: TimeRange(self.over_ms, self.window.latest_ms)}


def start_of(
    stayed: Sequence[RecordedMember], now: Generation, setting: CauseEvidence
) -> TimeRange:
    """Return when the join phase can have begun. Members with an eager assignor, and some with
    another one, stop committing when they rejoin; the others at its end. So it began before all had
    stopped; and among the eager, no earlier than a heartbeat before the last one did. If nobody
    stayed, it is at its end, unless rounds without assignments were before it: who is gone may have
    gone in one of these.
    """
    # A phase that waited for one that is gone had begun before that went.
    end_ms = setting.end_ms - (WAITED_MS + 1 if setting.waited else 0)
    if not stayed:
        return TimeRange(setting.began_ms if setting.aborted else end_ms, end_ms)
    seen = [(each, *setting.of(each)) for each in stayed if each.member in setting.evidence]
    quiet = [(at or 0) + longest_ms for _, at, longest_ms in seen if longest_ms is not None]
    latest_ms = end_ms
    # One that shows nothing may have gone on, unless the phase is known to have lasted.
    if quiet and (len(quiet) == len(seen) or setting.waited):
        latest_ms = min(max(quiet) + SLACK_MS, end_ms)
    # When each member can have learned of it, and until when it would have committed again.
    learned = [
        (at - heartbeat_ms(each), at + longest_ms if longest_ms is not None else 0)
        for each, at, longest_ms in seen
        if at is not None
    ]
    if not learned:
        return TimeRange(0, latest_ms)
    if keeps_partitions(now.protocol, now.is_told):
        first_ms = min(learned)[0] if len(learned) == len(stayed) else 0
        return TimeRange(first_ms, latest_ms)
    longest_ms = max(each.rebalance_ms for each in stayed) + SLACK_MS
    return TimeRange(_last_but_slow(learned, setting.end_ms - longest_ms), latest_ms)


def _last_but_slow(learned: list[tuple[int, int]], since_ms: int) -> int:
    """Return when the last member of those that stopped in this join phase can have learned of it,
    without the very last one: a client that is slow to poll goes on to commit after all others have
    rejoined. Who stopped before `since_ms`, the start of the longest join phase, had nothing to
    commit.
    """
    slow = max(range(len(learned)), key=lambda number: learned[number][0])
    others = learned[:slow] + learned[slow + 1 :]
    stopped = [at_ms for at_ms, until_ms in others if until_ms and until_ms >= since_ms]
    return max(stopped, default=learned[slow][0])


def start_of_others(last: RecordedMember, before: Generation, setting: CauseEvidence) -> TimeRange:
    """Return when the join phase can have begun of which all members are gone, and in which `last`
    was the last one to be seen: not long before that, if it would have stopped committing then.
    """
    is_eager = keeps_partitions(before.protocol, before.is_told) is False
    since_ms = setting.seen_ms(last) - heartbeat_ms(last) if is_eager else 0
    return TimeRange(max(since_ms, setting.began_ms), setting.end_ms)


def heartbeat_ms(member: RecordedMember) -> int:
    """Return the longest interval of heartbeats of a member, if it is set as Kafka's documentation
    says.
    """
    return max(HEARTBEAT_MS, member.session_ms // 3)


def departure_of(
    member: RecordedMember, setting: CauseEvidence, start: TimeRange, came_back: bool, begun: bool
) -> Departure:
    """Return why a member is gone. `came_back`: the same client joined in this round. `begun`:
    something else may have begun the round.
    """
    (last_ms, longest_ms), end_ms = setting.of(member), setting.end_ms
    if setting.late == member.member:
        return Departure(UNKNOWN, end_ms, TimeRange(end_ms, end_ms))  # it may leave just then
    if setting.ends_with(member) and [*setting.ended_by] == [member.member]:
        return Departure(EXPIRED, end_ms, TimeRange(end_ms, end_ms))
    if setting.is_silent(member):
        return _silent(member, setting, start, came_back, begun)
    window = TimeRange(setting.seen_ms(member), end_ms)
    if member.instance is not None:  # static members do not leave when closed
        return Departure(REMOVED, end_ms, window)
    # In a join phase a member may commit until it learns of it and calls poll.
    known_ms = setting.seen_ms(member) - heartbeat_ms(member) - (longest_ms or 0)
    may_be_late = begun and max(known_ms, start.earliest_ms) <= end_ms - member.rebalance_ms
    if may_be_late or setting.reloaded:  # after a load group.max.size may be smaller
        return Departure(UNKNOWN, end_ms, window)
    if last_ms is None:
        return Departure(LEFT, end_ms, window)
    return Departure(LEFT, last_ms, _left_in(member, setting))


def _left_in(member: RecordedMember, setting: CauseEvidence) -> TimeRange:
    """Return when a member left that committed: before it would have committed again."""
    longest_ms, end_ms = setting.of(member).longest_ms, setting.end_ms
    latest_ms = end_ms if longest_ms is None else setting.next_ms(member, longest_ms)
    return TimeRange(setting.seen_ms(member), min(latest_ms, end_ms))


def _silent(
    member: RecordedMember, setting: CauseEvidence, start: TimeRange, came_back: bool, begun: bool
) -> Departure:
    """Return why a member is gone that was silent for its session timeout. A member that polled
    too late left no earlier than `max.poll.interval.ms` after what its last commit was for.
    """
    last_ms, longest_ms = setting.of(member)
    seen_ms, end_ms = setting.seen_ms(member), setting.end_ms
    session_ms, poll_ms = member.session_ms, member.rebalance_ms
    # After a load each session began anew, at a time that the log does not show.
    over_ms = min(seen_ms + session_ms, end_ms)
    unknown = Departure(UNKNOWN, end_ms, TimeRange(seen_ms, end_ms))
    if member.instance is None and not setting.reloaded:
        unknown = unknown._replace(over_ms=over_ms)
    if longest_ms is None or last_ms is None:
        return unknown
    next_ms = setting.next_ms(member, longest_ms)
    ended = TimeRange(over_ms, end_ms if setting.reloaded else min(next_ms + session_ms, end_ms))
    expired = Departure(EXPIRED, end_ms if setting.reloaded else over_ms, ended)
    if member.instance is not None:  # else an administrator may have removed it
        # One that polls too late stops sending heartbeats, but does not leave.
        expired = expired._replace(window=TimeRange(over_ms, end_ms))
        return expired if setting.has_stopped(member) else unknown
    can_have_left = max(start.earliest_ms, seen_ms) <= next_ms
    latest_ms = end_ms if begun else start.latest_ms
    can_have_expired = setting.reloaded or start.earliest_ms <= next_ms + session_ms
    # A join phase that waited for another member was begun by this one, if by nothing else.
    can_have_expired &= not setting.waited or over_ms <= latest_ms
    # Some clients commit what was polled up to a pause later.
    late = TimeRange(seen_ms - longest_ms + poll_ms, min(next_ms + poll_ms, end_ms))
    can_be_late = late.earliest_ms <= latest_ms and start.earliest_ms <= next_ms + poll_ms
    # A client that commits less often than it has to poll shows nothing of its polls.
    is_doubtful = can_be_late and longest_ms < poll_ms
    if can_have_expired and not is_doubtful and (not can_have_left or came_back):
        return expired
    if can_have_left and not can_have_expired:
        return Departure(LEFT, last_ms, _left_in(member, setting))
    if can_be_late and not can_have_left and not can_have_expired:
        return Departure(LEFT, end_ms, late, MAX_POLL)
    return unknown


def share_fate(
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
