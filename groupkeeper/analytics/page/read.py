"""The section about the input: amounts, times, source, coverage and damage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow.compute as pc

from groupkeeper.analytics.page.data import Data, PageRow
from groupkeeper.analytics.page.markup import Child, Html, fill, name
from groupkeeper.analytics.page.times import DAY, HOUR, count, day_time, length, share
from groupkeeper.analytics.questions.question import Question
from groupkeeper.analytics.schemas import LOG
from groupkeeper.why.texts import size


@dataclass(frozen=True, slots=True)
class ReportHeader:
    """Facts about the analysis. `questions` describes tables not in `analytics.schemas`."""

    paths: Sequence[str]
    made: datetime
    """With a time zone."""
    version: str
    """Version of Groupkeeper."""
    records: int | None = None
    read_bytes: int | None = None
    choice: str = ""
    """Options that limit the rows: `--since 2d --group billing`."""
    damage: Sequence[str] = ()
    """One sentence per damaged place; empty if the log is sound."""
    not_known: Sequence[str] = ()
    """One sentence, with its reason, per matter the tables cannot answer."""
    questions: Mapping[str, Question] = field(default_factory=dict)


PATHS: Final = 12
"""Maximum number of listed paths, or damaged places; more are counted."""
_INFERRED: Final = Html(
    '<p class="problem"><b>Inferred: </b>the logs have no group events, so rebalances and their '
    "causes were inferred from group records and commits. Each row has a confidence.</p>"
)


def summary(data: Data, about: ReportHeader, findings: list[PageRow]) -> Html:
    """Return the text below the title of the page."""
    told: list[Child] = [_amount(about), " from ", [name(each, 80) for each in about.paths[:1]]]
    if len(about.paths) > 1:
        told.append(f" and {count(len(about.paths) - 1, 'other path')}")
    if about.choice:
        told.append(fill(", only <code>{}</code>", name(about.choice, 200)))
    damage = fill(
        '<div class="problem"><p><b>The log is damaged</b>: this report covers the rest.</p>'
        "<ul>{}</ul></div>",
        _some(about.damage),
    )
    return fill(
        '<p class="quiet">{}</p>{}{}<ul class="tiles">{}</ul>',
        told,
        damage if about.damage else None,
        _INFERRED if data.is_inferred else None,
        [fill("<li>{}</li>", each) for each in _tiles(data, findings)],
    )


def _tiles(data: Data, findings: list[PageRow]) -> list[str]:
    """Return the key numbers."""
    groups, rounds, span = data.groups, data.rounds.num_rows, data.shown.ms
    timed = len(groups) - groups["not_stable_ms"].null_count
    lost, unowned = (pc.sum(groups[each]).as_py() for each in ("not_stable_ms", "no_owner_ms"))
    worst = sum(row["severity"] in ("critical", "high") for row in findings)
    each = rounds / (len(groups) * max(span, HOUR) / DAY or 1)
    rate = count(round(each)) if each >= 10 else f"{each:.2g}" if each >= 0.01 else "less than 0.01"
    found = f"{count(worst)} of them high" if worst else "by severity, the worst first"
    shown = [
        f"{count(len(groups), 'group')} with rebalances",
        f"{count(rounds, 'rebalance')}, {rate} a group and day",
    ]
    if timed:
        shown.append(f"{length(lost)} not stable, {share(lost, timed * span)} of the time")
    if unowned:
        shown.append(f"{length(unowned)} of partition time without an owner")
    if data.has("findings"):
        shown.append(f"{count(len(findings), 'finding')}, {found}")
    return shown


def what_was_read(data: Data, about: ReportHeader) -> Html:
    """Return paths, times, amounts and coverage."""
    paths = _some([fill("<code>{}</code>", name(each, 160)) for each in about.paths])
    span, left = data.span, f"{count(data.left_out, 'rebalance')} without a group or a usable time"
    times = f"{day_time(span.start)} to {day_time(span.end)} UTC, {length(span.ms)}" if span else ""
    facts: dict[str, Child] = {
        "Read": fill('<ul class="plain">{}</ul>', paths),
        "Amount": _amount(about),
        "Time": times or "not known",
        "Source": _source(data),
        "Known from": _known(data),
        "Not known": " ".join(about.not_known),
        "Left out": left if data.left_out else "",
        "Damage": f"{count(len(about.damage))}: see the top" if about.damage else "none",
    }
    told = [fill("<dt>{}</dt><dd>{}</dd>", key, each) for key, each in facts.items() if each]
    return fill('<dl class="read">{}</dl>', told)


def _some(items: Sequence[str]) -> list[Html]:
    """Return the first items, and how many more there are."""
    more = [f"and {count(len(items) - PATHS)} more"] if len(items) > PATHS else []
    return [fill("<li>{}</li>", each) for each in (*items[:PATHS], *more)]


def _amount(about: ReportHeader) -> str:
    records, amount = about.records, about.read_bytes
    told = count(records, "record") if records is not None else "Records"
    return f"{told}, {size(amount)}" if amount is not None else told


def _source(data: Data) -> str:
    rows = data.columns("rounds", ("source", "confidence"))
    if not rows.num_rows:
        return "no rebalance was read"
    inferred = rows.filter(pc.equal(rows["source"].cast("string"), LOG))
    if not inferred.num_rows:
        return "group events: rebalances and causes are those that the coordinator stored"
    sure = pc.min(inferred["confidence"]).as_py()
    how = f", the least sure with confidence {sure:.2f}" if sure is not None else ""
    told = f"{count(inferred.num_rows)} of {count(rows.num_rows, 'rebalance')} inferred{how}"
    is_all = inferred.num_rows == rows.num_rows
    return f"group records and commits: {told}" if is_all else told


def _known(data: Data) -> str:
    rows = data.rows("coverage", ("first_offset", "known_from_offset", "known_from"))
    late = [row for row in rows if (row["known_from_offset"] or 0) > (row["first_offset"] or 0)]
    of = count(len(rows), "partition")
    if not late:
        return f"everything in {of} of the log that was read is known" if rows else "not told"
    since = max((row["known_from"] or 0 for row in late), default=0)
    return (
        f"{count(len(late))} of {of} of the log were compacted or cut, and are known from a later "
        f"offset on{f', the last one from {day_time(since)} UTC on' if since else ''}: see the "
        "table of coverage"
    )
