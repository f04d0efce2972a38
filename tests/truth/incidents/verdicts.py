"""Compares what a layer tells with the truth of an incident: right, unknown or wrong.

Wrong is what contradicts the truth: a code or a reason that is not among its pairs, a sentence or a
setting that harms, a setting that the client does not have. Unknown is less than the truth. An
event that has no reason claims none: it is wrong only if the truth says so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.truth.incidents.layers import EVENTS, LIVE, NONE, PLAIN, UNKNOWN, Heard
from tests.truth.incidents.truths import ANY, Incident, Pair, Truth

RIGHT, WRONG = "right", "wrong"
VERDICTS: Final = (RIGHT, UNKNOWN, WRONG)
_LONGEST_POLL_MS: Final = 300_000

NOT_THERE: Final[Mapping[str, str]] = {
    "confluent": r"max\.poll\.records",
    "java": r"partition\.assignment\.strategy\W{1,3}cooperative-sticky|=cooperative-sticky",
    "franz-go": r"max\.poll\.records",
    "aiokafka": r"cooperative-sticky",
    "connect": r"group\.instance\.id|partition\.assignment\.strategy|max\.poll\.",
    "streams": r"partition\.assignment\.strategy",
}
"""Beginning of a client's name -> settings, or values of settings, that it does not have."""
ALSO: Final[Mapping[str, str]] = {"kafka-python": "leader_rejoined"}
"""Beginning of a client's name -> code that is true of each incident: kafka-python's leader joins
again, unchanged, as soon as it knows the partitions of all topics.
"""
_SESSION: Final = re.compile(r"session\.timeout\.ms=(\d+)")


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """`why`: what was wrong, or is missing."""

    verdict: str
    why: list[str] = field(default_factory=list)


def judge(incident: Incident, layer: str, heard: Heard) -> LayerVerdict:
    """Judge what one layer tells about an incident."""
    truth = incident.truth
    wrong = [*_false_pairs(incident, heard), *_harm(incident, heard)]
    if wrong:
        return LayerVerdict(WRONG, list(dict.fromkeys(wrong)))
    missing = [*_missing(truth, heard), *_not_found(truth, layer, heard)]
    return LayerVerdict(UNKNOWN if missing else RIGHT, missing)


def agrees(told: Pair, true: Pair) -> bool:
    """Whether a pair that was told is one that is true."""
    return told[0] == true[0] and (true[1] in {ANY, told[1]})


def falls_short(told: Pair, true: Pair) -> bool:
    """Whether a pair has less than the truth, and nothing else."""
    return told[0] == UNKNOWN or (told[0] == true[0] and told[1] == NONE)


def _false_pairs(incident: Incident, heard: Heard) -> list[str]:
    name = incident.client.name
    also = {(code, ANY) for begin, code in ALSO.items() if name.startswith(begin)}
    true, wrong = incident.truth.pairs | also, []
    for told in dict.fromkeys((*heard.pairs, *heard.events)):
        is_claim = told in heard.pairs or told[1] != NONE
        fits = any(agrees(told, each) or falls_short(told, each) for each in true)
        if is_claim and not fits and told[0] not in {UNKNOWN, "lost"}:
            wrong.append("told {}/{}".format(*told))
    return wrong


_REFUSED = re.compile(r"No setting is proposed: .*?\.(?=\s|$)")
"""A sentence that names settings to say why they are not proposed, which harms nobody."""


def _harm(incident: Incident, heard: Heard) -> list[str]:
    name = incident.client.name
    absent = [each for begin, each in NOT_THERE.items() if name.startswith(begin)]
    wrong = []
    for sentences in heard.sentences:
        text = _REFUSED.sub("", sentences)
        for pattern in (*incident.truth.harm, *absent):
            if found := re.search(pattern, text):
                at = max(0, found.start() - 60)
                wrong.append(f"says: …{text[at : found.end() + 60]}…")
        sessions = _SESSION.findall(text) if "confluent" in name else ()
        wrong += [
            f"proposes session.timeout.ms={number}, above max.poll.interval.ms"
            for number in sessions
            if int(number) > _LONGEST_POLL_MS
        ]
    return wrong


def _missing(truth: Truth, heard: Heard) -> list[str]:
    told = {*heard.pairs, *heard.events}
    return [
        "missing " + " or ".join("/".join(each) for each in wanted)
        for wanted in truth.needs
        if not any(agrees(each, pair) for each in told for pair in wanted)
    ]


def _not_found(truth: Truth, layer: str, heard: Heard) -> list[str]:
    if not truth.finds or layer not in {EVENTS, PLAIN}:
        return []
    found = any(re.search(truth.finds, text) for text in heard.sentences)
    return [] if found else [f"no finding with {truth.finds}"]


__all__ = ["LIVE", "RIGHT", "UNKNOWN", "VERDICTS", "WRONG", "LayerVerdict", "judge"]
