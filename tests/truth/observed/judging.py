"""Compares what is told of a group with what its coordinator's log and the play itself say.

Each told rebalance is judged by the generation that it made. It is *right* if its cause is the
reason in the log, *unknown* if it says so, and *wrong* if anything that is told (cause, who,
reason, who came, who is gone and why) is not in the log. A play is wrong if any of its rebalances
is, and unknown if one of those is that it is about.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.truth.observed import broker_log
from tests.truth.observed.broker_log import GroupTruth, Reason, Rebalance
from tests.truth.observed.stage import REMOVED, STALLED, SUBSCRIBED, Deed

RIGHT, UNKNOWN, WRONG, NOT_PLAYED = "right", "unknown", "wrong", "not played"
VERDICTS: Final = (RIGHT, UNKNOWN, WRONG, NOT_PLAYED)
MAX_POLL: Final = "max_poll_exceeded"
_DYNAMIC, _STATIC = "member_joined", "static_member_joined"
NOT_READ: Final = "the record before this one was not read"
"""False of each play, of which the whole log is read."""
_POLLED_LATE: Final = "poll timeout has expired"
_WRITTEN: Final = frozenset({"completed", "emptied"})
"""Outcomes of rebalances that leave a record."""
_GONE: Final = frozenset(
    {broker_log.LEFT, broker_log.EXPIRED, broker_log.JOIN_TIMEOUT, broker_log.SYNC_TIMEOUT}
)
_CODES: Final[Mapping[str, tuple[str, ...]]] = {
    broker_log.LEFT: ("member_left",),
    broker_log.EXPIRED: ("session_expired",),
    broker_log.JOIN_TIMEOUT: ("join_timeout",),
    broker_log.SYNC_TIMEOUT: ("sync_timeout",),
    broker_log.UPDATED: ("member_rejoined",),
    broker_log.LEADER: ("leader_rejoined", "member_rejoined"),
    broker_log.CHANGED: (broker_log.CHANGED,),
    broker_log.UNREADY: (broker_log.UNREADY,),
    broker_log.RETURNED: (broker_log.UNREADY, broker_log.CHANGED),
}
"""Reason in the log -> the codes that say the same."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """The verdict about a rebalance, `true` and `told` in short."""

    generation: int
    verdict: str
    true: str
    told: str
    why: list[str] = field(default_factory=list)
    counts: bool = True
    """Whether it belongs to what the play is about."""


@dataclass(frozen=True, slots=True)
class PlayVerdict:
    """The verdict about a play in one layer, and those about each rebalance."""

    verdict: str
    rounds: list[RoundVerdict]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    rows: Sequence[Row],
    truth: GroupTruth,
    deeds: Sequence[Deed],
    begun_ms: int,
    unknowable: Iterable[str] = (),
    harm: str = "",
) -> PlayVerdict:
    """Judge what is told of a classic group. `unknowable`: reasons that the records cannot show in
    this play, so that not to know them is right; `harm`: pattern of sentences that are false.
    """
    told = {row["generation"]: row for row in rows if row.get("kind") == "round"}
    verdicts, before = [], 0
    for generation in sorted({*truth.rebalances, *told}):
        made = truth.rebalances.get(generation)
        window = [
            each
            for number, one in truth.rebalances.items()
            if before < number <= generation
            for each in (*one.also, *([one.first] if one.first else []))
        ]
        row = told.get(generation)
        if row is not None and row["outcome"] in _WRITTEN:
            before = generation
        elif row is None and made is not None and not made.ended:
            continue  # under way, or superseded without an assignment, at the end
        verdicts.append(_judge_round(generation, row, made, window, deeds, begun_ms, unknowable))
    verdicts += _false_sentences(rows, begun_ms, harm)
    worst = [each.verdict for each in verdicts if each.counts or each.verdict == WRONG]
    order = (RIGHT, UNKNOWN, WRONG)
    return PlayVerdict(max(worst, key=order.index, default=RIGHT), verdicts)


def _judge_round(
    generation: int,
    row: Row | None,
    made: Rebalance | None,
    window: Sequence[Reason],
    deeds: Sequence[Deed],
    begun_ms: int,
    unknowable: Iterable[str],
) -> RoundVerdict:
    first = None if made is None else made.first
    true = "nothing" if made is None else reason_text(first)
    counts = made is not None and made.at_ms >= begun_ms
    if row is None:
        return RoundVerdict(generation, UNKNOWN, true, "nothing", ["not told"], counts)
    why = [
        *_false_cause(row, first, deeds),
        *_false_more(row, window, deeds),
        *_false_membership(row, window, deeds),
    ]
    if made is None:
        why = ["the coordinator made no such generation"]
    verdict = WRONG if why else RIGHT
    if not why and code_of(row) == UNKNOWN:
        is_due = first is not None and first.code in unknowable
        verdict = RIGHT if is_due else UNKNOWN
    return RoundVerdict(generation, verdict, true, told_text(row), why, counts)


def _false_sentences(rows: Sequence[Row], begun_ms: int, harm: str) -> list[RoundVerdict]:
    """A verdict for each entry with a sentence that is false."""
    found = []
    for row in rows:
        text = f"{row.get('text') or ''} {row.get('advice') or ''}"
        at_ms = row.get("ended_at_ms") or row.get("at_ms") or 0
        pattern = f"{NOT_READ}|{harm}" if harm and at_ms >= begun_ms else NOT_READ
        if match := re.search(pattern, text):
            why = [f"says: {text[max(0, match.start() - 60) : match.end() + 60].strip()}"]
            number = row.get("generation") or 0
            found.append(RoundVerdict(number, WRONG, "a sentence is false", told_text(row), why))
    return found


# -- one rebalance ---------------------------------------------------------------------------------


def _false_cause(row: Row, first: Reason | None, deeds: Sequence[Deed]) -> list[str]:
    code = code_of(row)
    if code == UNKNOWN or first is None:
        return []
    if code not in codes_of(first, deeds):
        return [f"told {code}, but {reason_text(first)}"]
    cause, wrong = row["cause"], []
    who = cause.get("who") or {}
    name = name_of(who)
    if name and first.name and first.name not in {name, who.get("member")}:
        wrong.append(f"told {code} of {name}, but {reason_text(first)}")
    return wrong + _false_likely(cause, first, deeds)


def _false_likely(cause: Row, reason: Reason, deeds: Sequence[Deed]) -> list[str]:
    likely = cause.get("likely")
    if likely is None:
        return []
    if likely == MAX_POLL and reason.code in {broker_log.LEFT, broker_log.JOINED}:
        stalled = any(each.what == STALLED and each.name == reason.name for each in deeds)
        if stalled or _POLLED_LATE in reason.text:
            return []
    return [f"told the reason {likely}, but {reason_text(reason)}"]


def _false_more(row: Row, window: Sequence[Reason], deeds: Sequence[Deed]) -> list[str]:
    true = {code for each in window for code in codes_of(each, deeds)}
    true |= {"subscription_changed"} if any(each.what == SUBSCRIBED for each in deeds) else set()
    more = [each.get("code") for each in row.get("more_causes") or ()]
    return [f"told {code} as well" for code in more if code not in {*true, UNKNOWN, None}]


def _false_membership(row: Row, window: Sequence[Reason], deeds: Sequence[Deed]) -> list[str]:
    joined = {each.name for each in window if each.code in {broker_log.JOINED, broker_log.RETURNED}}
    added = [name_of(each["who"]) for each in row.get("added") or ()]
    wrong = [f"told that {name} joined" for name in added if name not in joined]
    for each in row.get("removed") or ():
        name, cause = name_of(each["who"]), each.get("cause") or {}
        gone = [one for one in window if one.name == name and one.code in _GONE]
        code = cause.get("code") or UNKNOWN
        fits = [one for one in gone if code == UNKNOWN or code in codes_of(one, deeds)]
        if not gone:
            wrong.append(f"told that {name} is gone")
        elif not fits:
            wrong.append(f"told {code} of {name}, but {reason_text(gone[0])}")
        elif cause.get("likely") and all(_false_likely(cause, one, deeds) for one in fits):
            wrong += _false_likely(cause, fits[0], deeds)
    return wrong


def codes_of(reason: Reason, deeds: Sequence[Deed]) -> tuple[str, ...]:
    """The codes that say the same as a reason in the log."""
    if reason.code == broker_log.JOINED:
        is_static = reason.is_static
        return (_STATIC,) if is_static else (_DYNAMIC,)
    codes = _CODES.get(reason.code, ())
    did = {each.what for each in deeds if each.name == reason.name}
    if SUBSCRIBED in did and reason.code in {broker_log.UPDATED, broker_log.LEADER}:
        codes = ("subscription_changed", *codes)
    if REMOVED in did and reason.code == broker_log.LEFT:
        codes = ("member_removed_by_admin",)
    return codes


# -- in short --------------------------------------------------------------------------------------


def code_of(row: Row) -> str:
    """The code of a told cause."""
    return (row.get("cause") or {}).get("code") or UNKNOWN


def name_of(who: Row | None) -> str:
    """The name of a told member: its instance id or client id."""
    return str((who or {}).get("instance") or (who or {}).get("client_id") or "")


def reason_text(reason: Reason | None) -> str:
    """A reason of the log, in short."""
    if reason is None:
        return "no reason is logged"
    return f"{reason.code} of {reason.name}" if reason.name else f"{reason.code}: {reason.text}"


def told_text(row: Row) -> str:
    """What is told of a rebalance, in short."""
    cause = row.get("cause") or {}
    code = code_of(row) + (f"/{cause['likely']}" if cause.get("likely") else "")
    name = name_of(cause.get("who"))
    more = [str(each.get("code")) for each in row.get("more_causes") or ()]
    text = f"{code} of {name}" if name else code
    return " + ".join([text, *more])
