"""Describes rounds that are inferred from records of `__consumer_offsets`, and what to do.

Records show who was a member of a generation, its subscription and its partitions; commits show
when its client was alive. They show no heartbeats, connections or client software, and not when a
round began: so no setting is proposed here, as its cost cannot be estimated.
"""

from collections.abc import Callable, Mapping
from typing import Final

from groupkeeper.history.causes import (
    EXPIRED,
    JOINED,
    LEADER,
    LEFT,
    MAX_POLL,
    REJOINED,
    REMOVED,
    RETURNED_CHANGED,
    RETURNED_UNREADY,
    STATIC_JOINED,
    SUBSCRIPTION,
    UNKNOWN,
)
from groupkeeper.history.evidence import RELOADED, STOPPED_FIRST
from groupkeeper.history.fields import Part, number
from groupkeeper.history.newer_departures import REVOCATION_TIMEOUT, TOPICS_CHANGED
from groupkeeper.history.rounds import SUPERSEDED, Round
from groupkeeper.why.texts import count, joined_text, name_of, person, some_of, span, time_text

READ_FURTHER: Final = (
    "Read further back, with an earlier --since, unless a compaction has removed that record."
)
NO_RECORD: Final = "the record before this one was not read"
"""Why the first round of what was read has no cause."""
_LOADED: Final = (
    "Since the rebalance before, another broker became the coordinator, or it was restarted: "
    "sessions began anew then."
)


def sure_text(about: Mapping[str, object]) -> str:
    """Return how sure something inferred is: `inferred, 97 %`. `about` has a `confidence`."""
    sure = about.get("confidence")
    return f"inferred, {sure:.0%}".replace("%", " %") if isinstance(sure, float) else "inferred"


def inferred_trigger(current: Round) -> str:
    """Return a sentence about the cause, with how sure it is; an unknown one has no figure."""
    cause = current.cause or {}
    code = str(cause.get("code"))
    if code == UNKNOWN:
        return f"Inferred: {unknown_text(current)}"
    sure = sure_text({"confidence": current.confidence})
    return f"{sure[0].upper()}{sure[1:]}: {_sentence(code, current, cause.get('who'))}."


def inferred_more(current: Round) -> str:
    """Name the other causes of a round, and bounds of its start, if it was seen; the causes of an
    unknown one are in its sentence.
    """
    texts = [] if (current.cause or {}).get("code") == UNKNOWN else _more(current)
    more = f"Meanwhile {', and '.join(texts)}." if texts else ""
    return joined_text(more, _seen_start(current))


def _seen_start(current: Round) -> str:
    after_ms, by_ms = current.not_before_ms, current.first_seen_ms
    if after_ms is not None and by_ms is not None:
        return f"It began between {time_text(after_ms)} and {time_text(by_ms)}."
    if after_ms is not None:
        return f"It began after {time_text(after_ms)}."
    return "" if by_ms is None else f"It began no later than {time_text(by_ms)}."


def inferred_load(current: Round) -> str:
    """Say that the group's coordinator changed since the record before, if so."""
    evidence = (current.cause or {}).get("evidence") or {}
    return _LOADED if current.source and evidence.get(RELOADED) else ""


def _more(current: Round) -> list[str]:
    codes = dict.fromkeys(each.get("code") for each in current.more_causes)
    return [_sentence(str(code), current, None) for code in codes]


def unknown_text(current: Round) -> str:
    """Describe what the records show of a change whose cause they do not show."""
    texts = _more(current)
    lost = [
        each
        for each in current.removed
        if (each.get("cause") or {}).get("code", UNKNOWN) == UNKNOWN
    ]
    if lost:
        verb = "is" if len(lost) == 1 else "are"
        text = f"{_names(lost)} {verb} gone, and the records do not show why"
        if all(each["who"].get("instance") for each in lost):  # these do not leave when closed
            text += ": removed after session.timeout.ms, or by an administrator"
        texts.append(text)
    if len(texts) > 1:
        texts.append("the records do not show which came first")
    if texts:
        return f"{'; '.join(texts)}."
    if is_first(current):
        return f"{NO_RECORD}, so the cause is not known."
    return "the records do not show the cause."


def is_first(current: Round) -> bool:
    """Return whether the record before the round is unknown."""
    if current.source is None or current.outcome == SUPERSEDED:  # such a round has no record
        return False
    return (current.cause or {}).get("code") == UNKNOWN and current.from_state is None


# -- causes ----------------------------------------------------------------------------------------


def _sentence(code: str, current: Round, who: Part | None) -> str:
    """Return what members did, without a full stop. `who`: the only one that did it, if known."""
    if code == TOPICS_CHANGED:
        return _topics(current)
    tell = _SENTENCES.get(code)
    if current.group_type is not None:
        tell = _OF_EPOCHS.get(code, tell)
    if tell is None:
        return f"the cause is {code}, which this command does not know"
    name, one, many = tell
    found = _members(code, current, name)
    if who is None and len(found) == 1:
        who = found[0]["who"]
    is_only = code == (current.cause or {}).get("code") and current.outcome != SUPERSEDED
    nobody = "several members" if is_only else "one or more members"
    subject = person(who) if who else _names(found) if found else nobody
    text = f"{subject} {one if who or len(found) == 1 else many}"
    more = _DETAILS.get(code)
    return text if more is None else f"{text}{more(current, found)}"


def _members(code: str, current: Round, name: str) -> list[Part]:
    """Return the members of a list of the round to which the code applies."""
    found: list[Part] = list(getattr(current, name)) if name else []
    if name == "removed":
        return [each for each in found if (each.get("cause") or {}).get("code") == code]
    if name == "added":
        is_static = code == STATIC_JOINED
        return [each for each in found if (each.get("kind") == "static") == is_static]
    return found


def _of_silence(current: Round, found: list[Part]) -> str:
    """Name the session timeout, and the time of the last commit."""
    limit = current.session_timeout_ms if current.group_type is None else None
    text = f" of {limit}" if limit is not None and len(found) == 1 else ""
    silent = [number(each["cause"].get("evidence") or {}, "silent_ms") for each in found]
    last = [each["at_ms"] - ms for each, ms in zip(found, silent, strict=True) if ms is not None]
    return f"{text}; the last commit was at {time_text(max(last))}" if last else text


def _topics(current: Round) -> str:
    """Say which topic of a consumer group has changed, as far as its records show."""
    evidence = (current.cause or {}).get("evidence") or {}
    before, now = number(evidence, "partitions_before"), number(evidence, "partitions_now")
    if before is not None and now is not None:
        return f"{evidence.get('topic')} has {count(now, 'partition')}, not {before}"
    if evidence.get("pattern") is None:
        return "topics of the group were created, deleted or changed"
    gained, lost = (evidence.get(name) or () for name in ("gained", "lost"))
    found = [f"{some_of(gained)} more"] if gained else []
    found += [f"{some_of(lost)} no more"] if lost else []
    return f"the pattern {evidence['pattern']} matches other topics: {', '.join(found)}"


def _of_departure(current: Round, found: list[Part]) -> str:
    late = any(each["cause"].get("likely") == MAX_POLL for each in found)
    return ": probably no call of poll within max.poll.interval.ms" if late else ""


def _of_join(current: Round, found: list[Part]) -> str:
    return f"{' the empty group' if current.from_state == 'Empty' else ''}{_away(current)}"


def _of_static_join(current: Round, found: list[Part]) -> str:
    return f"{'; the group was empty' if current.from_state == 'Empty' else ''}{_away(current)}"


def _away(current: Round) -> str:
    if current.away_ms is None:
        return ""
    return f"; a client of this name was lost {span(current.away_ms)} before"


def _of_rejoin(current: Round, found: list[Part]) -> str:
    if _has_stopped_first(current):
        return " by itself: it stopped committing while all others went on"
    return ", after the last rebalance had taken partitions from members and given them to none"


def _has_stopped_first(current: Round) -> bool:
    cause = current.cause or {}
    return cause.get("code") == REJOINED and bool((cause.get("evidence") or {}).get(STOPPED_FIRST))


_REJOINED: Final = "rejoined with the same topics"
_SENTENCES: Final[Mapping[str, tuple[str, str, str]]] = {
    JOINED: ("added", "joined", "joined"),
    STATIC_JOINED: (
        "added",
        "joined with an instance id that the group did not have",
        "joined with instance ids that the group did not have",
    ),
    LEFT: ("removed", "left", "left"),
    EXPIRED: (
        "removed",
        "was removed: no heartbeat came within its session.timeout.ms",
        "were removed: no heartbeats came within their session.timeout.ms",
    ),
    REMOVED: (
        "removed",
        "was removed before its session ended, by an administrator or by its application",
        "were removed before their sessions ended, by an administrator or by their applications",
    ),
    RETURNED_CHANGED: (
        "replaced",
        "restarted with protocols or topics that change the group's",
        "restarted, one with protocols or topics that change the group's",
    ),
    RETURNED_UNREADY: (
        "replaced",
        "restarted while the group was rebalancing, or a second client has its instance id",
        "restarted while the group was rebalancing, or second clients have their instance ids",
    ),
    SUBSCRIPTION: ("", "rejoined with other topics", "rejoined with other topics"),
    LEADER: ("", "rejoined unchanged; it was the leader", "rejoined unchanged"),
    REJOINED: ("", _REJOINED, _REJOINED),
}
"""Code -> the list of the round with the members behind it, and what one or several of them did."""
_OF_EPOCHS: Final[Mapping[str, tuple[str, str, str]]] = {
    EXPIRED: (
        "removed",
        "was removed: no heartbeat came within the group's consumer.session.timeout.ms",
        "were removed: no heartbeats came within the group's consumer.session.timeout.ms",
    ),
    REVOCATION_TIMEOUT: (
        "removed",
        "was removed: it did not give up partitions within its rebalance timeout",
        "were removed: they did not give up partitions within their rebalance timeouts",
    ),
    RETURNED_CHANGED: (
        "replaced",
        "restarted with other topics",
        "restarted, one with other topics",
    ),
    SUBSCRIPTION: ("", "subscribed to other topics", "subscribed to other topics"),
}
"""The same for consumer groups (KIP-848), where it differs."""
_DETAILS: Final[Mapping[str, Callable[[Round, list[Part]], str]]] = {
    JOINED: _of_join,
    STATIC_JOINED: _of_static_join,
    LEFT: _of_departure,
    EXPIRED: _of_silence,
    REJOINED: _of_rejoin,
}


def _names(some: list[Part]) -> str:
    return some_of(name_of(each["who"]) for each in some)


# -- advice ----------------------------------------------------------------------------------------


def inferred_advice(current: Round) -> str:
    """Return what to look for, as far as records justify it."""
    code = str((current.cause or {}).get("code"))
    if code == UNKNOWN:
        return READ_FURTHER if is_first(current) else "The logs of the clients say more."
    tell = {**_ADVICE, **_ADVICE_ON_EPOCHS}.get(code, "")
    return tell if isinstance(tell, str) else tell(current)


def _after_join(current: Round) -> str:
    if current.away_ms is not None:
        return f"It was away for {span(current.away_ms)}, counted from its last commit."
    if current.from_state == "Empty":
        return "Nothing is wrong: the group was empty."
    text = "Nothing is wrong if a member was added"
    if current.repeats == 1:
        return f"{text}."
    since = span(current.repeats_since_ms or 0)
    return f"{text}: this is number {current.repeats} in a row, within {since}."


def _after_static_join(current: Round) -> str:
    if current.away_ms is None:
        return "Nothing is wrong at its first start."
    away = span(current.away_ms)
    return f"Its place was given up before it came back after {away}, counted from its last commit."


def _after_leave(current: Round) -> str:
    likely = (current.cause or {}).get("likely")
    limit = current.rebalance_timeout_ms
    known = f" ({limit} for this member)" if limit else ""
    if likely == MAX_POLL:
        return f"If it was not closed, a batch took longer than max.poll.interval.ms{known}."
    asked = (
        "its log says whether its application called poll later than "
        f"max.poll.interval.ms{known} allows."
    )
    if current.returned_ms is None:
        return f"Nothing is wrong if it was meant to stop. If it was not, {asked}"
    back = span(current.returned_ms)
    return f"It came back {back} after its last commit. If it was not restarted, {asked}"


def _after_expiry(current: Round) -> str:
    back = current.returned_ms
    return joined_text(
        "" if back is None else f"It was back {span(back)} after its last commit.",
        "Find what ended or paused the process, or cut its network.",
    )


def _after_rejoin(current: Round) -> str:
    if _has_stopped_first(current):
        return "Nothing is wrong if its application enforced a rebalance: else its log says why."
    return (
        "Nothing is wrong: members that keep their partitions need a second rebalance to give them "
        "to others."
    )


_ADVICE: Final[Mapping[str, str | Callable[[Round], str]]] = {
    JOINED: _after_join,
    STATIC_JOINED: _after_static_join,
    LEFT: _after_leave,
    EXPIRED: _after_expiry,
    REMOVED: (
        "Ask who removed it: a member with a group.instance.id leaves only if its application asks "
        "for that when it closes the consumer (KIP-1092)."
    ),
    RETURNED_CHANGED: "All members need the same partition.assignment.strategy.",
    RETURNED_UNREADY: ("Restart members one after the other, each when the group is Stable again."),
    SUBSCRIPTION: (
        "Nothing is wrong if topics or partitions were added or the application changed."
    ),
    LEADER: "Nothing is wrong if partitions were added: else its log says why it rejoined.",
    REJOINED: _after_rejoin,
}
"""Advice by code."""
_ADVICE_ON_EPOCHS: Final[Mapping[str, str]] = {
    REVOCATION_TIMEOUT: (
        "Its log says what it did before it gave partitions up: its rebalance timeout is its"
        " max.poll.interval.ms."
    ),
    TOPICS_CHANGED: "Nothing is wrong if topics or partitions were added or deleted.",
}
"""Advice on causes that only consumer groups have (KIP-848)."""
