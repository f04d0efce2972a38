"""Infers the cause of a rebalance from the records of two generations and the commits between them.

A member only in the second record has joined; one only in the first has left or its session
expired (`departures.py`). If the records cannot decide, the cause is `unknown`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from groupkeeper.history.causes import (
    EXPIRED,
    JOINED,
    LEADER,
    LEFT,
    REJOINED,
    RETURNED_CHANGED,
    RETURNED_UNREADY,
    STATIC_JOINED,
    SUBSCRIPTION,
    UNKNOWN,
)
from groupkeeper.history.departures import (
    Departure,
    TimeRange,
    departure_of,
    heartbeat_ms,
    share_fate,
    start_of,
    start_of_others,
)
from groupkeeper.history.evidence import WAITED_MS, CauseEvidence
from groupkeeper.history.records import Generation, RecordedMember
from groupkeeper.history.rows import keeps_partitions


@dataclass(slots=True)
class Changes:
    """Members of a generation compared with those of the one before."""

    joined: list[RecordedMember] = field(default_factory=list)
    gone: list[RecordedMember] = field(default_factory=list)
    stayed: list[RecordedMember] = field(default_factory=list)
    """As they were before; those whose instance id has another member id now, too."""
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
    stopped_first: bool = False
    """Whether it is known from who stopped committing first."""

    def came_after(self, first: "InferredCause") -> None:
        """Put another cause first, which began the rebalance."""
        self.code, self.by, self.likely = first.code, first.by, first.likely
        self.more = [each for each in self.more if each != first.code]


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
    for key, each in before.items():
        (found.stayed if key in now or key in taken else found.gone).append(each)
    return found


def explain(
    before: Generation | None, now: Generation, changes: Changes, setting: CauseEvidence
) -> InferredCause:
    """Infer the cause of a round. `before` is None for a new group. Updates `changes`: a static
    member that came back after its session had expired is moved from `replaced` to `gone` and
    `joined`.
    """
    members = {} if before is None else before.members
    setting = _with_end(changes, now, setting)
    start = TimeRange(*setting.seen.narrowed(*start_of(changes.stayed, now, setting)))
    found = InferredCause(UNKNOWN)
    if before is not None:
        found.departures = _departures(before, changes, setting, start)
    protocol_changed = bool(members) and before is not None and before.protocol != now.protocol
    who = _who(now, changes, setting, found, protocol_changed)
    is_plain = not (setting.aborted or setting.converted or setting.grown or changes.replaced)
    seen = setting.seen.first_code(who) if is_plain else None
    code = seen or _first(who, changes, setting, start, found.departures)
    found.code = code
    found.more = [each for each in who if each not in (code, UNKNOWN)]
    if found.more == [RETURNED_UNREADY] and code == UNKNOWN:
        found.more = []  # no other cause shows: an administrator may have removed the member
    if code == LEADER and now.leader in now.members:
        found.by = now.members[now.leader]
    elif code != UNKNOWN and not (UNKNOWN in who and code in (LEFT, EXPIRED)):
        found.by = _only(who[code], now, setting)
    if found.by is not None:
        departure = found.departures.get(found.by.member)
        found.likely = departure.likely if departure else None
    for old, each in [*changes.replaced]:
        if old.member in found.departures:
            changes.replaced.remove((old, each))
            changes.gone.append(old)
            changes.joined.append(each)
    return found


def _only(
    some: Sequence[RecordedMember], now: Generation, setting: CauseEvidence
) -> RecordedMember | None:
    """Return the member behind the first cause, of those with its code; None if several may be. If
    the group is empty no join phase waited for the last one: all may have gone at the same moment.
    """
    ended_by = setting.ended_by if now.members else ()
    found = [each for each in some if each.member not in ended_by] or some
    return found[0] if len(found) == 1 else None


def _with_end(changes: Changes, now: Generation, setting: CauseEvidence) -> CauseEvidence:
    """Return the evidence with the members that may have ended the join phase by going. None if a
    member that stayed committed just before: it may have been the last to rejoin.
    """
    gone, stayed = changes.gone, changes.stayed
    if any(map(setting.ends_by_commit, stayed)):
        return setting
    found = [each for each in gone if setting.ends_with(each) or setting.ends_by_commit(each)]
    if not found and _is_late(changes, now, setting):
        return setting._replace(ended_by=[gone[0].member], waited=True, late=gone[0].member)
    waited = bool(found) and len(stayed) + len(gone) + len(changes.joined) > len(found)
    return setting._replace(ended_by=[each.member for each in found], waited=waited)


def _is_late(changes: Changes, now: Generation, setting: CauseEvidence) -> bool:
    """Return whether the only member that is gone had not rejoined, for which all others had waited
    since they stopped committing: until its client left, as it was not polled in time, or until the
    join phase timed out.
    """
    if len(changes.gone) != 1 or changes.gone[0].instance is not None or setting.aborted:
        return False
    [late], end_ms = changes.gone, setting.end_ms
    start = start_of(changes.stayed, now, setting)
    if not changes.stayed or start.latest_ms >= end_ms - WAITED_MS:
        return False
    limits = [each.rebalance_ms for each in (*changes.stayed, late, *changes.joined)]
    if _is_within(end_ms - max(limits), start):
        return True
    pause_ms = setting.of(late).longest_ms
    if pause_ms is None:
        return False
    polled = TimeRange(setting.seen_ms(late) - pause_ms, setting.next_ms(late, pause_ms))
    return _is_within(end_ms - late.rebalance_ms, polled)


def _is_within(at_ms: int, times: TimeRange) -> bool:
    return times.earliest_ms <= at_ms <= times.latest_ms


def _departures(
    before: Generation, changes: Changes, setting: CauseEvidence, start: TimeRange
) -> dict[str, Departure]:
    """Return why each member that is gone is gone."""
    found: dict[str, Departure] = {}
    gone, came = changes.gone, {each.identity for each in changes.joined}
    came -= {each.identity for each in changes.stayed}  # several clients have the same
    all_gone = len(gone) == len(before.members) > 1
    last = max(gone, key=setting.seen_ms, default=None)
    others = start_of_others(last, before, setting) if all_gone and last else start
    begun = bool(setting.aborted or changes.joined or changes.replaced or changes.resubscribed)
    firsts = [each.member for each in gone if each.member not in setting.ended_by]
    for each in gone:
        mine = start if each is last or setting.aborted else others
        is_begun = begun or any(member != each.member for member in firsts)
        is_back = each.identity in came
        found[each.member] = departure_of(each, setting, mine, is_back, is_begun)
    if all_gone:
        share_fate(gone, setting, found)
    return found


def _who(
    now: Generation,
    changes: Changes,
    setting: CauseEvidence,
    found: InferredCause,
    protocol_changed: bool,
) -> dict[str, list[RecordedMember]]:
    """Return the codes of all causes that the records show, and the members behind each."""
    end_ms = setting.end_ms
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
            over_ms = min(setting.seen_ms(old) + old.session_ms, end_ms)
            found.departures[old.member] = Departure(EXPIRED, end_ms, TimeRange(over_ms, end_ms))
    if changes.resubscribed and not protocol_changed:
        who.setdefault(SUBSCRIPTION, []).extend(changes.resubscribed)
    leader = [now.members[now.leader]] if now.leader in now.members else []
    keeps = keeps_partitions(now.protocol, now.is_told)
    # A follower that rejoins unprompted triggers a rebalance if its bytes have changed, and where
    # bytes list owned partitions, those of all have. Leaders rejoin for new partitions.
    others = bool(who.keys() - {RETURNED_UNREADY}) if setting.grown else who or changes.replaced
    is_open = bool(leader) and not setting.converted and not others
    alone = setting.grown or all(each.member == now.leader for each in changes.rejoined)
    if setting.withheld and keeps is not False and changes.rejoined and setting.soon:
        who[REJOINED] = changes.rejoined
    elif is_open and alone:
        who[LEADER] = leader
    elif is_open and (first := _first_to_stop([*now.members.values()], setting)):
        who[LEADER if first.member == now.leader else REJOINED] = [first]
        found.stopped_first = True
    return who


def _first_to_stop(
    members: Sequence[RecordedMember], setting: CauseEvidence
) -> RecordedMember | None:
    """Return the member that stopped committing while all others went on, one of them to the end of
    the join phase: it rejoined first, and waited for them. A member that hangs, on which others
    wait, does not end so. None if there is no such one, or it stopped longer before the end than
    others take to learn of a rebalance and rejoin: it may have had nothing to commit.
    """
    first = min(members, key=lambda each: setting.of(each).last_ms or 0)
    others = [setting.of(each)[:2] for each in members if each is not first]
    longest_ms = setting.of(first).longest_ms
    if longest_ms is None or not others:
        return None
    until_ms, has_ended, longest_ms = setting.next_ms(first, longest_ms), False, 0
    learned_ms = until_ms + max(heartbeat_ms(each) for each in members if each is not first)
    for last_ms, pause_ms in others:
        if last_ms is None or pause_ms is None or last_ms <= until_ms:
            return None
        has_ended |= last_ms + pause_ms >= setting.end_ms
        longest_ms = max(longest_ms, pause_ms)
    return first if has_ended and setting.end_ms <= learned_ms + longest_ms else None


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
    start: TimeRange,
    departures: Mapping[str, Departure],
) -> str:
    """Return the code of the first cause; unknown if the order cannot be decided."""
    firsts = {code for code in who if code != RETURNED_UNREADY}
    if setting.converted:
        return UNKNOWN
    if setting.grown and (EXPIRED in firsts or setting.late):
        firsts.add(LEADER)  # for new partitions it may have rejoined before a session ended
    if setting.aborted and len(firsts) > 1:
        return UNKNOWN
    if firsts == {EXPIRED} and _only_ended(changes.stayed, setting, departures):
        return UNKNOWN  # what began the join phase does not show
    if len(firsts) == 1:
        [code] = firsts
        return code if len(who[code]) > setting.aborted else UNKNOWN
    if firsts == {EXPIRED, STATIC_JOINED} and changes.replaced:
        return EXPIRED
    if firsts == {EXPIRED, JOINED} and setting.reloaded and _are_same_clients(changes):
        return JOINED
    firsts = _possible(firsts, setting, start, departures)
    if firsts == {LEFT, JOINED} and _restarts(changes, departures):
        return LEFT
    code = firsts.pop() if len(firsts) == 1 else UNKNOWN
    return code if code in who or code == LEADER else UNKNOWN


def _only_ended(
    stayed: Sequence[RecordedMember], setting: CauseEvidence, departures: Mapping[str, Departure]
) -> bool:
    """Return whether sessions that expired ended the join phase, and did not begin it: it had
    waited for their members. After a load it is not known when sessions ended, but all who stayed
    may have stopped committing before.
    """
    if setting.reloaded:
        seen = map(setting.of, stayed)
        known = [at + pause for at, pause in seen if at is not None and pause is not None]
        return len(known) == len(stayed) > 0 and max(known) + WAITED_MS < setting.end_ms
    expired = {key for key, each in departures.items() if each.code == EXPIRED}
    return setting.waited and expired <= {*setting.ended_by}


def _possible(
    codes: set[str], setting: CauseEvidence, start: TimeRange, departures: Mapping[str, Departure]
) -> set[str]:
    """Return the codes of what can have begun the join phase: not what happened after its latest
    possible start, or after something else.
    """
    found: dict[str, list[TimeRange]] = {}
    for each in departures.values():
        for code, window in each.options.items():
            found.setdefault(code, []).append(window)
    windows = dict.fromkeys(codes - {UNKNOWN}, TimeRange(setting.began_ms, setting.end_ms))
    for code, some in found.items():
        windows[code] = TimeRange(*(min(times) for times in zip(*some, strict=True)))
    latest_ms = min([start.latest_ms, *(each.latest_ms for each in windows.values())])
    return {code for code, each in windows.items() if each.earliest_ms <= latest_ms}


def _restarts(changes: Changes, departures: Mapping[str, Departure]) -> bool:
    """Return whether all joined members are clients of members that left, and thus left first."""
    left = {each.identity for each in changes.gone if departures[each.member].code == LEFT}
    left -= {each.identity for each in changes.stayed}  # several clients have the same
    return all(each.identity in left for each in changes.joined)


def _are_same_clients(changes: Changes) -> bool:
    """Return whether only clients of gone members joined, or of all of these. A load gives members
    a whole session, before whose end their clients join anew; after it, if no other member is
    left, the group would be empty first.
    """
    stayed = {each.identity for each in changes.stayed}
    came, gone = ({each.identity for each in some} for some in (changes.joined, changes.gone))
    return not came & stayed and (came == gone or (came < gone and not stayed))
