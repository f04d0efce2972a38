"""Findings of one group: what happens again is one finding, and all ask for one session timeout."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from groupkeeper.analytics.questions.finding import SEVERITIES, Finding, name_of
from groupkeeper.analytics.questions.telling import quoted, times
from groupkeeper.why.texts import setting, some_of


def as_one(alike: Sequence[Finding]) -> Finding:
    """One finding for several about the same group and setting: of the worst the one whose setting
    is enough for the others, too, then the most expensive, then the longest; and how often there
    was one.
    """
    if len(alike) == 1:
        return alike[0]
    told = min(alike, key=lambda each: (SEVERITIES.index(each.severity), *_order(each)))
    rows = [each.row for each in alike]
    names = {name_of(row) for row in rows}
    noun = "client" if any(row.get("client_id") for row in rows) else "instance id"
    since = min((row["from"] for row in rows if row["from"] is not None), default=None)
    until = max((row["until"] for row in rows if row["until"] is not None), default=None)
    own = name_of(told.row)
    others = sorted(name for name in names - {own} if name is not None)
    of = f", with {len(names)} {noun}s: also {some_of(map(quoted, others))}" if others else ""
    costs = [each.cost_s for each in alike if each.cost_s is not None]
    return replace(
        told,
        sentence=f"{told.sentence} It happened {len(alike)} times {times(since, until)}{of}.",
        cost_s=sum(costs) if costs else None,
        times=len(alike),
    )


def asked_of(found: Iterable[Finding]) -> dict[str | None, int]:
    """Group -> the longest `session.timeout.ms` that a finding asks for."""
    asked: dict[str | None, int] = defaultdict(int)
    for each in found:
        group = each.row.get("group")
        asked[group] = max(asked[group], each.session_ms)
    return asked


def agreed(each: Finding, asked_ms: int) -> Finding:
    """A group has one `session.timeout.ms`: a finding that needs less says what others need."""
    least_ms = each.session_ms
    if not 0 < least_ms < asked_ms:
        return each
    wanted = setting("session.timeout.ms", asked_ms)
    sentence = (
        f"{each.sentence} Other findings of this group ask for {wanted}: that is enough here."
    )
    change = dict(each.setting)
    if change.get("proposed"):
        change["proposed"] = change["proposed"].replace(str(least_ms), str(asked_ms))
    return replace(each, sentence=sentence, setting=change)


def _order(each: Finding) -> tuple[int, float, int, int]:
    numbers = [int(number) for number in _NUMBER.findall(each.setting.get("proposed") or "")]
    asked = max(numbers, default=0)
    is_least = each.setting.get("config_key") == "max.poll.records"
    start = each.row["from"] or 0
    length = (each.row["until"] or start) - start
    return asked if is_least else -asked, -(each.cost_s or 0.0), -length, start


_NUMBER: Final = re.compile(r"\d+")
