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
from groupkeeper.history.departures import Departure, Start, departure_of, share_fate, start_of
from groupkeeper.history.evidence import CauseEvidence
from groupkeeper.history.records import Generation, RecordedMember
from groupkeeper.history.rows import keeps_partitions


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
    start = start_of(stayed, now, setting, aborted)
    came = {each.identity for each in changes.joined}
    begun = bool(came or changes.replaced or changes.resubscribed or aborted or len(gone) > 1)
    found = InferredCause(UNKNOWN)
    for each in changes.gone:
        back = each.identity in came
        found.departures[each.member] = departure_of(each, setting, start, back, begun)
    if not stayed and len(gone) > 1:
        share_fate(changes.gone, setting, found.departures)
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
