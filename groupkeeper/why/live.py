"""Describes what a group is doing now, from `live` of `GET /api/v1/groups/GROUP`.

Servers of other versions may have other fields: all fields are optional here.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from groupkeeper.history.fields import Part
from groupkeeper.history.rounds import Round
from groupkeeper.why.texts import count, name_of, person, short_id, some_of, span
from groupkeeper.why.words import cause_text

_TIMERS: Final[Mapping[str, str]] = {
    "join": "the rebalance timeout ends the join phase: dynamic members that are missing are"
    " removed, static ones keep their places",
    "initial_delay": "the delay of the first rebalance ends (group.initial.rebalance.delay.ms)",
    "sync": "the rebalance timeout ends the sync phase: members that did not request their"
    " assignment are removed",
    "session": "the session of {who} ends unless it sends a heartbeat",
    "new_member": "{who} is removed unless the join phase ends first",
    "window": "newcomers without partitions get some, in a rebalance",
    "seats": "the places of lost members are given up, and the group rebalances",
    "pending_member": "the member id {who} is dropped unless its client joins with it",
}
"""The effect of each timer, by name."""


def live_text(view: Part) -> str:
    """Return the group's state, the members it waits for, and its next timers."""
    members = [each for each in view.get("members") or () if isinstance(each, dict)]
    parts = [_state(view, members), waiting_text(view), _next(view, members)]
    return " ".join(filter(None, parts))


def waiting_text(view: Part) -> str:
    """Return whom the group waits for; empty if it does not wait."""
    members = [each for each in view.get("members") or () if isinstance(each, dict)]
    return _waiting(view, members)


def live_key(view: Part) -> object:
    """Return a key that changes when the text differs in more than elapsed time."""
    rebalance = view.get("rebalance") or {}
    return (
        view.get("state"),
        view.get("generation"),
        rebalance.get("phase"),
        str(view.get("waiting_for")),
    )


def _state(view: Part, members: Sequence[Part]) -> str:
    rebalance = view.get("rebalance") or {}
    since = rebalance.get("since_ms", view.get("state_ms"))
    for_ms = f" for {span(since)}" if isinstance(since, int) else ""
    number = "epoch" if any(map(_has_epoch, members)) else "generation"
    text = (
        f"Now: {view.get('state', 'unknown')}{for_ms}, {number} {view.get('generation', '?')}, "
        f"{count(len(members), 'member')}."
    )
    text += _seats(view, members)
    text += _seen(view)
    cause = rebalance.get("cause") or {}
    return f"{text} {cause_text(cause, Round('', 0, 0, 0))}" if cause.get("code") else text


def _seen(view: Part) -> str:
    """Tell what an observer was told of a rebalance under way."""
    seen = view.get("seen")
    if not isinstance(seen, dict):
        return ""
    text = " It is at least that old: the coordinator was asked."
    for name, what in (("came", "New"), ("gone", "Gone")):
        some = [short_id(str(each)) for each in seen.get(name) or ()]
        text += f" {what}: {some_of(some)}." if some else ""
    return text


def _seats(view: Part, members: Sequence[Part]) -> str:
    lost = [each for each in members if each.get("reserved_ms") is not None]
    left = view.get("seats_end_in_ms")
    idle = sum(each.get("standby") is True for each in members)
    text = f" {count(idle, 'member')} without partitions stand by." if idle else ""
    if not lost or not isinstance(left, int):
        return text
    names = some_of(name_of(each) for each in lost)
    return f"{text} {names} lost: the partitions are reserved for another {span(left)}."


def _waiting(view: Part, members: Sequence[Part]) -> str:
    rebalance = view.get("rebalance") or {}
    if rebalance.get("initial_delay"):
        joined = sum(bool(each.get("joined")) for each in members)
        return f"{count(joined, 'member')} joined; the group was empty, and waits for more."
    waiting = view.get("waiting_for") or []
    if not waiting:
        return ""
    by_id = {each.get("member"): each for each in members}
    awaited = view.get("waiting_for_count", len(waiting))
    epoch = view.get("generation", "?")
    names = some_of((_waited(each, by_id.get(each), epoch) for each in waiting), number=awaited)
    if rebalance.get("phase") == "sync":
        late = sum(not each.get("synced") for each in members)
        return f"Waiting for the leader {names} to assign; {count(late, 'member')} not synced yet."
    if rebalance.get("phase") == "reconcile":
        return f"Waiting for {awaited} of {len(members)} to reach epoch {epoch}: {names}."
    pending = view.get("pending_count", len(view.get("pending") or ()))
    return f"Waiting for {awaited} of {len(members) + pending}: {names}."


def _has_epoch(row: Part) -> bool:
    """Return whether a member is one of a group of a newer type (KIP-848)."""
    return row.get("epoch") is not None


def _waited(member: object, row: Part | None, epoch: object) -> str:
    if row is None:
        return f"{short_id(str(member))} (got its member id, has not joined yet)"
    if _has_epoch(row):
        waits = ", and waits for partitions of others" if row["epoch"] == epoch else ""
        return f"{person(row)}, at epoch {row['epoch']}{waits}"
    heard = row.get("heard_ms_ago")
    ago = f", last heard from {span(heard)} ago" if isinstance(heard, int) else ""
    if row.get("heard") is False:
        ago = ", not heard from since the coordinator was loaded"
    closed = ", connection closed" if row.get("connection") == "closed" else ""
    return f"{person(row)}{ago}{closed}"


def _next(view: Part, members: Sequence[Part]) -> str:
    """Describe the next timer, and the timer that ends the phase."""
    names = {str(each.get("member")): name_of(each) for each in members}
    texts = (_timer(view.get(each) or {}, names) for each in ("next_timer", "phase_timer"))
    return " ".join(dict.fromkeys(filter(None, texts)))


def _timer(timer: Part, names: Part) -> str:
    text, left = _TIMERS.get(timer.get("name", "")), timer.get("in_ms")
    if text is None or not isinstance(left, int):
        return ""
    member = str(timer.get("member"))
    who = names.get(member) or short_id(member)
    return f"In {span(left)} {text.format(who=who)}."
