"""Compares what is told of a consumer group (KIP-848) with what its coordinator's log says: each
epoch is a rebalance, as in `judging`. A group that was converted has generations, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.truth.observed.broker_log import CONSUMER_GONE, EpochTruth, GroupTruth, consumer_code
from tests.truth.observed.judging import (
    MAX_POLL,
    RIGHT,
    UNKNOWN,
    WRONG,
    PlayVerdict,
    RoundVerdict,
    Row,
    code_of,
    judge,
    told_text,
)
from tests.truth.observed.stage import GREW, STALLED, SUBSCRIBED, Deed

_LIKELY_MS: Final = 60_000
"""So long before an epoch a deed may be what is behind it."""


def judge_epochs(
    rows: Sequence[Row], truth: GroupTruth, deeds: Sequence[Deed], begun_ms: int
) -> PlayVerdict:
    """Judge what is told of a consumer group."""
    told = {row["generation"]: row for row in rows if row.get("group_type")}
    verdicts = [
        _judge_epoch(epoch, told.get(epoch), truth.epochs.get(epoch), deeds, begun_ms)
        for epoch in sorted({*truth.epochs, *told})
    ]
    verdicts += _false_events(rows, truth)
    classic = [row for row in rows if row.get("kind") == "round" and not row.get("group_type")]
    verdicts += judge(classic, truth, deeds, begun_ms).rounds
    worst = [each.verdict for each in verdicts if each.counts or each.verdict == WRONG]
    order = (RIGHT, UNKNOWN, WRONG)
    return PlayVerdict(max(worst, key=order.index, default=RIGHT), verdicts)


def _judge_epoch(
    epoch: int, row: Row | None, made: EpochTruth | None, deeds: Sequence[Deed], begun_ms: int
) -> RoundVerdict:
    if made is None:
        return RoundVerdict(epoch, WRONG, "nothing", told_text(row or {}), ["no such epoch"])
    codes = _codes(made, deeds)
    true, counts = " or ".join(codes), made.at_ms >= begun_ms
    if row is None:
        return RoundVerdict(epoch, UNKNOWN, true, "nothing", ["not told"], counts)
    code, why = code_of(row), _false_members(row, made)
    if code not in {*codes, UNKNOWN}:
        why.append(f"told {code}")
    who = ((row.get("cause") or {}).get("who") or {}).get("member")
    if who and made.reasons and who not in {each.member for each in made.reasons}:
        why.append(f"told {code} of another member")
    if abs((row.get("started_at_ms") or 0) - made.at_ms) > 1_000:
        why.append("told another time of its begin")
    why += _false_likely(row, deeds, made)
    verdict = WRONG if why else UNKNOWN if code == UNKNOWN else RIGHT
    return RoundVerdict(epoch, verdict, true, told_text(row), why, counts)


def _codes(made: EpochTruth, deeds: Sequence[Deed]) -> tuple[str, ...]:
    """The codes that say what the log says, or what was done."""
    if made.reasons:
        return tuple(dict.fromkeys(consumer_code(each) for each in made.reasons))
    did = {each.what for each in deeds if made.at_ms - _LIKELY_MS <= each.at_ms <= made.at_ms}
    if SUBSCRIBED in did:
        return ("subscription_changed",)
    return ("topics_changed",) if GREW in did else ("topics_changed", "subscription_changed")


def _false_members(row: Row, made: EpochTruth) -> list[str]:
    """What is told of who came and went that the log does not say."""
    wrong = []
    came = {each.member for each in made.reasons if each.code in {"joined", "replaced"}}
    gone = {each.member: consumer_code(each) for each in made.reasons if each.code in CONSUMER_GONE}
    added = [each["who"] for each in row.get("added") or ()]
    wrong += [f"told that {who} joined" for who in added if who.get("member") not in came]
    for each in row.get("removed") or ():
        name, code = each["who"].get("member"), code_of(each)
        if name not in gone:
            wrong.append(f"told that {each['who'].get('client_id')} is gone")
        elif code not in {gone[name], UNKNOWN}:
            wrong.append(f"told {code} of {each['who'].get('client_id')}, but {gone[name]}")
    return wrong


def _false_likely(row: Row, deeds: Sequence[Deed], made: EpochTruth) -> list[str]:
    likely = (row.get("cause") or {}).get("likely")
    stalled = [each for each in deeds if each.what == STALLED and each.at_ms <= made.at_ms]
    if likely is None or (likely == MAX_POLL and stalled):
        return []
    return [f"told the reason {likely}"]


def _false_events(rows: Sequence[Row], truth: GroupTruth) -> list[RoundVerdict]:
    """A verdict for each member that is told to have come or gone outside of a rebalance."""
    found = []
    logged: Mapping[str, frozenset[str]] = {
        "member_joined": frozenset({"joined", "replaced"}),
        "member_removed": CONSUMER_GONE,
    }
    for row in rows:
        codes = logged.get(row.get("type") or "")
        member = (row.get("who") or {}).get("member")
        true = [each for each in truth.consumer if each.member == member]
        is_about_member = row.get("kind") == "event" and codes is not None
        if is_about_member and not any(each.code in (codes or ()) for each in true):
            found.append(RoundVerdict(0, WRONG, "nothing", f"{row['type']} {member}"))
    return found
